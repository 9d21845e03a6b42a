"""C17: thousands of jobs become due in one second; several workers share them out, each exactly once, without a storm.

The workers are forked before the instant and wait for it.  Each counts its claims, also those that took nothing,
of which a herd is made: their number is bounded.
"""

import asyncio
import os
import tempfile
from collections import Counter
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from joblog import JobLog, JobSpec, LeasePolicy
from joblog.workers.commands import claiming
from joblog.workers.registry import Jobs
from joblog.workers.run import Run
from joblog.workers.worker import Worker, WorkerSettings
from tests import postgres_server as servers
from tests.faults import rig
from tests.faults.finish import is_idle
from tests.faults.rig import Report

WORKERS: Final = 3
LEASES: Final = LeasePolicy(lease=timedelta(seconds=30))
CLAIMS_A_JOB: Final = 2  #: at most, empty ones included
CHUNK: Final = 1000  #: jobs handed in at once
SLOTS: Final = 20
jobs = Jobs()


@jobs.job("due")
async def due(run: Run, args: dict[str, Any]) -> int:
    os.write(_effects(args["effects"]), f"{run.job_id.hex}\n".encode())
    return 1


def _effects(path: str, _open: dict[str, int] = {}) -> int:  # noqa: B006 - one descriptor for each process
    if path not in _open:
        _open[path] = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    return _open[path]


def work(url: str, name: str, answer: Path) -> None:
    """A worker until nothing is left; answers how many claims it made, and how many of them took nothing."""
    tempfile.tempdir = str(answer.parent)
    took: list[int] = []
    plain = claiming.claim

    def counted(*args: Any, **more: Any) -> Any:
        held = plain(*args, **more)
        took.append(len(held))
        return held

    vars(claiming)["claim"] = counted

    async def serve(log: JobLog) -> None:
        worker = Worker(log, jobs, WorkerSettings(name, slots=SLOTS, poll_seconds=0.5))
        task = asyncio.create_task(worker.serve())
        loop = asyncio.get_running_loop()
        while not await loop.run_in_executor(None, is_idle, log):
            await asyncio.wait({task}, timeout=0.2)
        worker.stop()
        await task

    with JobLog.open(url, leases=LEASES) as log:
        asyncio.run(serve(log))
    answer.write_text(f"{len(took)} {took.count(0)} {sum(took)}", encoding="ascii")


def hand_in(url: str, effects: Path, count: int) -> None:
    """All of them due within one second, a moment from now."""
    with JobLog.open(url) as log:
        at = log.now() + timedelta(seconds=2 + count / 4000)
        for start in range(0, count, CHUNK):
            numbers = range(start, min(start + CHUNK, count))
            log.submit_many(
                JobSpec("due", {"effects": str(effects)}, key=str(n), due_at=at + timedelta(seconds=n / count))
                for n in numbers
            )


def run(report: Report, url: str, *, due_jobs: int) -> Report:
    report.again = f"python -m tests.faults.campaign --only {report.campaign} --seed {report.seed} --kills {due_jobs}"
    with rig.scratch() as folder, rig.timed(report):
        effects, errors = folder / "effects", folder / "errors"
        report.runs += 1
        if rig.reap(rig.fork(partial(hand_in, url, effects, due_jobs), errors), rig.HANGS_AFTER * 5):
            report.fail("handing in", [errors.read_text(encoding="utf-8")])
            return report
        answers = [folder / f"worker-{number}" for number in range(WORKERS)]
        pids = [rig.fork(partial(work, url, answer.name, answer), errors) for answer in answers]
        ended = [rig.reap(pid, rig.HANGS_AFTER * 5) for pid in pids]
        found = [errors.read_text(encoding="utf-8")] if any(ended) else judge(report, url, due_jobs, answers, effects)
        if found:
            report.fail(f"{due_jobs} jobs ({report.again})", found)
    return report


def judge(report: Report, url: str, due_jobs: int, answers: list[Path], effects: Path) -> list[str]:
    told = [[int(word) for word in answer.read_text(encoding="ascii").split()] for answer in answers]
    claims, empty, taken = (sum(column) for column in zip(*told, strict=True))
    report.fired["due-at-once"] += taken
    report.counts += Counter(claims=claims, empty_claims=empty, least_taken_by_one=min(row[2] for row in told))
    found: list[str] = []
    ran = Counter(effects.read_text(encoding="ascii").split())
    if len(ran) != due_jobs or set(ran.values()) != {1}:
        found.append(f"S9: {len(ran)} of {due_jobs} ran, {sum(n > 1 for n in ran.values())} more than once")
    if claims > CLAIMS_A_JOB * due_jobs:
        found.append(f"C17: {claims} claims for {due_jobs} jobs, {empty} took nothing")
    with JobLog.open(url) as log:
        streams: Counter[UUID] = Counter()
        after = 0
        while page := log.store.log(after, 5000):
            streams.update(event.stream_id for event in page)
            after += len(page)
    bad = [stream for stream, events in streams.items() if events != 3]
    found += [f"S8: {len(bad)} jobs are not submitted, claimed, completed and no more, like {bad[0]}"] if bad else []
    return found


def run_sqlite(report: Report, *, due_jobs: int) -> Report:
    with rig.scratch() as folder:
        return run(report, f"sqlite:///{folder / 'log.db'}", due_jobs=due_jobs)


def run_postgres(report: Report, *, due_jobs: int) -> Report:
    with servers.fresh_database() as url:
        return run(report, url, due_jobs=due_jobs)
