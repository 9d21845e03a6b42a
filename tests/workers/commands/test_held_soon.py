"""The same commands on an event loop, which is never blocked."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event, current_thread
from typing import Any
from uuid import UUID

import pytest

from joblog.domain.errors import (
    IncompleteError,
    LeaseLostError,
    StoreClosedError,
    UnitConflictError,
    UnitDoneError,
    UnstorableError,
)
from joblog.workers.commands.held import Held
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import BOUND, armed, claim, claimed, submit
from tests.workers.commands.builders import an_actor, die, replayed, topics, units


class Gate:
    """A place that threads stop at until the test lets them go on."""

    def __init__(self) -> None:
        self._reached, self._open = Event(), Event()

    def stop(self) -> None:
        self._reached.set()
        assert self._open.wait(BOUND), "nobody opened the gate: the event loop was blocked"

    async def reached(self) -> None:
        assert await asyncio.to_thread(self._reached.wait, BOUND), "nobody came"

    def open(self) -> None:
        self._open.set()


@contextmanager
def threads_noted(log: JobLog) -> Iterator[set[str]]:
    """Note the names of the threads that use the store."""
    names: set[str] = set()
    kept = {name: getattr(log.store, name) for name in ("append", "read_many", "diagnose", "put_snapshots", "turn")}

    def noting(call: Any) -> Any:
        def noted(*args: Any, **more: Any) -> Any:
            names.add(current_thread().name)
            return call(*args, **more)

        return noted

    for name, call in kept.items():
        setattr(log.store, name, noting(call))
    try:
        yield names
    finally:
        for name in kept:
            delattr(log.store, name)


def test_units_and_the_end_of_a_job(log: JobLog) -> None:
    held = claimed(log)

    async def work() -> list[int]:
        return [
            await held.complete_units_soon(units("a", "b"), cursor=2, tallies={"rows": 20}),
            await held.complete_units_soon(units("c"), advance=0),
            await held.complete_units_soon([], advance=1),
            await held.complete_soon({"rows": 30}),
        ]

    assert asyncio.run(work()) == [3, 6, 7, 8]
    job = log.job(held.job_id)
    assert (job.status, job.done, job.tallies, job.result) == ("completed", 3, {"rows": 20}, {"rows": 30})


def test_each_refusal_is_raised_where_it_is_awaited(log: JobLog) -> None:
    held = claimed(log)

    async def work() -> None:
        await held.complete_units_soon([("a", 1)])
        for error, attempt in (
            (UnitDoneError, held.complete_units_soon([("a", 1)])),
            (UnitConflictError, held.complete_units_soon([("a", 2)])),
            (UnstorableError, held.complete_units_soon([("b", b"")])),
            (UnstorableError, held.complete_soon(b"")),
        ):
            with pytest.raises(error):
                await attempt
        await held.complete_units_soon([("b", 1)], advance=0)
        with pytest.raises(IncompleteError):
            await held.complete_soon()
        await held.complete_units_soon([], advance=1)
        await held.complete_soon()
        with pytest.raises(LeaseLostError):
            await held.complete_soon()

    asyncio.run(work())

    assert topics(log, held.job_id)[-3:] == ["unit-completed", "checkpoint-advanced", "completed"]


def test_many_jobs_on_one_loop_travel_together(log: JobLog) -> None:
    jobs = [submit(log) for _ in range(40)]
    held = claim(log)
    before = log.writer.batches

    async def work(one: Held) -> None:
        for name in "abcde":
            await one.complete_units_soon(units(name))
        await one.complete_soon()

    async def all_of_them() -> None:
        await asyncio.gather(*map(work, held))

    asyncio.run(all_of_them())

    rows = [log.row(job) for job in jobs]
    assert {(row["status"], row["done"], row["sequence"]) for row in rows} == {("completed", 5, 5)}
    assert log.writer.batches - before < 40 * 6 / 3


def test_one_job_that_is_lost_does_not_touch_the_others(log: JobLog, backend: Backend) -> None:
    lost = claimed(log, queue="slow")
    die(log, backend)
    held = [claimed(log) for _ in range(10)]
    held.insert(5, lost)

    async def work() -> list[int | BaseException]:
        return await asyncio.gather(*(one.complete_units_soon(units("a")) for one in held), return_exceptions=True)

    answers = asyncio.run(work())

    assert [type(answer) for answer in answers] == [int] * 5 + [LeaseLostError] + [int] * 5


def test_the_loop_goes_on_while_the_store_is_slow(log: JobLog) -> None:
    held = claimed(log)
    gate = Gate()

    async def work() -> int:
        task = asyncio.create_task(held.complete_units_soon(units("a")))
        await gate.reached()
        assert not task.done()
        gate.open()
        return await task

    with armed("append.begin", gate.stop):
        assert asyncio.run(work()) == 3


def test_the_loop_goes_on_while_a_job_is_read_again(log: JobLog) -> None:
    """After a refusal by version."""
    held = claimed(log)
    held.complete_units(units("a"))
    log.command("pause", held.job_id, an_actor())
    gate = Gate()
    read = log.job

    def slow(job_id: UUID, **more: Any) -> Any:
        gate.stop()
        return read(job_id, **more)

    log.job = slow  # type: ignore[method-assign]

    async def work() -> int:
        task = asyncio.create_task(held.complete_units_soon(units("b")))
        await gate.reached()
        gate.open()
        return await task

    assert asyncio.run(work()) == 6
    log.job = read  # type: ignore[method-assign]


def test_the_store_is_never_used_on_the_loops_own_thread(log: JobLog) -> None:
    """With reading, refusals, reloads and a snapshot among the commands."""
    held = claimed(log)
    log.command("pause", held.job_id, an_actor())

    async def work(readers: ThreadPoolExecutor) -> None:
        for number in range(3):
            await held.complete_units_soon(units(*(f"{number}-{n}" for n in range(100))), readers)
        with pytest.raises(UnitDoneError):
            await held.complete_units_soon(units("1-1"), readers)
        await held.complete_soon(None, readers)

    with threads_noted(log) as names, ThreadPoolExecutor(1, "readers") as readers:
        asyncio.run(work(readers))
        log.close()

    assert current_thread().name not in names
    assert names == {"joblog-writer", "joblog-side-lane", "readers_0"}


@pytest.mark.parametrize("end", ["stored", "refused"])
def test_a_task_that_is_cancelled_leaves_a_holder_that_knows_what_the_log_says(log: JobLog, end: str) -> None:
    """The append is on its way and can't be called back; what came of it is read from the log."""
    held = claimed(log)
    held.complete_units([("z", 1)])
    gate = Gate()
    unit = ("a", 1) if end == "stored" else ("z", 2)

    async def work() -> None:
        task = asyncio.create_task(held.complete_units_soon([unit]))
        await gate.reached()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.open()

    with armed("append.begin", gate.stop):
        asyncio.run(work())
        log.writer.append_many([])  # nothing: only what comes after the append that is on its way is certain
        submit(log)

    assert held._job is None
    done = 2 if end == "stored" else 1
    assert (held.job.done, held.job.version) == (done, len(topics(log, held.job_id)))
    assert held.complete_units([("b", 1)]) > 0
    assert replayed(held).done == done + 1


def test_a_loop_that_has_ended_does_not_stop_the_writer(log: JobLog) -> None:
    held = claimed(log)
    gate = Gate()

    async def leave() -> None:
        asyncio.get_running_loop().create_task(held.complete_units_soon([("a", 1)]))
        await gate.reached()

    with armed("append.begin", gate.stop):
        asyncio.run(leave())
        gate.open()
        submit(log)

    assert topics(log, held.job_id)[2:] == ["unit-completed", "checkpoint-advanced"]
    assert held.complete_units([("b", 1)]) > 0


def test_a_closed_log_says_so(backend: Backend) -> None:
    log = backend.open()
    held = claimed(log)
    assert held.job.version == 2
    log.close()

    async def work() -> None:
        await held.complete_units_soon(units("a"))

    with pytest.raises(StoreClosedError):
        asyncio.run(work())
