"""Positions are 1..n, without gaps, in the order of commits (S3, S4, S5)."""

from threading import Barrier, Event
from uuid import uuid4

import pytest

from joblog.domain.errors import VersionConflictError
from joblog.eventstore.append import Append
from joblog.eventstore.store import LoggedEvent, Store
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import Side, an_append, assert_whole, refused, stored, whole_log


def test_an_empty_log_ends_at_nought(store: Store) -> None:
    assert (store.head(), whole_log(store), store.state().head) == (0, [], 0)


def test_positions_start_at_one_and_leave_no_gap(log: JobLog) -> None:
    positions = [stored(log.writer.append(an_append(size=size))) for size in (1, 3, 2)]

    assert positions == [1, 2, 5]
    assert log.store.head() == 6
    assert_whole(log.store)


def test_a_batch_lands_in_the_order_in_which_it_was_handed_in(log: JobLog) -> None:
    appends = [an_append(size=size) for size in (2, 1, 3)]

    positions = [stored(answer) for answer in log.writer.append_many(appends)]

    assert positions == [1, 3, 4]
    assert [e.stream_id for e in whole_log(log.store)] == [a.stream_id for a in appends for _ in a.events]


def test_events_come_back_byte_for_byte(log: JobLog) -> None:
    append = an_append(size=2)
    log.writer.append(append)

    assert [tuple(e) for e in whole_log(log.store)] == [
        (1, append.stream_id, 1, "test.happened", append.events[0].state),
        (2, append.stream_id, 2, "test.happened", append.events[1].state),
    ]


def test_a_refused_append_leaves_no_gap(log: JobLog) -> None:
    stream = uuid4()
    log.writer.append(an_append(stream))

    refused(log.writer.append(an_append(stream)))

    assert stored(log.writer.append(an_append())) == 2
    assert_whole(log.store)


def test_two_logs_number_as_one(backend: Backend) -> None:
    one, other = backend.open(), backend.open()

    positions = [stored(log.writer.append(an_append())) for log in (one, other, other, one)]

    assert positions == [1, 2, 3, 4]
    assert one.store.head() == other.store.head() == 4


@pytest.mark.parametrize("writers", [2, 6])
def test_appends_from_several_logs_at_once_are_numbered_without_gaps(backend: Backend, writers: int) -> None:
    logs = [backend.open() for _ in range(writers)]
    start = Barrier(writers)

    def write(log: JobLog) -> list[int]:
        start.wait()
        return [stored(log.writer.append(an_append(size=1 + i % 3))) for i in range(20)]

    sides = [Side(lambda log=log: write(log)) for log in logs]  # type: ignore[misc]
    positions = [position for side in sides for position in side.result()]

    assert len(set(positions)) == 20 * writers
    assert_whole(logs[0].store)
    assert logs[0].store.head() == len(whole_log(logs[0].store))


def test_threads_of_one_log_get_each_the_position_of_their_own_append(log: JobLog) -> None:
    start = Barrier(8)

    def write() -> list[tuple[int, Append]]:
        start.wait()
        appends = [an_append(size=1 + i % 2) for i in range(25)]
        return [(stored(log.writer.append(append)), append) for append in appends]

    written = [pair for side in [Side(write) for _ in range(8)] for pair in side.result()]

    at = {event.position: event.stream_id for event in whole_log(log.store)}
    assert all(at[position] == append.stream_id for position, append in written)
    assert_whole(log.store)


def test_a_follower_never_sees_a_gap(backend: Backend) -> None:
    """Whoever has seen position p has seen everything before it (S4)."""
    writers = [backend.open() for _ in range(3)]
    reader = backend.open()
    done = Event()

    def follow() -> list[LoggedEvent]:
        seen: list[LoggedEvent] = []
        while True:
            is_last = done.is_set()
            found = reader.store.log(len(seen), 7)
            assert [e.position for e in found] == list(range(len(seen) + 1, len(seen) + 1 + len(found)))
            seen += found
            if is_last and not found:
                return seen

    def write(log: JobLog) -> None:
        for i in range(40):
            stored(log.writer.append(an_append(size=1 + i % 3)))

    follower = Side(follow)
    for side in [Side(lambda log=log: write(log)) for log in writers]:  # type: ignore[misc]
        side.result()
    done.set()

    assert follower.result() == whole_log(reader.store)


def test_the_position_of_an_event_is_found(log: JobLog) -> None:
    stream = uuid4()
    log.writer.append(an_append())
    log.writer.append(an_append(stream, size=2))

    assert [log.store.position_of(stream, version) for version in (0, 1, 2, 3)] == [None, 2, 3, None]


def test_a_conflict_while_others_write_leaves_no_gap(backend: Backend) -> None:
    """Half of the appends of each log are refused, in the middle of batches of others."""
    logs = [backend.open() for _ in range(2)]
    stream = uuid4()
    logs[0].writer.append(an_append(stream))

    def write(log: JobLog) -> list[bool]:
        batch = [an_append() if i % 2 else an_append(stream) for i in range(20)]
        answers = log.writer.append_many(batch)
        return [isinstance(answer, VersionConflictError) for answer in answers]

    sides = [Side(lambda log=log: write(log)) for log in logs]  # type: ignore[misc]

    assert [side.result() for side in sides] == [[not i % 2 for i in range(20)]] * 2
    assert logs[0].store.head() == 21
    assert_whole(logs[0].store)
