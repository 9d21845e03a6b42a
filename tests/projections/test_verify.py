"""Verification finds every place where a table does not say what the log says."""

import pytest

from joblog.eventstore.schema import HINTS, JOB_COLUMNS
from joblog.projections.compare import compare
from joblog.projections.rebuild import rebuild
from joblog.projections.verify import Difference, row_differences, unit_differences
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import claimed, submit
from tests.projections.tampering import drop_row, forge_row, forge_unit
from tests.workers.commands.builders import FUTURE, forget_unit, future, units

NUMBERS = {
    "vocabulary", "priority", "due_at", "token", "attempt", "unit_attempt", "crashes", "reclaims", "failures", "done",
    "skipped", "total", "sequence", "created_at", "updated_at", "started_at", "last_attempt_at", "finished_at",
}  # fmt: skip
COLUMNS = [name for name in JOB_COLUMNS if name not in HINTS | {"id", "version"}]


def differences(log: JobLog) -> list[Difference]:
    return list(row_differences(log.store, log.mapper))


@pytest.mark.parametrize("column", COLUMNS)
def test_a_column_that_was_changed_is_named(backend: Backend, column: str) -> None:
    log = backend.open()
    submit(log)
    held = claimed(log)
    held.complete_units(units("a"), cursor=1)
    before = log.row(held.job_id)[column]
    planted = 77 if column in NUMBERS else "paused" if column == "status" else '"x"'

    backend.spoil(held.job_id, **{column: planted})

    assert differences(log) == [Difference(held.job_id, column, planted, before)]


def test_hints_are_no_differences(backend: Backend) -> None:
    log = backend.open()
    job_id = submit(log)
    backend.spoil(job_id, ready=0, blocked=1)

    assert differences(log) == []


def test_a_row_behind_its_log_is_compared_with_the_log_of_its_version(backend: Backend) -> None:
    """Workers may be between the two; at rest, the claim and every append find it."""
    log = backend.open()
    held = claimed(log)
    held.complete_units(units("a"))
    backend.spoil(held.job_id, version=2)

    found = {difference.what for difference in differences(log)}
    assert found >= {"done", "sequence"}


def test_a_row_that_is_missing(backend: Backend) -> None:
    log = backend.open()
    submit(log)
    job_id = submit(log)
    drop_row(backend, job_id)

    assert differences(log) == [Difference(job_id, "row", None, "a submitted job")]


def test_a_row_of_no_job(backend: Backend) -> None:
    log = backend.open()
    ghost = forge_row(backend, log.row(submit(log)))

    assert differences(log) == [Difference(ghost, "row", "a row", None)]
    told = compare(log.store, log.mapper, "jobs", units=True)
    assert (told["rows"], told["differences"]) == (1, 1)
    assert told["items"] == [{"job": str(ghost), "what": "row", "stored": "a row", "log": None}]


def test_a_rebuild_mends_every_row(backend: Backend) -> None:
    log = backend.open()
    jobs = [submit(log) for _ in range(4)]
    backend.spoil(jobs[0], priority=0, status="failed")
    drop_row(backend, jobs[1])
    forge_row(backend, log.row(jobs[2]))
    assert len(differences(log)) == 4

    rebuild(log.store, log.mapper, "me")

    assert differences(log) == []


def test_units_that_were_tampered_with_are_named(backend: Backend) -> None:
    log = backend.open()
    held = claimed(log)
    held.complete_units(units("a", "b", "c"))
    assert list(unit_differences(log.store, log.mapper, held.job_id)) == []
    logged = log.store.unit_states(held.job_id)

    forget_unit(backend, held.job_id, "a")
    forget_unit(backend, held.job_id, "b")
    forge_unit(backend, held.job_id, "b", logged["c"])
    forge_unit(backend, held.job_id, "d", b"forged")

    assert list(unit_differences(log.store, log.mapper, held.job_id)) == [
        Difference(held.job_id, "unit a", None, logged["a"]),
        Difference(held.job_id, "unit b", logged["c"], logged["b"]),
        Difference(held.job_id, "unit d", b"forged", None),
    ]


def test_a_job_of_newer_code_stops_no_verification(backend: Backend) -> None:
    """EVT-06, S18: of such a job only one thing can be told: whether its row is parked."""
    log = backend.open()
    parked, hidden, wrong = (submit(log) for _ in range(3))
    future(log, parked)
    future(log, hidden)
    backend.spoil(hidden, vocabulary=1)
    backend.spoil(wrong, done=7)

    assert sorted(differences(log)) == sorted(
        [Difference(hidden, "vocabulary", 1, "over 1"), Difference(wrong, "done", 7, 0)]
    )
    assert list(unit_differences(log.store, log.mapper, parked)) == []
    assert [row.topic for row in log.store.read(parked)][-1] == FUTURE
