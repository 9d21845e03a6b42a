"""`submit`: what is handed in, and what is refused."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest

from joblog.api.cli.session import user
from joblog.domain.errors import UnknownOutcomeError
from joblog.workers.commands.log import JobLog
from tests.api.cli.terminal import APP, Answer, joblog, run

COUNT = ("submit", "count", *APP, "--args")


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
