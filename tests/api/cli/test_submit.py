"""`submit`: what is handed in, what is refused, and seeing it through."""

import json
import signal
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from joblog.api.cli.session import user
from joblog.domain.errors import StoreUnavailableError, UnknownOutcomeError
from joblog.workers.commands.log import JobLog
from tests.api.cli.terminal import ADA, Answer, joblog, run, started

APP = ("--app", "tests.api.cli.jobs_of_a_user:jobs")
COUNT = ("submit", "count", *APP, "--args")


def row(log: JobLog, job_id: str) -> dict[str, Any]:
    found = log.store.job(UUID(job_id))
    assert found is not None
    return found


# -- what is handed in -----------------------------------------------------------------------------------------------


def test_a_job_is_handed_in_once(log: JobLog, cli: Callable[..., Answer]) -> None:
    first = cli(*COUNT, '{"upto": 3}', "--key", "k", "--json").document
    again = cli(*COUNT, '{"upto": 3}', "--key", "k", "--json").document

    assert first.keys() == {"id", "created", "position", "kind", "queue", "key"}
    assert (first["created"], again["created"], again["id"]) == (True, False, first["id"])
    assert "is there already" in cli(*COUNT, '{"upto": 3}', "--key", "k").out
    assert cli(*COUNT, '{"upto": 4}', "--key", "k").refusal == "key-conflict"
    assert log.job(UUID(first["id"])).owner == user()


def test_every_option_arrives(log: JobLog, cli: Callable[..., Answer]) -> None:
    options = ["--queue", "hooks", "--priority", "2", "--tenant", "t", "--tag", "a", "--tag", "b", "--at", "+2h"]

    job = log.job(UUID(cli(*COUNT, '{"upto": 3}', *options, "--json").document["id"]))

    assert (job.queue, job.priority, job.tenant, job.tags) == ("hooks", 2, "t", ["a", "b"])
    assert timedelta(hours=1, minutes=59) < job.due_at - log.now() <= timedelta(hours=2)
    at = cli(*COUNT, '{"upto": 3}', "--at", "2099-01-01T00:00Z", "--json").document["id"]
    assert log.job(UUID(at)).due_at == datetime(2099, 1, 1, tzinfo=UTC)


def test_arguments_come_from_a_file_or_from_standard_input(
    sqlite_log: JobLog, on_file: Callable[..., Answer], tmp_path: Path
) -> None:
    (tmp_path / "args.json").write_text('{"upto": 5, "folder": "ä"}', encoding="utf-8")

    from_file = on_file(*COUNT, "@args.json", "--json").document["id"]
    from_input = on_file(*COUNT, "-", "--json", stdin='{"upto": 6}').document["id"]

    assert sqlite_log.job(UUID(from_file)).args["folder"] == "ä"
    assert sqlite_log.job(UUID(from_input)).args["upto"] == 6


def test_the_first_submit_makes_the_log_in_this_folder(tmp_path: Path) -> None:
    answer = joblog(*COUNT, '{"upto": 1}')

    assert answer.code == 0
    assert "made sqlite:///joblog.db" in answer.err
    assert (tmp_path / "joblog.db").exists()
    assert joblog(*COUNT, '{"upto": 2}', "--quiet").err == ""


# -- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "refusal"),
    [
        (["nosuch"], "unknown-kind"),
        (["count", "--args", "{"], "invalid-field"),
        (["count", "--args", '{"upto": hunter2}'], "invalid-field"),
        (["count", "--args", "@nosuch.json"], "invalid-field"),
        (["count", "--args", "@."], "invalid-field"),
        (["count", "--args", "@latin"], "invalid-field"),
        (["count", "--args", "@big"], "too-large"),
        (["count", "--args", "[" * 100_000], "too-large"),
        (["count", "--args", '{"upto": "many"}'], "invalid-arguments"),
        (["count"], "invalid-arguments"),
        (["count", "--args", '{"upto": 1, "folder": "ftp://u:hunter2@host"}'], "secret-in-input"),
        (["count", "--args", json.dumps({"upto": 1, "folder": "x" * 70_000})], "too-large"),
        (["count", "--args", '{"upto": 1}', "--at", "soon"], "invalid-field"),
        (["count", "--args", '{"upto": 1}', "--priority", "11"], "invalid-field"),
        (["count", "--args", '{"upto": 1}', "--key", "a\nb"], "unstorable"),
        (["count", "--args", '{"upto": 1}', "--wait", "--timeout", "x"], "invalid-field"),
    ],
)
def test_what_can_not_be_taken(
    sqlite_log: JobLog, on_file: Callable[..., Answer], tmp_path: Path, args: list[str], refusal: str
) -> None:
    (tmp_path / "latin").write_bytes(b'{"folder": "\xe4"}')
    (tmp_path / "big").write_text(" " * 2_000_000, encoding="utf-8")

    answer = on_file("submit", *args, *APP)

    assert (answer.code, answer.refusal, answer.out) == (2, refusal, "")
    assert "hunter2" not in answer.err
    assert sqlite_log.store.head() == 0


@pytest.mark.parametrize(
    ("app", "problem"),
    [
        ("nosuch:jobs", "no module"),
        ("tests.nosuch:jobs", "no module"),
        ("tests.api.cli.jobs_of_a_user:nosuch", "no joblog.Jobs"),
        ("tests.api.cli.jobs_of_a_user:Count", "no joblog.Jobs"),
        ("tests.api.cli.jobs_of_a_user", "no module:attribute"),
        (":", "no module:attribute"),
    ],
)
def test_an_app_that_is_none(app: str, problem: str) -> None:
    answer = joblog("submit", "count", "--app", app)

    assert (answer.code, answer.refusal) == (2, "invalid-field")
    assert problem in answer.err


def test_a_broken_module_of_the_user_keeps_its_traceback(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import not_installed_anywhere\n", encoding="utf-8")

    answer = run("submit", "count", "--app", "broken:jobs", cwd=tmp_path)

    assert answer.code == 1
    assert "Traceback" in answer.err
    assert "not_installed_anywhere" in answer.err


# -- seeing it through -----------------------------------------------------------------------------------------------


def test_without_any_worker_this_process_works(tmp_path: Path) -> None:
    answer = run(*COUNT, '{"upto": 4}', "--wait", cwd=tmp_path)

    assert answer.code == 0, answer.err
    assert "this process works until the job ends" in answer.err
    assert answer.lines[-1].endswith("4 units done")
    assert " ✓ completed in " in answer.lines[-1]


def test_a_document_tells_how_it_ended(tmp_path: Path) -> None:
    document = run(*COUNT, '{"upto": 4}', "--wait", "--json", "--quiet", cwd=tmp_path).document

    assert (document["created"], document["job"]["status"], document["job"]["done"]) == (True, "completed", 4)


@pytest.mark.parametrize("fail", ["fatal", "bad"])
def test_a_failed_job_ends_with_10(tmp_path: Path, fail: str) -> None:
    answer = run(*COUNT, json.dumps({"upto": 1, "fail": fail}), "--wait", cwd=tmp_path)

    assert answer.code == 10
    assert "✕ failed" in answer.lines[-1]
    assert "\x1b" not in answer.out


def test_a_job_that_is_cancelled_or_parked_meanwhile(log: JobLog, database_url: str) -> None:
    for action, end in (("cancel", 11), ("pause", 12)):
        with started("--db", database_url, *COUNT, '{"upto": 1}', "--at", "+1h", "--wait", "--key", action) as process:
            assert process.stdout is not None
            job_id = UUID(process.stdout.readline().split()[1])
            log.command(action, job_id, ADA)
            assert process.wait(20) == end


def test_the_time_is_up(log: JobLog, database_url: str) -> None:
    answer = run("--db", database_url, *COUNT, '{"upto": 1}', "--at", "+1h", "--wait", "--timeout", "0.3s")

    assert answer.code == 12
    assert "◔ queued" in answer.lines[-1]
    assert log.store.find_jobs(limit=2)[0]["status"] == "queued"


def test_what_keeps_it_waiting_is_told_once(
    log: JobLog, cli: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("joblog.api.cli.waiting._HINT_SECONDS", 0.0)

    answer = cli(*COUNT, '{"upto": 1}', "--at", "+1h", "--wait", "--timeout", "0.5s")

    assert answer.code == 12
    assert answer.err.count("It is not due before") == 1
    assert log.store.find_jobs(limit=1)[0]["status"] == "queued"


def test_a_worker_elsewhere_is_left_to_its_work(log: JobLog, database_url: str) -> None:
    with started("--db", database_url, "worker", *APP) as worker:
        assert worker.stderr is not None
        assert "worker" in worker.stderr.readline()
        answer = run("--db", database_url, *COUNT, '{"upto": 5, "wait": 0.1}', "--wait")

    assert answer.code == 0, answer.err
    assert "this process works" not in answer.err
    assert log.store.find_jobs(limit=1)[0]["done"] == 5


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_hands_the_job_back(sqlite_log: JobLog, sqlite_url: str, number: int) -> None:
    with started("--db", sqlite_url, *COUNT, '{"upto": 500, "wait": 0.05}', "--wait") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        job_id = process.stdout.readline().split()[1]
        until_done(sqlite_log, job_id, 2)
        process.send_signal(number)
        said = process.stderr.read()
        end = process.wait(20)

    assert end == 128 + number
    assert "stopping: units go on to their next boundary" in said
    assert f"joblog show {job_id}" in said
    assert row(sqlite_log, job_id)["status"] == "queued"
    assert sqlite_log.store.lease(UUID(job_id)) is None


def test_after_a_kill_the_same_command_goes_on(sqlite_log: JobLog, sqlite_url: str, tmp_path: Path) -> None:
    args = json.dumps({"upto": 30, "wait": 0.05, "folder": str(tmp_path)})
    with started("--db", sqlite_url, *COUNT, args, "--wait", "--key", "k") as process:
        assert process.stdout is not None
        job_id = process.stdout.readline().split()[1]
        until_done(sqlite_log, job_id, 3)
        process.kill()

    answer = run("--db", sqlite_url, *COUNT, args, "--wait", "--key", "k")

    assert answer.code == 0, answer.err
    assert (row(sqlite_log, job_id)["done"], row(sqlite_log, job_id)["reclaims"]) == (30, 1)
    assert "died" in run("--db", sqlite_url, "show", job_id).out


def until_done(log: JobLog, job_id: str, units: int) -> None:
    tick = threading.Event()
    for _ in range(2000):
        if row(log, job_id)["done"] >= units:
            return
        tick.wait(0.01)
    raise TimeoutError(job_id)


def test_the_environment_names_the_app(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBLOG_APP", APP[1])

    assert joblog("submit", "count", "--args", '{"upto": 1}').code == 0


def test_an_unknown_outcome_names_the_key_that_finds_out(
    sqlite_log: JobLog, on_file: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: object) -> None:
        raise UnknownOutcomeError("the answer was lost")

    monkeypatch.setattr(JobLog, "submit", unknown)

    answer = on_file(*COUNT, '{"upto": 1}')

    assert answer.code == 75
    assert "--key " in answer.err
    assert sqlite_log.store.head() == 0


def test_an_account_without_a_name_commands_too(
    sqlite_log: JobLog, on_file: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unnamed(_: int) -> None:
        raise KeyError

    monkeypatch.setattr("pwd.getpwuid", unnamed)

    job_id = on_file(*COUNT, '{"upto": 1}', "--json").document["id"]

    assert sqlite_log.job(UUID(job_id)).owner.startswith("uid ")


def test_a_database_that_restarts_meanwhile_is_waited_for(
    sqlite_log: JobLog, on_file: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, away = JobLog.row, [True, True]

    def sometimes(self: JobLog, job_id: UUID, **more: Any) -> Any:
        if away:
            away.pop()
            raise StoreUnavailableError("gone")
        return real(self, job_id, **more)

    monkeypatch.setattr(JobLog, "row", sometimes)
    monkeypatch.setattr("joblog.api.cli.waiting._IDLE_SECONDS", 0.01)
    monkeypatch.setattr("joblog.api.cli.waiting._somebody_works", lambda *_: True)

    assert on_file(*COUNT, '{"upto": 1}', "--wait", "--timeout", "0.2s").code == 12
    assert away == []
    assert sqlite_log.store.head() == 1
