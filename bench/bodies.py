"""The jobs of the workloads, and the worker process that runs them: ``python bench/bodies.py URL [SLOTS]``.

It says `ready` and waits for a line, so that several can start at once.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
for folder in (ROOT / "src", ROOT):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from joblog import JobLog
from joblog.workers.registry import Jobs
from joblog.workers.run import Run, SyncRun
from joblog.workers.worker import Worker, WorkerSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

jobs = Jobs()


def now() -> int:
    """Nanoseconds on a clock that all processes of this machine share."""
    return time.monotonic_ns()


@jobs.job("bench.noop")
async def noop(run: Run, args: dict[str, int]) -> None:
    """Nothing."""


@jobs.job("bench.mark")
async def mark(run: Run, args: dict[str, int]) -> int:
    """When it began."""
    return now()


@jobs.job("bench.units")
async def units(run: Run, args: dict[str, int]) -> None:
    """*count* durable units that do nothing."""
    for number in range(args["count"]):
        await run.step(f"u{number}", int)


@jobs.job("bench.units-sync")
def units_sync(run: SyncRun, args: dict[str, int]) -> None:
    """The same in a thread, which commits by itself when nobody else does."""
    for number in range(args["count"]):
        run.step(f"u{number}", int)


@jobs.job("bench.long")
def long(run: SyncRun, args: dict[str, Any]) -> None:
    """*count* units, told to a file, then one that never ends; a new process goes on at that one."""
    seen = Path(args["file"])

    def tell(what: str) -> None:
        with seen.open("a", encoding="ascii") as file:
            file.write(f"{what} {now()}\n")

    def unit(number: int) -> int:
        if number == args["count"]:
            tell("new")
            time.sleep(3600)
        else:
            tell("again") if run.attempt > 1 else None
        return number

    tell("body")
    for number in range(args["count"] + 1):
        run.step(f"u{number}", unit, number)


class Count:
    """The numbers up to *count*, as a source that is read on behind a cursor without reading what is before it."""

    def __init__(self, count: int) -> None:
        self._count = count

    def batches(self, size: int, cursor: int | None) -> Iterator[tuple[range, int]]:
        """See ``Source``."""
        for start in range(cursor or 0, self._count, size):
            yield range(start, min(start + size, self._count)), start + size


@jobs.job("bench.million", units_per_commit=500)
def million(run: SyncRun, args: dict[str, Any]) -> int:
    """*count* units; when its first unit began is told to a file, each time the job is taken up."""
    told = False
    for batch in run.batches("n", Count(args["count"]), size=1):
        if not told:
            told = True
            with Path(args["file"]).open("a", encoding="ascii") as file:
                file.write(f"{batch.number} {run.now().timestamp()}\n")
        batch.tally("units")
    return run.total("units")


def main() -> None:
    """Work until killed or told to stop."""
    url, slots = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 10
    with JobLog.open(url) as log:
        worker = Worker(log, jobs, WorkerSettings(slots=slots))
        signal.signal(signal.SIGTERM, lambda *_: worker.stop())
        print("ready", flush=True)
        sys.stdin.readline()
        worker.run()


if __name__ == "__main__":
    main()
