"""`worker` and `up`: processes that run jobs until they are told to stop."""

import json
import signal
import subprocess
from pathlib import Path
from uuid import UUID

import pytest

from joblog.workers.commands.log import JobLog
from tests.api.cli.jobs_of_a_user import Count, count
from tests.api.cli.terminal import APP, run, started, until_done


def error_line(process: "subprocess.Popen[str]", containing: str) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if containing in line:
            return line
    raise AssertionError(containing)


def test_a_worker_ends_when_nothing_is_left(log: JobLog, database_url: str) -> None:
    ids = [count.submit(log, Count(3), key=str(number)).job_id for number in range(4)]

    answer = run("--db", database_url, "worker", "--until-idle", "--slots", "2", *APP)

    assert answer.code == 0, answer.err
    assert {row["status"] for row in log.store.jobs(ids).values()} == {"completed"}
    assert "it runs count, import.file" in answer.err
    assert answer.out == ""


def test_it_serves_its_queues_only(log: JobLog, database_url: str) -> None:
    mine = [count.submit(log, Count(1), queue=queue, key=queue).job_id for queue in ("a", "b", "c")]
    other = count.submit(log, Count(1), queue="other").job_id

    run("--db", database_url, "worker", "--until-idle", "-q", "a,b", "-q", "c", "--name", "mine", *APP)

    assert {log.row(job)["status"] for job in mine} == {"completed"}
    assert log.row(other)["status"] == "queued"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_drains(log: JobLog, database_url: str, number: int) -> None:
    job_id = count.submit(log, Count(1000, wait=0.05)).job_id
    with started("--db", database_url, "worker", "--json", *APP) as process:
        until_done(log, str(job_id), 2)
        process.send_signal(number)
        error_line(process, "stopping: units go on to their next boundary")
        assert process.wait(20) == 128 + number
        assert process.stdout is not None
        assert json.loads(process.stdout.read())["stopped_by"] == number

    row = log.row(job_id)
    assert (row["status"], row["reclaims"]) == ("queued", 0)
    assert log.store.lease(job_id) is None


def test_the_second_signal_stops_at_once(log: JobLog, database_url: str) -> None:
    job_id = count.submit(log, Count(2, wait=30)).job_id
    with started("--db", database_url, "worker", *APP) as process:
        until_done(log, str(job_id), 1)
        process.send_signal(signal.SIGTERM)
        error_line(process, "stopping: units go on")
        process.send_signal(signal.SIGTERM)
        error_line(process, "stopping at once")
        assert process.wait(20) == 143


def test_up_makes_the_log_and_works(tmp_path: Path) -> None:
    made = run("up", "--until-idle", cwd=tmp_path)

    assert made.code == 0, made.err
    assert "made sqlite:///joblog.db" in made.err
    assert (tmp_path / "joblog.db").exists()
    assert run("worker", "--until-idle", "--quiet", cwd=tmp_path).err == ""


def test_a_worker_makes_no_log(tmp_path: Path) -> None:
    answer = run("worker", "--until-idle", cwd=tmp_path)

    assert (answer.code, answer.refusal) == (5, "schema-missing")


@pytest.mark.parametrize(
    "args", [["--slots", "0"], ["--grace", "x"], ["--queue", "a\nb"], ["--queue", ","], ["--poll", ""]]
)
def test_settings_that_can_not_work(tmp_path: Path, args: list[str]) -> None:
    assert run("up", *args, cwd=tmp_path).code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_dead_worker_is_followed_by_another(log: JobLog, database_url: str, tmp_path: Path) -> None:
    job_id = count.submit(log, Count(20, folder=str(tmp_path), wait=0.05)).job_id
    with started("--db", database_url, "worker", "--name", "first", *APP) as process:
        until_done(log, str(job_id), 3)
        process.kill()
    answer = run("--db", database_url, "worker", "--until-idle", "--name", "second", *APP)

    assert answer.code == 0, answer.err
    assert log.row(UUID(str(job_id)))["done"] == 20
    history = run("--db", database_url, "show", str(job_id)).out
    assert "first died" in history
    assert "second took it back" in history
