"""A log that was closed serves nobody; what was handed in before is answered."""

import asyncio
from collections.abc import Callable
from threading import Barrier
from typing import Any
from uuid import UUID

import pytest

from joblog.domain.errors import JobLogError, StoreBusyError, StoreClosedError
from joblog.domain.lease import Token
from joblog.eventstore.append import Append, Stored
from joblog.eventstore.store import ClaimQuery, Seen, SnapshotRow, Store
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import Beside, Side, an_append, armed, assert_whole, refused, stored

JOB = UUID(int=1)
QUERY = ClaimQuery(("default",), 1, 1)
CALLS: dict[str, Callable[[Store], Any]] = {
    "state": lambda s: s.state(),
    "append": lambda s: s.append([an_append()], 0, Seen(1, 0)),
    "diagnose": lambda s: s.diagnose(an_append()),
    "raise_epoch": lambda s: s.raise_epoch(an_append(), 2),
    "read": lambda s: s.read(JOB),
    "read_many": lambda s: s.read_many([JOB]),
    "log": lambda s: s.log(0, 1),
    "head": lambda s: s.head(),
    "position_of": lambda s: s.position_of(JOB, 1),
    "snapshot": lambda s: s.snapshot(JOB),
    "put_snapshots": lambda s: s.put_snapshots([(JOB, SnapshotRow(1, "t", b"{}"), 1)]),
    "job": lambda s: s.job(JOB),
    "find_jobs": lambda s: s.find_jobs(),
    "children": lambda s: s.children(JOB),
    "unit_states": lambda s: s.unit_states(JOB),
    "count_units": lambda s: s.count_units(JOB),
    "receipt": lambda s: s.receipt("r"),
    "lease": lambda s: s.lease(JOB),
    "queue_rows": lambda s: s.queue_rows(),
    "claim": lambda s: s.claim(QUERY, lambda _, __: [], 0, Seen(1, 0)),
    "renew": lambda s: s.renew([(JOB, Token(1, 1))], 1),
    "expired": lambda s: s.expired(1),
    "held_by_others": lambda s: s.held_by_others("w", 1),
    "promote": lambda s: s.promote(1),
    "set_gate": lambda s: s.set_gate("g", 1, 0),
    "outlook": lambda s: s.outlook(["default"], "w"),
    "put_list": lambda s: s.put_list(JOB, "l", [b"x"]),
    "get_list": lambda s: s.get_list(JOB, "l"),
    "tracking_position": lambda s: s.tracking_position("f"),
    "track": lambda s: s.track("f", 1),
}


def test_a_closed_store_serves_nobody(backend: Backend) -> None:
    store = backend.open().store
    store.close()
    store.close()

    for name, call in CALLS.items():
        with pytest.raises(StoreClosedError):
            assert call(store) is None, name


@pytest.mark.parametrize("attempt", range(8))
def test_closing_ends_what_reads(log: JobLog, attempt: int) -> None:
    """sqlite3 may crash, or say that memory is short, where a connection is closed under another thread's statement."""
    for _ in range(10 + attempt):
        log.writer.append(an_append())
    start = Barrier(9)

    def read() -> JobLogError:
        start.wait()
        while True:
            try:
                log.store.log(0, 500)
            except JobLogError as error:
                return error

    sides = [Side(read) for _ in range(8)]
    start.wait()
    log.close()

    assert {type(side.result()) for side in sides} == {StoreClosedError}


def test_an_append_after_the_close_is_refused(log: JobLog) -> None:
    log.writer.close()

    with pytest.raises(StoreClosedError):
        log.writer.append(an_append())
    assert isinstance(log.writer.append_atomic([an_append()]), StoreClosedError)
    log.writer.later(lambda: pytest.fail("not to be run"))
    log.writer.close()


def test_closing_answers_everybody(log: JobLog) -> None:
    """Each append in flight is stored or refused; none waits for ever."""
    start = Barrier(9)

    def write() -> list[Any]:
        start.wait()
        answers: list[Any] = []
        while not answers or isinstance(answers[-1], Stored):
            try:
                answers.append(log.writer.append(an_append()))
            except StoreClosedError as error:
                answers.append(error)
        return answers

    sides = [Side(write) for _ in range(8)]
    start.wait()
    log.writer.close()

    answers = [answer for side in sides for answer in side.result()]
    positions = [answer.position for answer in answers if isinstance(answer, Stored)]
    assert sorted(positions) == list(range(1, len(positions) + 1))
    assert all(isinstance(answer, Stored | StoreClosedError) for answer in answers)
    assert_whole(log.store)


def test_an_append_that_comes_while_the_log_closes_is_refused(log: JobLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the writer's last look it would wait for ever."""
    writer, start = log.writer, log.writer._start

    def start_then_close() -> None:
        start()
        writer.close()

    monkeypatch.setattr(writer, "_commit_now", lambda _: False)
    monkeypatch.setattr(writer, "_start", start_then_close)

    with pytest.raises(StoreClosedError):
        Side(lambda: writer.append(an_append())).result()


def test_an_append_that_gets_no_turn_in_time_is_withdrawn(log: JobLog) -> None:
    """It is not written later either."""
    late: list[Any] = []

    def give_up() -> None:
        late.append(log.writer.append(an_append(), timeout=0.05))

    with armed("append.before_commit", Beside(give_up, within=30)):
        stored(log.writer.append(an_append()))
    stored(log.writer.append(an_append()))

    assert isinstance(refused(late[0]), StoreBusyError)
    assert log.store.head() == 2


def test_many_give_up_while_others_are_written(log: JobLog) -> None:
    """Taking a request away while the writer takes its batch breaks neither."""
    start = Barrier(8)

    def write(timeout: float | None) -> list[Any]:
        start.wait()
        return [log.writer.append(an_append(), timeout=timeout) for _ in range(40)]

    sides = [Side(lambda n=n: write(0.0005 * (n % 3) or None)) for n in range(8)]  # type: ignore[misc]

    answers = [answer for side in sides for answer in side.result()]
    assert all(isinstance(answer, Stored | StoreBusyError) for answer in answers)
    assert log.store.head() == sum(isinstance(answer, Stored) for answer in answers)
    assert_whole(log.store)


def test_appends_of_an_event_loop_travel_together(log: JobLog) -> None:
    taken = an_append()
    log.writer.append(taken)
    batch = [an_append(size=2), an_append(taken.stream_id), an_append()]

    async def write() -> list[Any]:
        loop = asyncio.get_running_loop()
        futures = [future for append in batch for future in log.writer.append_soon([append], loop)]
        return await asyncio.gather(*futures)

    answers = asyncio.run(write())

    assert [stored(answers[0]), stored(answers[2])] == [2, 4]
    refused(answers[1])
    assert log.writer.appends == 4


def test_event_loops_and_threads_share_one_writer(log: JobLog) -> None:
    async def task(appends: list[Append]) -> list[int]:
        loop = asyncio.get_running_loop()
        return [stored(await log.writer.append_soon([append], loop)[0]) for append in appends]

    async def tasks() -> list[int]:
        found = await asyncio.gather(*(task([an_append() for _ in range(5)]) for _ in range(10)))
        return [position for positions in found for position in positions]

    def threads() -> list[int]:
        return [stored(log.writer.append(an_append())) for _ in range(40)]

    sides = [Side(lambda: asyncio.run(tasks())), Side(threads), Side(lambda: asyncio.run(tasks())), Side(threads)]

    positions = [position for side in sides for position in side.result()]
    assert sorted(positions) == list(range(1, 181))
    assert_whole(log.store)


def test_a_loop_that_ends_before_its_answer_harms_nobody(log: JobLog) -> None:
    async def give_up() -> None:
        log.writer.append_soon([an_append()], asyncio.get_running_loop())
        await asyncio.to_thread(lambda: None)  # one turn of the loop: the append is on its way

    asyncio.run(give_up())

    stored(log.writer.append(an_append()))
    log.writer.close()
    assert log.store.head() == 2
