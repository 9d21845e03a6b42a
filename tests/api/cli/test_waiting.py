"""`submit --wait`: seeing a job through, with a worker here or elsewhere."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from joblog.domain.errors import StoreUnavailableError
from joblog.workers.commands.log import JobLog
from tests.api.cli.terminal import ADA, APP, Answer, row, run, started, until_done

COUNT = ("submit", "count", *APP, "--args")


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
