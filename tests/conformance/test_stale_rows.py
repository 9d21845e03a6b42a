"""A row of the job table says where to look, never what is: the log decides, and makes the row new (EVT-01)."""

import logging
from typing import Any
from uuid import UUID

import pytest

from joblog.projections import job_table, repair
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import assert_whole, claim, claimed, ids, submit

AGAIN = {"status": "queued", "ready": 1, "due_at": 0}


def assert_folded(log: JobLog, job_id: Any) -> None:
    row = log.row(job_id)
    made = repair.fold_row(log.mapper.decode_all(job_id, log.store.read(job_id)))
    assert {name: row[name] for name in made} == made


@pytest.mark.parametrize("end", ["complete", "release"])
def test_a_row_behind_its_stream_causes_no_second_claim(
    backend: Backend, log: JobLog, caplog: pytest.LogCaptureFixture, end: str
) -> None:
    held = claimed(log)
    held.complete() if end == "complete" else held.release("yield", due_at=log.now() + log.leases.lease)
    backend.spoil(held.job_id, version=1, **AGAIN)
    other = submit(log)

    with caplog.at_level(logging.WARNING):
        taken = ids(claim(log))

    assert taken == [other]
    assert f"job {held.job_id}: its row said version 1, its log 3" in caplog.text
    assert_folded(log, held.job_id)
    assert_whole(log.store)


def test_a_running_jobs_row_behind_its_stream_causes_no_second_claim(backend: Backend, log: JobLog) -> None:
    held = claimed(log)
    backend.spoil(held.job_id, version=1, **AGAIN)

    assert claim(log, "other") == []
    assert_folded(log, held.job_id)
    assert held.complete_units([("a", 1)]) == 3


def test_a_row_ahead_of_its_stream_leaves_no_hole(backend: Backend, log: JobLog) -> None:
    job_id = submit(log)
    backend.spoil(job_id, version=7)

    [held] = claim(log)

    assert held.job_id == job_id
    assert [row.version for row in log.store.read(job_id)] == [1, 2]
    assert_folded(log, job_id)


@pytest.mark.parametrize(
    "lie", [{"token": 5}, {"attempt": 9}, {"kind": "other"}, {"priority": 0}, {"exclusive_key": "x"}, {"gate": "y"}]
)
def test_a_row_at_the_right_version_is_believed(backend: Backend, log: JobLog, lie: dict[str, Any]) -> None:
    """Claims don't replay: that a row differs is found by the worker's replay, or by verification."""
    job_id = submit(log)
    backend.spoil(job_id, **lie)

    [held] = claim(log)

    assert held.job_id == job_id
    assert log.job(job_id).version == 2


def test_a_row_that_is_claimable_only_by_its_own_word_hides_nobody(backend: Backend, log: JobLog) -> None:
    """At the right version, but its lease stands: the claim goes on without it."""
    held = claimed(log)
    backend.spoil(held.job_id, **AGAIN)
    other = submit(log)

    assert ids(claim(log)) == [other]
    assert_folded(log, held.job_id)


def test_a_row_of_no_job_is_removed(backend: Backend, log: JobLog) -> None:
    job_id = submit(log)
    row = log.row(job_id)
    ghost = {**row, "id": UUID(int=1), "version": 1}
    insert(backend, ghost)
    other = submit(log)

    assert set(ids(claim(log))) == {job_id, other}
    assert log.store.job(ghost["id"]) is None


def insert(backend: Backend, row: dict[str, Any]) -> None:
    if backend.kind == "memory":
        backend._table()[row["id"]] = row  # type: ignore[attr-defined]
    else:
        marks = ", ".join("?" for _ in row)
        values = [backend.to_id(value) if name == "id" else value for name, value in row.items()]  # type: ignore[attr-defined]
        backend.run(f"INSERT INTO jobs_0 ({', '.join(row)}) VALUES ({marks})", *values)  # type: ignore[attr-defined]


def test_many_stale_rows_do_not_stop_a_claim(backend: Backend, log: JobLog) -> None:
    for _ in range(20):
        held = claimed(log)
        held.complete()
        backend.spoil(held.job_id, version=1, **AGAIN)
    jobs = {submit(log) for _ in range(3)}

    taken = set(ids(claim(log, limit=2))) | set(ids(claim(log, limit=2)))

    assert taken == jobs


def test_a_row_is_not_made_new_from_an_older_log(log: JobLog) -> None:
    """Its holder appends between the repair's reading and writing: a row behind its stream would refuse all that follows."""
    held = claimed(log)
    job_id = held.job_id
    older = repair.fold_row(log.mapper.decode_all(job_id, log.store.read(job_id)))
    held.complete_units([("a", 1)])

    log.store.replace_row(job_id, job_table.with_hints(older, log.store.now()), log.writer.generation)
    log.store.replace_row(job_id, None, log.writer.generation)

    assert log.row(job_id)["version"] == 4
    held.complete_units([("b", 1)])
