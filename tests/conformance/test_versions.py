"""An append lands only at the version it was made for; what is wrong in a batch is refused alone (S5)."""

from threading import Barrier
from uuid import uuid4

import orjson
import pytest

from joblog.domain.errors import LeaseLostError, UnitDoneError, VersionConflictError
from joblog.domain.lease import Token
from joblog.eventstore.append import Append, EventRow, Fence, Stored
from joblog.eventstore.store import ConflictError, Store, taking_turn
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import (
    Side,
    a_spec,
    an_append,
    assert_whole,
    claimed,
    refused,
    stored,
    submit,
    unit_append,
    whole_log,
)


def test_the_next_version_lands(log: JobLog) -> None:
    stream = uuid4()

    stored(log.writer.append(an_append(stream, size=2)))
    stored(log.writer.append(an_append(stream, 2)))

    assert [row.version for row in log.store.read(stream)] == [1, 2, 3]


@pytest.mark.parametrize("expected", [0, 1, 3, 9])
def test_any_other_version_is_refused(log: JobLog, expected: int) -> None:
    """Also one ahead of the stream: it would leave a hole that no replay gets over."""
    stream = uuid4()
    log.writer.append(an_append(stream, size=2))

    error = refused(log.writer.append(an_append(stream, expected)))

    assert isinstance(error, VersionConflictError)
    assert error.expected == expected
    assert len(whole_log(log.store)) == 2


def test_a_stream_tells_its_last_version(log: JobLog) -> None:
    held = claimed(log)
    held.complete_units([("a", 1)])

    assert log.store.version_of(held.job_id) == len(log.store.read(held.job_id)) == 4
    assert log.store.version_of(uuid4()) == 0


def test_the_first_version_of_a_new_stream_is_one(log: JobLog) -> None:
    assert isinstance(refused(log.writer.append(an_append(uuid4(), 4))), VersionConflictError)
    assert log.store.head() == 0


def test_the_store_itself_refuses_and_writes_nothing(log: JobLog) -> None:
    stream, writer = uuid4(), log.writer
    log.writer.append(an_append(stream))

    with taking_turn(log.store), pytest.raises(ConflictError):
        log.store.append([an_append(), an_append(stream)], writer.generation, writer.seen)

    assert log.store.head() == 1


def test_a_job_moves_only_with_its_row(backend: Backend, log: JobLog) -> None:
    held = claimed(log)
    append = unit_append(log, held)
    backend.spoil(held.job_id, version=1)

    assert isinstance(refused(log.writer.append(append)), VersionConflictError)
    assert log.store.count_units(held.job_id) == 0


def test_a_bad_append_in_a_batch_is_refused_alone(log: JobLog) -> None:
    taken = uuid4()
    log.writer.append(an_append(taken))
    batch = [an_append(), an_append(taken), an_append(size=2), an_append(taken, 1)]

    answers = log.writer.append_many(batch)

    assert [answer.position if isinstance(answer, Stored) else type(answer) for answer in answers] == [
        2, VersionConflictError, 3, 5,
    ]  # fmt: skip
    assert_whole(log.store)


def test_jobs_of_a_batch_get_each_their_own_answer(log: JobLog) -> None:
    good, done, late = claimed(log), claimed(log), claimed(log)
    stored(log.writer.append(unit_append(log, done)))
    again = unit_append(log, done)
    stale = unit_append(log, late, fence=Fence(Token(1, 9)))

    answers = log.writer.append_many([unit_append(log, good), again, stale])

    assert [type(answer) for answer in answers] == [Stored, UnitDoneError, LeaseLostError]
    assert [log.store.count_units(held.job_id) for held in (good, done, late)] == [1, 1, 0]


def test_two_appends_of_one_stream_in_a_batch_follow_each_other(log: JobLog) -> None:
    stream = uuid4()

    positions = [stored(a) for a in log.writer.append_many([an_append(stream, size=2), an_append(stream, 2)])]

    assert positions == [1, 3]
    assert_whole(log.store)


def test_two_appends_of_one_job_in_a_batch_follow_each_other(log: JobLog) -> None:
    held = claimed(log)
    first = unit_append(log, held, "a")
    job = log.job(held.job_id)
    job.complete_units(held.token, [("a", "proof")], now=log.now())
    job.collect_events()
    job.complete_units(held.token, [("b", "proof")], now=log.now())
    second = log.job_append(job.id, 4, job.collect_events(), log.ids.next(), log.now())
    second.units, second.fence = (("b", 0),), Fence(held.token)

    answers = [stored(answer) for answer in log.writer.append_many([first, second])]

    assert answers == [3, 5]
    assert log.row(held.job_id)["done"] == 2


def test_of_rivals_for_one_version_one_wins(backend: Backend) -> None:
    logs = [backend.open() for _ in range(4)]
    stream = uuid4()
    start = Barrier(4)

    def race(log: JobLog) -> list[bool]:
        won = []
        for expected in range(15):
            start.wait()
            won.append(isinstance(log.writer.append(an_append(stream, expected)), Stored))
        return won

    sides = [Side(lambda log=log: race(log)) for log in logs]  # type: ignore[misc]

    assert [sum(round_) for round_ in zip(*[side.result() for side in sides], strict=True)] == [1] * 15
    assert_whole(logs[0].store)


def test_an_append_to_many_streams_is_all_or_nothing(log: JobLog) -> None:
    stream = uuid4()
    stored_first = log.writer.append_atomic([an_append(stream), an_append(size=2)])
    assert isinstance(stored_first, list)
    assert [position for position, _ in stored_first] == [1, 2]

    answer = log.writer.append_atomic([an_append(), an_append(stream)])

    assert isinstance(answer, VersionConflictError)
    assert log.store.head() == 3


@pytest.mark.parametrize("versions", [(2, 2), (2, 4), (3, 2)])
def test_events_of_one_append_follow_each_other(log: JobLog, versions: tuple[int, ...]) -> None:
    stream = uuid4()
    log.writer.append(an_append(stream))
    rows = [
        EventRow(version, "test.happened", orjson.dumps({"event_id": f"x{i}"})) for i, version in enumerate(versions)
    ]

    answer = log.writer.append(Append(stream, 1, rows, "x0"))

    assert isinstance(refused(answer), VersionConflictError)
    assert [row.version for row in log.store.read(stream)] == [1]


def test_a_second_submit_changes_nothing(log: JobLog, store: Store) -> None:
    first = submit(log, "k", args={"n": 1})
    row = store.job(first)

    again = log.submit(a_spec("k", args={"n": 1}))

    assert (again.job_id, again.created, again.position) == (first, False, 1)
    assert (store.job(first), store.head()) == (row, 1)
