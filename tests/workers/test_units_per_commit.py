"""Several tiny units in one append, where the operation declares it: each recorded by itself, none lost by a stop."""

from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest

from joblog.domain.errors import InvalidFieldError, StoreUnavailableError
from joblog.domain.status import Status
from joblog.testing import Lab
from joblog.workers.errors import Fatal, RetryLater, Stopped
from joblog.workers.registry import Jobs
from joblog.workers.run import Run, SyncRun
from joblog.workers.sources import ListSource

jobs = Jobs()
ran: Counter[str] = Counter()


def effect(what: str) -> str:
    ran[what] += 1
    return what


@pytest.fixture(autouse=True)
def _fresh() -> None:
    ran.clear()


@jobs.job("tiny", units_per_commit=8)
async def tiny(run: Run, args: dict[str, Any]) -> int:
    for number in range(5):
        await run.step(f"s{number}", effect, f"s{number}")
    async for batch in run.batches("rows", ListSource(list(range(30))), size=1):
        batch.tally("rows", len(batch))
    async for item in run.items("files", ["x", "y", "z"]):
        await item.once("copied", effect, f"{item.value} copied")
        await item.once("copied", effect, "never")  # it is remembered while it waits for its commit
    await run.sleep(100)
    return run.total("rows")


@jobs.job("tiny-sync", units_per_commit=8)
def tiny_sync(run: SyncRun, args: dict[str, Any]) -> int:
    for number in range(5):
        run.step(f"s{number}", effect, f"s{number}")
    for batch in run.batches("rows", ListSource(list(range(30))), size=1):
        batch.tally("rows", len(batch))
    for item in run.items("files", ["x", "y", "z"]):
        item.once("copied", effect, f"{item.value} copied")
        item.once("copied", effect, "never")
    run.sleep(100)
    return run.total("rows")


def commits(lab: Lab, job: Any) -> int:
    """How many appends moved the checkpoint."""
    return sum(event.topic.endswith("checkpoint-advanced") for event in lab.store.read(job.id))


@pytest.mark.parametrize("operation", [tiny, tiny_sync], ids=lambda operation: operation.kind)
def test_units_travel_together_and_each_is_recorded(operation: Any) -> None:
    lab = Lab()

    job = lab.run(operation, {})

    assert (job.status, job.result, job.done) == (Status.COMPLETED, 30, 5 + 30 + 3 + 1 + 1)
    assert commits(lab, job) == 5  # 40 units in eights
    assert ran["never"] == 0
    assert set(ran.values()) == {1}
    assert len(lab.store.unit_states(job.id)) == 40


@pytest.mark.parametrize("operation", [tiny, tiny_sync], ids=lambda operation: operation.kind)
def test_a_crash_anywhere_changes_nothing_but_who_runs_again(operation: Any) -> None:
    most: list[int] = []

    def observe() -> list[str]:
        most.append(max(ran.values()))
        return sorted(ran)

    report = Lab().crash_everywhere(operation, {}, observe=observe, reset=ran.clear)

    assert report.differing == []
    assert report.points > 50
    assert max(most) == 2


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RetryLater("busy"), Status.WAITING),
        (Fatal("bad"), Status.FAILED),
        (ValueError("bug"), Status.WAITING),
        (Stopped("yield"), Status.QUEUED),
        (Stopped("wait", datetime(2100, 1, 1, tzinfo=UTC)), Status.WAITING),
    ],
    ids=["retry", "fatal", "fault", "yield", "sleep"],
)
def test_what_ends_a_run_early_loses_no_finished_unit(error: BaseException, status: Status) -> None:
    @Jobs().job("stops", units_per_commit=100)
    async def stops(run: Run, args: dict[str, Any]) -> None:
        for number in range(5):
            await run.step(f"s{number}", effect, f"s{number}")
        raise error

    lab = Lab()
    job_id = stops.submit(lab.log, {}).job_id
    [held] = lab.log.claim("lab")
    lab.execute(stops, held)

    job = lab.log.job(job_id)
    assert (job.status, job.done) == (status, 5)


def test_a_lost_lease_records_nothing() -> None:
    @Jobs().job("late", units_per_commit=100)
    async def late(run: Run, args: dict[str, Any]) -> None:
        await run.step("a", effect, "a")
        raise Stopped("lease-lost")

    lab = Lab()
    job_id = late.submit(lab.log, {}).job_id
    [held] = lab.log.claim("lab")
    lab.execute(late, held)

    assert lab.log.job(job_id).done == 0


def test_behind_a_crash_units_go_one_by_one_so_that_the_bad_one_stands_alone() -> None:
    lab = Lab()
    lab.interrupt(tiny, {}, after="s1")  # the first eight were recorded
    before = commits(lab, lab.finish(tiny, next(iter(lab.store.find_jobs()))["id"]))

    assert before == 1 + 8 + 3  # eight together, eight alone, then 24 in eights


def test_an_operation_declares_how_many_within_bounds() -> None:
    with pytest.raises(InvalidFieldError, match="units_per_commit"):

        @Jobs().job("wild", units_per_commit=0)
        async def wild(run: Run, args: dict[str, Any]) -> None:
            """Never registered."""


def test_a_commit_that_failed_leaves_no_gap_behind_whoever_swallows_it() -> None:
    """The checkpoint never stands behind units without evidence."""
    lab, faults = Lab(), ["refuse"] * 5  # as often as a busy write is tried

    @Jobs().job("goes-on", units_per_commit=2)
    async def goes_on(run: Run, args: dict[str, Any]) -> None:
        for number in range(6):
            if number == 1:
                lab.store.faults.extend(faults)
                faults.clear()
            with suppress(StoreUnavailableError):
                await run.step(f"s{number}", effect, f"s{number}")

    job = lab.run(goes_on, {})

    assert lab.store.fired["refuse"] == 5
    assert (job.status, job.done, job.sequence) == (Status.COMPLETED, 6, 6)
    assert set(lab.store.unit_states(job.id)) == {f"step:s{number}" for number in range(6)}
