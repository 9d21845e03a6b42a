"""Pains that users of other job systems reported, tried on this one; docs/pains.md lists them all by number."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from joblog import JobLog, RetryPolicy
from joblog.domain.errors import StoreUnavailableError, UnknownOutcomeError
from joblog.domain.status import Status
from joblog.eventstore import failpoint
from joblog.testing import Lab
from joblog.workers.process_unit import in_process
from joblog.workers.registry import Jobs
from joblog.workers.run import Run, SyncRun
from joblog.workers.sources import ListSource
from joblog.workers.worker import Worker, WorkerSettings
from tests.patience import until

ONCE = RetryPolicy(retries=0)
jobs = Jobs()
ran: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_armed() -> Iterator[None]:
    ran.clear()
    yield
    failpoint.disarm()


@contextmanager
def working(log: JobLog) -> Iterator[Worker]:
    """A worker in a thread for the block."""
    worker = Worker(log, jobs, WorkerSettings(poll_seconds=0.2))
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield worker
    finally:
        worker.stop()
        thread.join()


@jobs.job("one")
async def one(run: Run, args: dict[str, Any]) -> int:
    await run.step("s", ran.append, "s")
    return 1


@pytest.mark.parametrize("cuts", [1, 3, 12])
def test_05_a_store_that_is_away_when_a_job_completes_is_waited_for(database_url: str, cuts: int) -> None:
    left = [cuts]

    def cut() -> None:
        if left[0]:
            left[0] -= 1
            raise StoreUnavailableError("cut off")

    failpoint.arm("job.before_completed", lambda: failpoint.arm("append.begin", cut))
    with JobLog.open(database_url) as log:
        job_id = one.submit(log, {}, key="k").job_id
        with working(log):
            until(lambda: log.row(job_id)["status"] == "completed")
        job = log.job(job_id)

    assert (left, ran, job.crashes, job.reclaims) == ([0], ["s"], 0, 0)


@pytest.mark.postgres
def test_36_a_server_that_was_read_only_for_a_while_needs_no_restart_of_ours(postgres_url: str) -> None:
    name = sa.make_url(postgres_url).database
    engine = sa.create_engine(postgres_url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)

    def ask(*statements: str) -> None:
        with engine.connect() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)

    def answer(log: JobLog, key: str) -> str:
        try:
            one.submit(log, {}, key=key)
        except (StoreUnavailableError, UnknownOutcomeError) as error:
            return str(error)
        return "taken"

    others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with JobLog.open(postgres_url) as log, working(log):
        assert answer(log, "before") == "taken"
        until(lambda: bool(log.store.find_jobs(status="completed", limit=1)))
        ask(
            f"ALTER DATABASE {name} SET default_transaction_read_only = on",
            f"SELECT pg_terminate_backend(pid) {others}",
        )
        until(lambda: "read only" in answer(log, "during"))
        ask("SET default_transaction_read_only = off", f"ALTER DATABASE {name} RESET default_transaction_read_only")

        until(lambda: answer(log, "after") == "taken")
        until(lambda: not any(log.store.find_jobs(status=status, limit=1) for status in ("queued", "running")))
        assert log.row(one.submit(log, {}, key="after").job_id)["status"] == "completed"


# -- failures that are hard to keep ------------------------------------------------------------------------------------


class NeedsKeywordsError(Exception):
    def __init__(self, *, place: str) -> None:
        super().__init__(f"at {place}")


class BrokenTextError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text either")


def fail(how: str) -> None:
    """Raise what others could not store, rebuild or print."""
    if how == "keywords":
        raise NeedsKeywordsError(place="home")
    if how == "lock":
        raise ValueError(threading.Lock())
    if how == "text":
        raise BrokenTextError
    if how == "group":
        raise ExceptionGroup("several", [ValueError("a"), TypeError("b")])
    if how == "characters":
        raise ValueError("nul \x00, surrogate \udcff, red \x1b[31m, turned \u202e")
    if how == "long":
        raise ValueError("x" * 5_000_000)
    if how == "deep":
        fail(how)
    error = ValueError("a circle")
    error.__cause__ = error
    raise error


HOWS = ("keywords", "lock", "text", "group", "characters", "long", "deep", "circle")


@jobs.job("fails", retry=ONCE)
async def fails(run: Run, args: dict[str, Any]) -> None:
    await run.step("s", fail, args["how"])


@jobs.job("fails-sync", retry=ONCE)
def fails_sync(run: SyncRun, args: dict[str, Any]) -> None:
    run.step("s", fail, args["how"])


@jobs.job("fails-process", retry=ONCE)
def fails_process(run: SyncRun, args: dict[str, Any]) -> None:
    run.step("s", in_process(fail), args["how"])


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("operation", [fails, fails_sync], ids=lambda operation: operation.kind)
def test_21_23_27_any_failure_can_be_kept_and_is_bounded(operation: Any, how: str) -> None:
    lab = Lab()

    job = lab.run(operation, {"how": how})

    row = lab.log.row(job.id)
    assert (job.status, row["failures"]) == (Status.FAILED, 1)
    assert 0 < len(row["reason_text"]) <= 600
    assert "\x00" not in row["reason_text"]


@pytest.mark.parametrize("how", ["keywords", "lock", "group", "text"])
def test_23_a_failure_in_a_process_of_its_own_is_told_by_its_class(how: str) -> None:
    lab = Lab()

    job = lab.run(fails_process, {"how": how})

    names = {
        "keywords": "NeedsKeywordsError",
        "lock": "ValueError",
        "group": "ExceptionGroup",
        "text": "BrokenTextError",
    }
    assert job.status is Status.FAILED
    assert names[how] in lab.log.row(job.id)["reason_text"]


# -- where a job goes on -----------------------------------------------------------------------------------------------


@jobs.job("stumbles")
async def stumbles(run: Run, args: dict[str, Any]) -> int:
    async for batch in run.batches("rows", ListSource(list(range(6))), size=2):
        ran.append(batch.unit)
        if batch.number == 1 and ran.count(batch.unit) < 3:
            raise ConnectionError("not now")
    return len(ran)


def test_57_a_failure_right_after_a_resume_keeps_the_place() -> None:
    job = Lab().run(stumbles, {})

    assert job.status is Status.COMPLETED
    assert ran == ["rows:0", "rows:1", "rows:1", "rows:1", "rows:2"]


def done(step: str) -> str:
    ran.append(step)
    return step


def named(kind: str, *steps: str) -> Any:
    """A version of an operation with these steps."""

    async def body(run: Run, args: dict[str, Any]) -> list[str]:
        return [await run.step(step, done, step) for step in steps]

    return Jobs().job(kind)(body)


@pytest.mark.parametrize(
    ("after", "runs"),
    [
        (("a", "b", "c", "d"), ["c", "d"]),  # added behind
        (("new", "a", "b", "c"), ["new", "c"]),  # added in front
        (("b", "c"), ["c"]),  # removed
        (("b", "a", "c"), ["c"]),  # in another order
        (("a", "renamed", "c"), ["renamed", "c"]),  # another name is another step
    ],
)
def test_59_steps_are_known_by_their_names_when_the_code_changes(after: tuple[str, ...], runs: list[str]) -> None:
    lab = Lab()
    job = lab.interrupt(named("changes", "a", "b", "c"), {}, after="step:b")
    assert job.done == 2
    ran.clear()

    job = lab.finish(named("changes", *after), job.id)

    assert (job.status, job.result, ran) == (Status.COMPLETED, list(after), runs)
