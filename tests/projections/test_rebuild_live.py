"""A rebuild while others work: workers go on, readers see the old rows or the new ones, whole (S14)."""

from pathlib import Path
from threading import Event

import pytest

from joblog.domain.errors import JobLogError, StoreBusyError
from joblog.projections.rebuild import rebuild
from joblog.projections.verify import row_differences, unit_differences
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend, PostgresBackend
from tests.conformance.builders import ADA, Side, armed, assert_whole, claim, claimed, submit, unit_append
from tests.projections import children
from tests.projections.histories import rows_of

JOBS = 40


def work(log: JobLog, done: Event) -> int:
    """Take jobs until there are none; returns how many units were done."""
    count = 0
    while True:
        if not (held := log.claim("w", limit=3)):
            break
        for one in held:
            for number in range(5):
                one.complete_units([(f"u{number}", number)], cursor=number)
                count += 1
            one.complete()
    done.set()
    return count


def read(log: JobLog, done: Event) -> int:
    """Count the jobs in every way again and again: there are never fewer than were submitted."""
    rounds = 0
    jobs = [row["id"] for row in log.store.find_jobs(limit=1000)]
    while not done.is_set():
        assert len(log.store.find_jobs(limit=1000)) >= JOBS
        assert len(log.store.jobs(jobs)) == len(jobs)
        assert log.store.job(jobs[rounds % len(jobs)]) is not None
        rounds += 1
    return rounds


def test_a_backup_that_reads_the_old_rows_stops_a_rebuild_and_nothing_else(database: Backend) -> None:
    """PostgreSQL: emptying the old table waits for its readers, and whoever appends would wait for that."""
    if not isinstance(database, PostgresBackend):
        pytest.skip("SQLite's readers stand in nobody's way")
    log = database.open()
    submit(log)
    with database.connection() as backup:
        backup.execute("BEGIN")
        backup.execute("SELECT count(*) FROM jobs_1")

        with pytest.raises(StoreBusyError, match="try again"):
            rebuild(log.store, log.mapper, "me")
        submit(log)
        with pytest.raises(StoreBusyError, match="try again"):
            log.store.rebuild_drop_old()
        submit(log)

    rebuild(log.store, log.mapper, "me")
    assert len(rows_of(log)) == 3


@pytest.mark.faults
def test_a_process_that_rebuilds_all_the_time_disturbs_nobody(database: Backend, tmp_path: Path) -> None:
    log, other, reader = (database.open() for _ in range(3))
    for _ in range(JOBS):
        submit(log)
    stop, done = tmp_path / "stop", [Event(), Event()]
    child = children.start(database.url, until=str(stop))
    children.go(child)

    workers = [Side(lambda log=log, end=end: work(log, end)) for log, end in zip((log, other), done, strict=True)]  # type: ignore[misc]
    readers = Side(lambda: read(reader, done[0]))
    try:
        units = sum(worker.result() for worker in workers)
    finally:
        stop.touch()
        code, rebuilds = children.end(child)

    assert (code, units) == (0, JOBS * 5)
    assert readers.result() > 0
    assert int(rebuilds) == log.store.state().generation > 0
    assert {row["status"] for row in rows_of(log).values()} == {"completed"}
    assert_whole(log.store)
    assert list(row_differences(log.store, log.mapper)) == []


def test_what_is_appended_until_the_switch_is_in_the_new_rows(backend: Backend) -> None:
    """Also between the last batch and the switch."""
    log, other = backend.open(), backend.open()
    held = claimed(log)

    def come_between(_: object) -> None:
        other.submit_many([])
        held.complete_units([(f"u{held.job.done}", 1)])
        submit(other)

    rebuild(log.store, log.mapper, "me", report=come_between)

    assert len(rows_of(log)) == 2
    assert log.row(held.job_id)["done"] == 1
    assert list(row_differences(log.store, log.mapper)) == []


@pytest.mark.parametrize("old_rows", ["are there", "are gone"])
def test_an_append_that_was_made_for_the_old_generation_follows(backend: Backend, old_rows: str) -> None:
    """Whatever it is: a unit, a submit, a command, a claim, a takeover, an end."""
    log, other = backend.open(), backend.open()

    def switch() -> None:
        rebuild(log.store, log.mapper, "me")
        if old_rows == "are gone":
            log.store.rebuild_drop_old()

    switch()
    job_id = submit(other)
    switch()
    [held] = other.claim("w")
    switch()
    held.complete_units([("a", 1)])
    switch()
    other.command("pause", job_id, ADA)
    switch()
    other.promote()
    held.release("yield")
    switch()
    other.command("resume", job_id, ADA)
    switch()
    [held] = other.claim("w")
    switch()
    backend.clock.move(31)
    assert len(other.expire("reaper")) == 1
    switch()
    claim(other)[0].complete()

    assert other.row(job_id)["status"] == "completed"
    assert log.store.state().generation == 9
    assert list(row_differences(log.store, log.mapper)) == []
    assert list(unit_differences(log.store, log.mapper, job_id)) == []


def test_a_switch_in_the_middle_of_an_append_is_followed(backend: Backend) -> None:
    """The generation is compared under the log's lock."""
    log, other = backend.open(), backend.open()
    held = claimed(other)
    append = unit_append(other, held)
    switched: list[int] = []

    def switch() -> None:
        if not switched:
            switched.append(1)
            rebuild(log.store, log.mapper, "me")

    point = "append.before_commit" if backend.kind == "postgres" else "append.diagnosing"
    with armed(point, switch):
        answer = other.writer.append(append)

    assert not isinstance(answer, JobLogError)
    assert other.row(held.job_id)["done"] == 1
    assert list(row_differences(log.store, log.mapper)) == []


def test_verifying_while_others_work_finds_nothing(backend: Backend) -> None:
    log, other = backend.open(), backend.open()
    for _ in range(10):
        submit(log)
    done = Event()
    worker = Side(lambda: work(other, done))
    while not done.is_set():
        assert list(row_differences(log.store, log.mapper)) == []
    worker.result()

    assert list(row_differences(log.store, log.mapper)) == []
