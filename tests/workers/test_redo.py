"""A unit that was passed over is retried alone, in a job of its own (STA-06)."""

from collections import Counter
from typing import Any

import pytest

from joblog.domain.errors import InvalidFieldError, JobNotFoundError, WrongStateError
from joblog.domain.job import Job
from joblog.domain.status import Status
from joblog.testing import Lab
from joblog.workers.errors import Fatal, RetryLater
from joblog.workers.redo import key_of, retry_skipped, skipped_units
from joblog.workers.registry import Jobs
from joblog.workers.run import Run, SyncRun
from joblog.workers.sources import ListSource

jobs = Jobs()
ran: Counter[str] = Counter()
bad: set[str] = set()


def effect(what: str) -> str:
    if what in bad:
        raise Fatal("bad-unit")
    ran[what] += 1
    return what


@jobs.job("picky", on_unit_failure="skip", exclusive="picky")
async def picky(run: Run, args: dict[str, Any]) -> int:
    await run.step("first", effect, "first")
    async for batch in run.batches("rows", ListSource(list(range(50))), size=10):
        effect(f"rows {batch[0]}")
        batch.tally("rows", len(batch))
    async for item in run.items("files", ["x", "y", "z"]):
        await item.once("copied", effect, f"{item.value} copied")
        await item.once("removed", effect, f"{item.value} removed")
    await run.sleep(100)
    return run.total("rows")


@jobs.job("picky-sync", on_unit_failure="skip", units_per_commit=4)
def picky_sync(run: SyncRun, args: dict[str, Any]) -> int:
    run.step("first", effect, "first")
    for batch in run.batches("rows", ListSource(list(range(50))), size=10):
        effect(f"rows {batch[0]}")
        batch.tally("rows", len(batch))
    for item in run.items("files", ["x", "y", "z"]):
        item.once("copied", effect, f"{item.value} copied")
        item.once("removed", effect, f"{item.value} removed")
    run.sleep(100)
    return run.total("rows")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    ran.clear()
    bad.clear()


def skipping(lab: Lab, operation: Any, *units: str) -> Job:
    """A job that passed over the units with these effects, which are good again now."""
    bad.update(units)
    job = lab.run(operation, {})
    assert (job.status, job.skipped, job.outcome) == (Status.COMPLETED, len(units), "with-warnings")
    bad.clear()
    ran.clear()
    return job


@pytest.mark.parametrize("operation", [picky, picky_sync], ids=lambda operation: operation.kind)
@pytest.mark.parametrize(
    ("unit", "what", "rows"), [("rows:2", ["rows 20"], 10), ("files:y:copied", ["y copied", "y removed"], 0)]
)
def test_one_unit_is_run_and_nothing_else(operation: Any, unit: str, what: list[str], rows: int) -> None:
    lab = Lab()
    job = skipping(lab, operation, what[0])

    [answer] = retry_skipped(lab.log, job.id, unit)
    done = lab.finish(operation, answer.job_id)

    assert (done.status, done.result, done.skipped) == (Status.COMPLETED, rows, 0)
    assert sorted(ran.elements()) == what
    assert done.parent_id == str(job.id)
    assert lab.log.job(job.id).status is Status.COMPLETED  # it stays as it ended


def test_the_first_unit_and_several_at_once() -> None:
    lab = Lab()
    job = skipping(lab, picky, "rows 0", "rows 40", "z removed")

    answers = retry_skipped(lab.log, job.id)
    for answer in answers:
        assert lab.finish(picky, answer.job_id).status is Status.COMPLETED

    assert [one.unit for one in skipped_units(lab.log, job.id)] == ["rows:0", "rows:4", "files:z:removed"]
    assert sorted(ran.elements()) == ["rows 0", "rows 40", "z removed"]


def test_what_the_item_did_before_is_not_done_again() -> None:
    lab = Lab()
    job = skipping(lab, picky, "y removed")

    [answer] = retry_skipped(lab.log, job.id, "files:y:removed")
    lab.finish(picky, answer.job_id)

    assert list(ran.elements()) == ["y removed"]


def test_the_same_again_is_the_same_job() -> None:
    lab = Lab()
    job = skipping(lab, picky, "rows 20")

    first, again = retry_skipped(lab.log, job.id), retry_skipped(lab.log, job.id, "rows:2")

    assert [(one.job_id, one.created) for one in first + again] == [(first[0].job_id, True), (first[0].job_id, False)]


def test_passed_over_again_it_is_retried_from_there() -> None:
    lab = Lab()
    job = skipping(lab, picky, "rows 20")
    [answer] = retry_skipped(lab.log, job.id)

    ran.clear()
    bad.add("rows 20")
    failed = lab.finish(picky, answer.job_id)
    assert (failed.status, failed.skipped) == (Status.COMPLETED, 1)  # passed over again: retried from this one
    bad.clear()
    [further] = retry_skipped(lab.log, failed.id)
    again = lab.finish(picky, further.job_id)

    assert (again.status, again.result, list(ran.elements())) == (Status.COMPLETED, 10, ["rows 20"])


def test_it_runs_under_the_rules_of_its_parent() -> None:
    lab = Lab()
    job = skipping(lab, picky, "rows 20")

    made = lab.log.job(retry_skipped(lab.log, job.id)[0].job_id)

    same = ("kind", "args", "tenant", "owner", "queue", "priority", "exclusive_key", "gate", "retry")
    assert {name: getattr(made, name) for name in same} == {name: getattr(job, name) for name in same}
    assert job.exclusive_key


@pytest.mark.parametrize("unit", ["", "rows:3"])
def test_there_must_be_something_to_retry(unit: str) -> None:
    lab = Lab()
    job = lab.run(picky, {}) if not unit else skipping(lab, picky, "rows 20")

    with pytest.raises(WrongStateError, match="passed"):
        retry_skipped(lab.log, job.id, unit)


def test_a_job_that_has_not_ended_goes_on_itself() -> None:
    @Jobs().job("waits", on_unit_failure="skip")
    async def waits(run: Run, args: dict[str, Any]) -> None:
        async for batch in run.batches("rows", ListSource([1, 2]), size=1):
            raise Fatal("bad") if batch.number == 0 else RetryLater("busy")

    lab = Lab()
    job_id = waits.submit(lab.log, {}).job_id
    [held] = lab.log.claim("lab")
    lab.execute(waits, held)
    assert lab.log.job(job_id).skipped == 1

    with pytest.raises(WrongStateError):
        retry_skipped(lab.log, job_id)


def test_another_tenants_job_is_not_found() -> None:
    lab = Lab()
    job = skipping(lab, picky, "rows 20")

    with pytest.raises(JobNotFoundError):
        retry_skipped(lab.log, job.id, tenant="other")


def test_a_child_of_ones_own_can_not_pose_as_one() -> None:
    @Jobs().job("poser")
    async def poser(run: Run, args: dict[str, Any]) -> None:
        await run.spawn(picky, {}, key="redo:rows:2")

    job = Lab().run(poser, {})

    assert (job.status, job.reason) == (Status.FAILED, InvalidFieldError.code)


def test_a_long_unit_key_still_names_one_job() -> None:
    keys = {key_of("u" * length) for length in (10, 195, 196, 200)} | {key_of("v" * 200)}

    assert len(keys) == 5
    assert max(map(len, keys)) <= 200


def test_an_item_whose_key_begins_another_is_left_alone() -> None:
    @Jobs().job("nested", on_unit_failure="skip")
    async def nested(run: Run, args: dict[str, Any]) -> None:
        async for item in run.items("files", ["a", "a:b"]):
            await item.once("sent", effect, f"{item.value} sent")

    lab = Lab()
    job = skipping(lab, nested, "a sent", "a:b sent")

    [answer] = retry_skipped(lab.log, job.id, "files:a:b:sent")
    lab.finish(nested, answer.job_id)

    assert list(ran.elements()) == ["a:b sent"]
