"""Verification compares many rows at once and still names the one that differs, wherever it stands, on every database."""

from typing import Any

import pytest

from joblog.projections import view_verify as module
from joblog.projections.views import VIEWS
from joblog.workers.commands.log import JobLog
from tests.clocks import MovedClock
from tests.conformance.backends import Backend, MemoryBackend, SqlBackend
from tests.conformance.builders import claim, submit
from tests.projections.viewing import ALL, differences, runner, verified

VERSIONS = VIEWS["versions"]
JOBS = 5


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches and chunks that end within what a test makes."""
    monkeypatch.setattr(module, "BATCH", 4)
    monkeypatch.setattr(module, "CHUNK", 3)


def lived(backend: Backend) -> JobLog:
    """Two rows of ``job_versions`` for each job, at every position one."""
    log = backend.open()
    for number in range(JOBS):
        submit(log, f"a{number}")
    for number in range(JOBS):
        backend.clock.move(number)
        claim(log, limit=1)
    runner(log).run()
    return log


def found(log: JobLog) -> list[tuple[Any, ...]]:
    return [
        (one.key[0], one.columns if None not in (one.stored, one.folded) else one.stored is None)
        for one in differences(log, VERSIONS)
    ]


def test_the_one_row_that_differs_is_named_wherever_it_stands(database: SqlBackend) -> None:
    log = lived(database)
    assert found(log) == []
    for position in range(1, log.store.head() + 1):
        where = f"WHERE from_position = {position}"
        database.run(f"UPDATE job_versions SET attempt = attempt + 7 {where}")
        assert found(log) == [(position, ["attempt"])]
        database.run(f"UPDATE job_versions SET attempt = attempt - 7 {where}")


def test_rows_that_are_missing_or_too_many_are_named_wherever_they_stand(database: SqlBackend) -> None:
    log = lived(database)
    for position in range(1, log.store.head() + 1, 2):
        database.run(f"UPDATE job_versions SET from_position = {position} + 100 WHERE from_position = {position}")
        assert found(log) == [(position, True), (position + 100, False)]
        database.run(f"UPDATE job_versions SET from_position = {position} WHERE from_position = {position} + 100")
    assert found(log) == []


def test_a_text_that_only_looks_the_same_differs(database: SqlBackend) -> None:
    log = lived(database)
    database.run("UPDATE job_versions SET kind = 'import ' WHERE from_position = 3")

    assert found(log) == [(3, ["kind"])]


def test_the_same_log_has_the_same_digest_in_every_database(database: SqlBackend) -> None:
    log = lived(database)
    with lived(MemoryBackend("memory://", MovedClock())) as other:
        for view in ALL:
            mine, theirs = verified(log, view), verified(other, view)
            assert mine.differences == theirs.differences == 0
            assert (mine.rows, mine.stored_digest) == (theirs.rows, theirs.stored_digest)
