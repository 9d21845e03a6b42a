"""A snapshot shortens a replay, never changes it: the newest is kept, a bad one is passed over (S15)."""

import logging
from typing import Any

import orjson
import pytest

from joblog.domain.errors import JobNotFoundError
from joblog.domain.snapshot import JobSnapshot
from joblog.eventstore.store import SnapshotRow
from joblog.workers.commands import log as log_module
from joblog.workers.commands.held import Held
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import armed, claimed, submit
from tests.domain.builders import state


def worked(log: JobLog, units: int = 5) -> Held:
    held = claimed(log, tags=("x",))
    for n in range(units):
        held.complete_units([(f"u{n}", n)], cursor={"n": n})
    return held


def snapshot_of(log: JobLog, job_id: Any, version: int, **changes: Any) -> SnapshotRow:
    _, at, topic, stored = log.mapper.encode(JobSnapshot.take(log.job(job_id, version=version)), "")
    return SnapshotRow(at, topic, orjson.dumps(orjson.loads(stored) | changes))


def test_a_stream_has_no_snapshot_at_first(log: JobLog) -> None:
    held = worked(log)

    assert log.store.snapshot(held.job_id) is None
    assert log.store.read_many([held.job_id])[held.job_id][0] is None


def test_snapshot_and_tail_are_the_job_at_every_version(log: JobLog) -> None:
    """S15."""
    job_id = worked(log).job_id
    whole = log.job(job_id)

    for version in range(1, whole.version + 1):
        log.store.put_snapshots([(job_id, snapshot_of(log, job_id, version), 1)])
        snapshot, tail = log.store.read_many([job_id])[job_id]
        assert snapshot is not None
        assert (snapshot.version, len(tail)) == (version, whole.version - version)
        assert state(log.job(job_id)) == state(whole)


def test_the_newest_snapshot_is_kept(log: JobLog) -> None:
    job_id = worked(log).job_id
    newer, older = snapshot_of(log, job_id, 8), snapshot_of(log, job_id, 4)

    for row in (newer, older, newer):
        log.store.put_snapshots([(job_id, row, 1)])

    assert log.store.snapshot(job_id) == newer


def test_snapshots_of_many_streams_are_kept_at_once(log: JobLog) -> None:
    jobs = [worked(log, 2).job_id for _ in range(3)]

    log.store.put_snapshots([(job_id, snapshot_of(log, job_id, 4), 1) for job_id in jobs])
    log.store.put_snapshots([])

    loaded = log.load(jobs)
    assert [loaded[job_id].version for job_id in jobs] == [6] * 3
    assert [log.store.snapshot(job_id) is not None for job_id in jobs] == [True] * 3


@pytest.mark.parametrize("changes", [{"vocabulary": 2}, {"class_version": 2}])
def test_a_snapshot_of_newer_code_is_passed_over(log: JobLog, changes: dict[str, Any]) -> None:
    """S18: the log itself is replayed, from the first event."""
    job_id = worked(log).job_id
    whole = log.job(job_id)
    row = snapshot_of(log, job_id, 6, state={}, **changes)
    log.store.put_snapshots([(job_id, row, 2)])

    assert state(log.job(job_id)) == state(whole)


def test_a_snapshot_is_taken_every_so_many_events(log: JobLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "SNAPSHOT_EVERY", 8)
    job_id = worked(log, units=7).job_id
    log.writer.close()

    snapshot = log.store.snapshot(job_id)

    assert snapshot is not None
    assert snapshot.version in {8, 16}
    assert log.job(job_id).done == 7


def test_a_snapshot_that_fails_fails_no_save(
    log: JobLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """P3."""
    monkeypatch.setattr(log_module, "SNAPSHOT_EVERY", 2)

    def fail() -> None:
        raise RuntimeError("no room for a snapshot")

    with armed("snapshot.before_commit", fail), caplog.at_level(logging.WARNING):
        held = worked(log, units=3)
        log.writer.close()

    assert "no room for a snapshot" in caplog.text
    assert log.store.snapshot(held.job_id) is None
    assert log.row(held.job_id)["done"] == 3


def test_a_snapshot_outlives_the_process_or_is_not_needed(backend: Backend, log: JobLog) -> None:
    job_id = worked(log).job_id
    whole = state(log.job(job_id))
    log.store.put_snapshots([(job_id, snapshot_of(log, job_id, 7), 1)])

    again = backend.reopen(log)

    assert state(again.job(job_id)) == whole


def test_a_stream_without_events_is_not_loaded(log: JobLog) -> None:
    job_id = submit(log)

    assert set(log.load([job_id, log.store.state().store_id])) == {job_id}
    with pytest.raises(JobNotFoundError):
        log.job(log.store.state().store_id)
