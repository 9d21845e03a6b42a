"""`doctor`: what it finds, and that it never falls over what it finds."""

import fcntl
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from joblog.api.cli import checks, lock_holder
from joblog.domain.spec import JobSpec
from joblog.eventstore import inspection
from joblog.workers.commands.log import JobLog
from tests.api.cli.terminal import ADA, Answer, claimed, joblog, level, submit, work


def test_a_healthy_log(log: JobLog, cli: Callable[..., Answer]) -> None:
    submit(log, "1")
    work(claimed(log), 1)
    log.control_queue("hooks", "pause", ADA)

    answer = cli("doctor", "--json")

    assert answer.code == 0
    assert {check["level"] for check in answer.document["checks"]} == {"ok"}, answer.out
    names = {check["name"] for check in answer.document["checks"]}
    assert names >= {
        "settings",
        "log",
        "schema",
        "durability",
        "clock",
        "leases",
        "due",
        "workers",
        "job-table",
        "queues",
    }
    assert cli("doctor").out.count("✓") == len(answer.document["checks"])


def test_there_is_no_log(tmp_path: Path) -> None:
    answer = joblog("doctor", "--json")

    assert answer.code == 6
    assert level(answer, "database") == "fail"
    assert list(tmp_path.iterdir()) == []


def test_there_is_no_folder() -> None:
    answer = joblog("doctor", "--json", "--db", "sqlite:///no/such/folder/x.db")

    assert answer.code == 6
    assert level(answer, "folder") == "fail"


def test_a_database_that_does_not_answer_is_a_finding() -> None:
    answer = joblog("doctor", "--json", "--db", "postgresql://ada:hunter2@127.0.0.1:1/x")

    assert answer.code == 6
    assert level(answer, "database") == "fail"
    assert level(answer, "settings") == "warn"  # the password stands in the list of processes
    assert "hunter2" not in answer.out


def test_a_file_of_something_else(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "joblog.db") as other:
        other.execute("CREATE TABLE recipes (id)")
    other.close()

    answer = joblog("doctor")

    assert answer.code == 6
    assert "[unsafe-store]" in answer.out


def test_a_row_that_does_not_say_what_the_log_says(log: JobLog, cli: Callable[..., Answer]) -> None:
    submit(log)
    with log.store.writing("claim") as cursor:  # type: ignore[attr-defined]
        cursor.execute("UPDATE jobs_0 SET kind = 'another'")

    answer = cli("doctor", "--json")

    assert answer.code == 6
    assert level(answer, "job-table") == "fail"


def test_what_is_due_and_not_taken_is_told(
    log: JobLog, cli: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(log, "1", queue="hooks")
    submit(log, "2", queue="held")
    log.control_queue("held", "pause", ADA)
    monkeypatch.setattr(checks, "_LATE", -1.0)

    answer = cli("doctor", "--json")

    assert answer.code == 0
    (due,) = [check for check in answer.document["checks"] if check["name"] == "due"]
    assert due["level"] == "warn"
    assert "hooks" in due["text"]
    assert "held" not in due["text"]


def test_a_lease_that_nobody_takes_back_is_told(
    log: JobLog, cli: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(log)
    claimed(log)
    log.raise_epoch(ADA, reason="voids every lease")
    monkeypatch.setattr(checks, "_STALE", -1.0)

    assert level(cli("doctor", "--json"), "leases") == "warn"


def test_settings_that_lose_events_are_told(
    log: JobLog, cli: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    unsafe = {"synchronous": "1", "journal_mode": "wal", "wal_autocheckpoint": "0", "recursive_triggers": "1"}
    unsafe |= {"fsync": "off", "server_version": "18", "wal_level": "replica", "max_connections": "1"}
    monkeypatch.setattr(inspection, "settings", lambda _: unsafe)
    monkeypatch.setattr(checks, "_OFFSET_WARN", -1.0)
    monkeypatch.setattr(checks, "_LONG_WAL", -1)
    monkeypatch.setattr(checks, "_LITTLE", 10**30)

    answer = cli("doctor", "--json")

    assert answer.code == 6
    assert level(answer, "durability") == "fail"
    assert level(answer, "clock") == "warn"
    if log.store.dialect == "sqlite":
        assert (level(answer, "wal"), level(answer, "disk")) == ("warn", "warn")
    else:
        assert level(answer, "connections") == "warn"


def test_a_stopped_process_that_holds_the_writer_lock_is_named(
    sqlite_log: JobLog, on_file: Callable[..., Answer], tmp_path: Path
) -> None:
    submit(sqlite_log)
    holding = f"import fcntl, sys; f = open({str(tmp_path / 'joblog.db.writer')!r}); fcntl.flock(f, fcntl.LOCK_EX);"
    with subprocess.Popen(
        [sys.executable, "-c", holding + "print(flush=True); sys.stdin.read()"], stdin=-1, stdout=-1
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        os.kill(holder.pid, signal.SIGSTOP)
        try:
            stopped = on_file("doctor")
        finally:
            os.kill(holder.pid, signal.SIGCONT)
        slow = lock_holder.find(tmp_path / "joblog.db.writer")
        holder.kill()

    assert stopped.code == 6
    assert f"process {holder.pid} holds it and is stopped" in stopped.out
    assert f"kill -CONT {holder.pid}" in stopped.out
    assert slow is not None
    assert (slow.pid, slow.is_stopped) == (holder.pid, False)


def test_a_lock_whose_holder_can_not_be_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_holder, "_PATIENCE", 0.05)
    monkeypatch.setattr(lock_holder, "_pid", lambda _: 0)
    lock = tmp_path / "joblog.db.writer"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)

        check = checks.of_writer_lock(tmp_path / "joblog.db")

    assert (check.level, check.text.startswith("process ? has held it")) == ("warn", True)


# -- what can go wrong on the machine --------------------------------------------------------------------------------


def test_a_folder_that_takes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(checks.tempfile, "TemporaryFile", refused)  # type: ignore[attr-defined]
    monkeypatch.setattr("joblog.workers.presence.is_local", lambda _: False)

    found = {check.name: check for check in checks.of_folder(tmp_path / "joblog.db")}

    assert (found["folder"].level, found["file-system"].level) == ("fail", "fail")


def test_a_newer_schema_that_we_may_still_use(
    log: JobLog, cli: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    log.store.track("audit", 0)
    monkeypatch.setattr(checks, "SCHEMA_VERSION", 0)

    answer = cli("doctor", "--json")

    assert answer.code == 0
    assert (level(answer, "schema"), level(answer, "follower")) == ("warn", "ok")


def test_a_due_job_that_nobody_even_made_ready(
    log: JobLog, cli: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(log, due_at=log.now() + timedelta(hours=1))
    monkeypatch.setattr(checks, "_LATE", -7200.0)

    answer = cli("doctor", "--json")

    (due,) = [check for check in answer.document["checks"] if check["name"] == "due"]
    assert "made ready" in due["text"]


def test_what_is_on_its_way_into_the_log(sqlite_log: JobLog, on_file: Callable[..., Answer]) -> None:
    with sqlite_log.store.engine.begin() as connection:  # type: ignore[attr-defined]
        sqlite_log.submit_in(connection, JobSpec("demo.kind", key="k"))

    assert "1 submit on the way into the log" in on_file("doctor").out
