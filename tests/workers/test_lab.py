"""``joblog.testing``: an operation crashed at every durable point comes out as if nothing had happened."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from joblog.domain.status import Status
from joblog.testing import Lab
from joblog.workers.errors import Fatal, RetryLater
from joblog.workers.registry import Jobs
from joblog.workers.run import Run, SyncRun
from joblog.workers.sources import ListSource

jobs = Jobs()
world: Counter[str] = Counter()


def effect(what: str) -> str:
    world[what] += 1
    return what


@jobs.job("everything")
async def everything(run: Run, args: dict[str, Any]) -> int:
    await run.step("first", effect, "first")
    async for batch in run.batches("rows", ListSource(list(range(25))), size=10):
        effect(f"batch {batch.number}")
        batch.tally("rows", len(batch))
    async for item in run.items("files", ["x", "y"]):
        await item.once("copied", effect, f"{item.value} copied")
        await item.once("removed", effect, f"{item.value} removed")
    await run.sleep(100)
    return run.total("rows")


@jobs.job("everything-sync")
def everything_sync(run: SyncRun, args: dict[str, Any]) -> int:
    run.step("first", effect, "first")
    for batch in run.batches("rows", ListSource(list(range(25))), size=10):
        effect(f"batch {batch.number}")
        batch.tally("rows", len(batch))
    for item in run.items("files", ["x", "y"]):
        item.once("copied", effect, f"{item.value} copied")
        item.once("removed", effect, f"{item.value} removed")
    run.sleep(100)
    return run.total("rows")


@pytest.mark.parametrize("operation", [everything, everything_sync], ids=lambda operation: operation.kind)
def test_a_crash_at_any_durable_point_changes_nothing_but_one_effect(operation: Any) -> None:
    most: list[int] = []

    def observe() -> list[str]:
        most.append(max(world.values()))
        return sorted(world)

    report = Lab().crash_everywhere(operation, {}, observe=observe, reset=world.clear)

    assert report.differing == []
    assert report.points > 100
    assert report.undisturbed[:2] == (Status.COMPLETED, 25)
    assert max(most) == 2  # one crash: one effect may have happened twice


def test_a_naive_operation_is_found_out() -> None:
    """The kit is no formality: what is not recorded differs."""
    seen: list[str] = []

    @Jobs().job("naive")
    async def naive(run: Run, args: dict[str, Any]) -> int:
        await run.step("a", effect, "a")
        seen.append("between")  # not in a verb: runs again
        await run.step("b", effect, "b")
        return len(seen)

    report = Lab().crash_everywhere(naive, {}, reset=seen.clear)

    assert report.differing


def test_interrupt_stops_behind_a_unit() -> None:
    world.clear()
    lab = Lab()

    job = lab.interrupt(everything, {}, after="x:copied")
    assert job.status is Status.RUNNING
    assert world["x copied"] == 1
    assert world["x removed"] == 0

    assert lab.finish(everything, job.id).status is Status.COMPLETED
    assert world["x copied"] == 1


def test_the_clock_is_moved_to_each_retry_and_nothing_waits() -> None:
    tries: list[Any] = []

    @Jobs().job("later")
    async def later(run: Run, args: dict[str, Any]) -> int:
        tries.append(run.now())
        if len(tries) < 4:
            raise RetryLater("busy")
        return len(tries)

    job = Lab().run(later, {})

    assert (job.status, job.result, job.failures) == (Status.COMPLETED, 4, 3)
    waits = [(after - before).total_seconds() for before, after in pairwise(tries)]
    assert waits == pytest.approx([1.125, 2.25, 4.5], abs=0.01)  # doubling, with the seeded half of 25 % jitter


def test_exhausted_work_pauses_and_a_verdict_fails() -> None:
    @Jobs().job("gone")
    async def gone(run: Run, args: dict[str, Any]) -> None:
        raise RetryLater("unreachable", category="network")

    @Jobs().job("wrong")
    async def wrong(run: Run, args: dict[str, Any]) -> None:
        raise Fatal("bad-input", row=3)

    lab = Lab()
    away, bad = lab.run(gone, {}), lab.run(wrong, {})

    assert (away.status, away.reason, away.failures) == (Status.PAUSED, "exhausted-network", 6)
    assert (bad.status, bad.reason, bad.reason_text) == (Status.FAILED, "bad-input", "bad-input: row=3")


def test_a_bad_unit_can_be_passed_over_and_is_never_counted_as_done() -> None:
    registry = Jobs()

    @registry.job("skips", on_unit_failure="skip")
    async def skips(run: Run, args: dict[str, Any]) -> int:
        async for batch in run.batches("rows", ListSource(list(range(50))), size=10):
            if batch.number == 2:
                raise Fatal("bad-batch")
            batch.tally("rows", len(batch))
        return run.total("rows")

    job = Lab().run(skips, {})

    assert (job.status, job.outcome, job.done, job.skipped, job.result) == (
        Status.COMPLETED,
        "with-warnings",
        4,
        1,
        40,
    )


def test_a_child_is_spawned_once_and_its_result_awaited() -> None:
    registry = Jobs()

    @registry.job("child")
    async def child(run: Run, args: int) -> int:
        return args * 2

    @registry.job("parent")
    async def parent(run: Run, args: dict[str, Any]) -> int:
        one = await run.spawn(child, 21, key="c")
        return await one.result()

    lab = Lab()
    job_id = parent.submit(lab.log, {}).job_id
    for _ in range(3):
        lab.log.promote()
        for operation in (parent, child):
            job = lab.log.job(job_id)
            for held in lab.log.claim("lab", kinds=[operation.kind]):
                lab.execute(operation, held)
    job = lab.log.job(job_id)

    assert (job.status, job.result) == (Status.COMPLETED, 42)
