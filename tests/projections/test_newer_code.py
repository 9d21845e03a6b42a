"""Events of newer code: kept, served, never folded by guess; their jobs are left to newer code (S18, EVT-06)."""

from uuid import UUID, uuid4

import orjson
import pytest

from joblog.domain import events as e
from joblog.domain.errors import UnknownEventError
from joblog.eventstore.append import Append, EventRow
from joblog.projections.rebuild import rebuild
from joblog.projections.verify import row_differences
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import ADA, claim, claimed, ids, stored, submit, whole_log
from tests.projections.histories import rows_of
from tests.workers.commands.builders import FUTURE, future


def append_newer(log: JobLog, stream: UUID, version: int, topic: str, **fields: object) -> None:
    """Append one event as newer code does, which keeps the row itself."""
    state = orjson.dumps({"event_id": uuid4().hex, "timestamp": log.now().isoformat(), **fields})
    row = {"version": version, "vocabulary": 2} if log.store.job(stream) else {}
    rows = [EventRow(version, topic, state)]
    stored(log.writer.append(Append(stream, version - 1, rows, orjson.loads(state)["event_id"], row=row)))


def test_its_job_is_parked_by_a_rebuild_and_claimed_by_nobody(backend: Backend) -> None:
    log = backend.open()
    parked, fine = submit(log), submit(log)
    future(log, parked)

    rebuild(log.store, log.mapper, "me")

    row = log.row(parked)
    assert (row["version"], row["vocabulary"], row["ready"]) == (2, 2, 0)
    log.promote()
    assert ids(claim(log)) == [fine]
    with pytest.raises(UnknownEventError, match="run a newer joblog on it"):
        log.job(parked)
    with pytest.raises(UnknownEventError):
        log.command("pause", parked, ADA)
    assert [event.topic for event in whole_log(log.store)].count(FUTURE) == 1


def test_known_events_behind_it_do_not_bring_the_job_back(backend: Backend) -> None:
    """Newer code goes on with the job; its row stays at the end of its log, or newer code could not append any more."""
    log = backend.open()
    held = claimed(log)
    future(log, held.job_id)
    due_at = log.now().isoformat()
    append_newer(log, held.job_id, 4, e.LeaseReleased.TOPIC, cause="yield", due_at=due_at)
    before = rows_of(log)

    for _ in range(2):
        rebuild(log.store, log.mapper, "me")

        row = log.row(held.job_id)
        assert (row["version"], row["vocabulary"], row["status"]) == (4, 2, "queued")
        log.promote()
        assert claim(log) == []
    assert rows_of(log).keys() == before.keys()
    append_newer(log, held.job_id, 5, FUTURE)
    assert list(row_differences(log.store, log.mapper)) == []


def test_a_class_of_events_that_has_a_newer_version_is_one(backend: Backend) -> None:
    log = backend.open()
    job_id = submit(log)
    append_newer(log, job_id, 2, e.PauseRequested.TOPIC, class_version=2)

    rebuild(log.store, log.mapper, "me")

    assert log.row(job_id)["vocabulary"] == 2
    assert claim(log) == []


@pytest.mark.parametrize("topic", ["joblog.schedule.opened", FUTURE])
def test_a_stream_that_is_no_job_makes_no_row(backend: Backend, topic: str) -> None:
    log = backend.open()
    job_id = submit(log)
    stream = uuid4()
    append_newer(log, stream, 1, topic)
    append_newer(log, stream, 2, topic)

    rebuild(log.store, log.mapper, "me")

    assert rows_of(log).keys() == {job_id}
    assert list(row_differences(log.store, log.mapper)) == []
    assert ids(claim(log)) == [job_id]


def test_old_code_neither_commands_nor_completes_it(backend: Backend) -> None:
    log = backend.open()
    held = claimed(log)
    assert held.job.version == 2
    future(log, held.job_id)

    with pytest.raises(UnknownEventError):
        held.complete_units([("a", 1)])
    with pytest.raises(UnknownEventError):
        held.release("yield")
    with pytest.raises(UnknownEventError):
        held.complete()
    assert [row.version for row in log.store.read(held.job_id)] == [1, 2, 3]
