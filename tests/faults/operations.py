"""Operations that the worker rig runs: each kind reaches other fail points, and tells the journal what it does outside."""

import asyncio
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import sqlalchemy as sa

from joblog.workers.errors import RetryLater
from joblog.workers.operations import builtin
from joblog.workers.run import Run, SyncRun
from joblog.workers.sources import ListSource
from tests.faults.journal import Journal
from tests.faults.workload import QUICK

UNITS: Final = 4
SIZE: Final = 5
ROWS: Final = UNITS * SIZE
PAUSE: Final = 0.04  #: seconds between the steps of a slow job
#: The kind of job that reaches the points of a group; any reaches the others.
KINDS: Final = {
    "atomic": "rows",
    "marks": "elsewhere",
    "list": "items",
    "retry": "flaky",
    "shutdown": "slow",
    "import": "import.file",
}
ALL: Final = ("steps", "steps-sync", "items", "rows", "elsewhere", "flaky", "parent", "import.file")
#: What ``import.file`` reads in the rig: numbers, in batches of ``SIZE``.
SOURCE: Final = "n\n" + "".join(f"{n}\n" for n in range(ROWS))

jobs = builtin()


def effect(args: dict[str, Any], job_id: UUID, unit: str) -> str:
    """Something outside that is never taken back."""
    journal = Journal(Path(args["journal"]), "effect")
    try:
        journal.effect(job_id, unit)
    finally:
        journal.close()
    return unit


@jobs.job("steps", retry=QUICK)
async def steps(run: Run, args: dict[str, Any]) -> int:
    for number in range(UNITS):
        await run.step(f"s{number}", effect, args, run.job_id, f"step:s{number}")
    return UNITS


@jobs.job("steps-sync", retry=QUICK)
def steps_sync(run: SyncRun, args: dict[str, Any]) -> int:
    for number in range(UNITS):
        run.step(f"s{number}", effect, args, run.job_id, f"step:s{number}")
    return UNITS


@jobs.job("slow", retry=QUICK)
async def slow(run: Run, args: dict[str, Any]) -> int:
    """Is still at work when its worker is told to stop."""
    for number in range(3 * UNITS):
        await run.step(f"s{number}", effect, args, run.job_id, f"step:s{number}")
        await asyncio.to_thread(run._book.control.wait, PAUSE)
    return 3 * UNITS


@jobs.job("items", retry=QUICK)
async def items(run: Run, args: dict[str, Any]) -> int:
    async for item in run.items("files", [f"f{number}" for number in range(UNITS)]):
        await item.once("copied", effect, args, run.job_id, f"{item.value} copied")
    return UNITS


@jobs.job("flaky", retry=QUICK)
async def flaky(run: Run, args: dict[str, Any]) -> int:
    """Its first attempt fails for a passing cause."""
    await run.step("s0", effect, args, run.job_id, "step:s0")
    if run.attempt == 1:
        raise RetryLater("not-yet", category="provider")
    await run.step("s1", effect, args, run.job_id, "step:s1")
    return 2


@jobs.job("child", retry=QUICK)
async def child(run: Run, args: dict[str, Any]) -> int:
    await run.step("c0", effect, args, run.job_id, "step:c0")
    return 7


@jobs.job("parent", retry=QUICK)
async def parent(run: Run, args: dict[str, Any]) -> int:
    """Waits without a slot until its child has ended."""
    made = await run.spawn(child, args, key="only")
    found = await made.result()
    await run.step("after", effect, args, run.job_id, "step:after")
    return found


def _write(connection: sa.Connection, job_id: UUID, batch: Any) -> None:
    rows = [{"job": job_id.hex, "n": n} for n in batch]
    connection.execute(sa.text("INSERT INTO target (job, n) VALUES (:job, :n)"), rows)
    batch.tally("rows", len(batch))


@jobs.job("rows", guarantee="exactly-once", retry=QUICK)
def rows(run: SyncRun, args: dict[str, Any]) -> int:
    """Rows into the log's own database."""
    for batch in run.batches("rows", ListSource(list(range(ROWS))), size=SIZE):
        with batch.atomic() as connection:
            _write(connection, run.job_id, batch)
    return run.total("rows")


@jobs.job("elsewhere", guarantee="exactly-once", retry=QUICK)
def elsewhere(run: SyncRun, args: dict[str, Any]) -> int:
    """Rows into another database, with a mark there."""
    engine = sa.create_engine(args["target"], poolclass=sa.NullPool)
    for batch in run.batches("rows", ListSource(list(range(ROWS))), size=SIZE, into=engine):
        with batch.atomic() as connection:
            _write(connection, run.job_id, batch)
    return run.total("rows")
