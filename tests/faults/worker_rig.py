"""Kill -9 of real workers at the fail points of the whole engine: claim, replay, units, transactions, retries, stop.

A child is a worker with several slots that works until it dies, or until nothing is left to do.  Beside the log the rig
counts what happened outside: bodies of steps at least once and at most once more for each time a job was given back,
rows of an exactly-once kind exactly once.
"""

import asyncio
import random
import sqlite3
import tempfile
from collections import Counter
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

from joblog import Actor, JobLog, LeasePolicy
from joblog.eventstore import failpoint
from joblog.workers.worker import Worker, WorkerSettings
from tests.faults import fork_rig, operations, rig
from tests.faults.finish import serve
from tests.faults.fork_rig import ForkRig, Plan
from tests.faults.journal import Journal, story_of
from tests.faults.oracle import JobTrace, Oracle
from tests.faults.reader import open_reader
from tests.faults.rig import Report
from tests.faults.workload import RunIds, watch

LIFE: Final = 60
LEASES: Final = LeasePolicy(lease=timedelta(seconds=20), heartbeat=timedelta(seconds=5))
SETTINGS: Final = WorkerSettings(slots=3, poll_seconds=0.1, grace_seconds=5.0)
WORKS_AT_MOST: Final = 1.5  #: seconds of a worker that does not die
IS_STOPPED_AFTER: Final = 0.3  #: seconds of one that is told to stop while it works
ENDS_WITHIN: Final = 60.0  #: seconds in which the last worker must have ended every job
TARGET: Final = "CREATE TABLE IF NOT EXISTS target (job TEXT NOT NULL, n INTEGER NOT NULL)"
#: Points of the store that only workers' own ways to it make worth a second visit.
SHARED: Final = (
    "append.before_commit",
    "append.after_commit",
    "claim.before_commit",
    "claim.after_commit",
    "expire.after",
)
POINTS: Final = (*failpoint.WORKER_POINTS, *SHARED)


class WorkerRig(ForkRig):
    """Runs workers on one SQLite log after another."""

    points = POINTS

    def begin(self) -> None:
        self.clock = None  # workers live in real time
        super().begin()
        self.oracle = Oracle(slack=timedelta(seconds=1), effects=False)
        self.target = self.place / "target.db"
        self.open(self.url).close()  # makes the schema before a table of ours
        for path in (self.place / "log.db", self.target):
            with sqlite3.connect(path) as connection:
                connection.execute(TARGET)
            connection.close()

    def open(self, url: str, **ports: Any) -> JobLog:
        return super().open(url, leases=LEASES, **ports)

    # -- in the child ------------------------------------------------------------------------------------------------

    def work(self, plan: Plan) -> None:
        tempfile.tempdir = str(self.place)  # where presence files go
        journal = Journal(self.journal, plan.run)
        log = self.open(self.url, ids=RunIds(plan.run))
        watch(log, journal)
        self.hand_in(log, journal, plan)
        if plan.steps % 3:  # else the dead are left to be found by their presence files
            self.bury(log, plan)
        if plan.point != fork_rig.ANY_MOMENT:
            failpoint.arm(plan.point, rig.die(plan.hit, partial(journal.fired, plan.point)))
        asyncio.run(self.live(log, plan, IS_STOPPED_AFTER if plan.must == "slow" else WORKS_AT_MOST))
        log.close()

    def hand_in(self, log: JobLog, journal: Journal, plan: Plan) -> None:
        """A job that leads to the point, and sometimes others."""
        rng = random.Random(plan.seed)
        kinds = [plan.must or rng.choice(operations.ALL), *rng.choices(operations.ALL, k=rng.randint(0, 1))]
        for number, kind in enumerate(kinds):
            args = {"journal": str(self.journal), "target": f"sqlite:///{self.target}"}
            spec = operations.jobs.get(kind).spec(args, key=f"{plan.run}-{number}")
            journal.submit(spec.job_id)
            log.submit(spec)
            journal.accepted(spec.job_id)

    @staticmethod
    def bury(log: JobLog, plan: Plan) -> None:
        """Take back at once what dead workers held."""
        for row in log.store.find_jobs(status="running", limit=200):
            lease = log.store.lease(row["id"])
            if lease is not None and lease.worker not in plan.alive:
                log.reclaim(lease, plan.run)

    async def live(self, log: JobLog, plan: Plan, seconds: float) -> None:
        """Work until nothing is left, or the time is over; then stop in order."""
        settings = WorkerSettings(plan.run, slots=SETTINGS.slots, poll_seconds=SETTINGS.poll_seconds)
        worker = Worker(log, operations.jobs, settings)
        task = asyncio.create_task(worker.serve())
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while not task.done() and loop.time() < until and not await loop.run_in_executor(None, self.is_idle, log):
            await asyncio.wait({task}, timeout=0.05)
        worker.stop()
        await task

    @staticmethod
    def is_idle(log: JobLog) -> bool:
        return not any(log.store.find_jobs(status=status, limit=1) for status in ("queued", "running", "waiting"))

    def finish(self, run: str, found: Path) -> None:
        """The last worker of a life: an operator wakes what paused, and every job must end."""
        tempfile.tempdir = str(self.place)
        journal = Journal(self.journal, f"{run}-finish")
        log = self.open(self.url, ids=RunIds(journal.run))
        watch(log, journal)
        plan = Plan(journal.run, "", "", 0, "", 0, 0, close=True, alive=frozenset({journal.run}))
        self.bury(log, plan)
        for number, row in enumerate(log.store.find_jobs(status="paused", limit=200)):
            actor = Actor("operator", f"{journal.run}-retry-{number}".ljust(20, "."))
            log.command("retry", row["id"], actor)
        asyncio.run(self.live(log, plan, ENDS_WITHIN))
        violations = [str(violation) for violation in serve(log, self.url)]
        log.close()
        with open_reader(self.url) as reader:
            violations += map(str, self.oracle.check(reader, story_of(self.journal), full=True))
        violations += [
            f"L1: job {job.stream} of kind {job.row['kind']} is {job.status} in the end ({job.row['reason']})"
            for job in self.oracle.jobs()
            if job.status != "completed"
        ]
        found.write_text("\n".join(violations + self.outside(ended=True)), encoding="utf-8")

    # -- in the parent -----------------------------------------------------------------------------------------------

    def route(self, point: str) -> tuple[str, int]:
        """The kind of job that leads to *point*, and how often it may be passed before the kill."""
        group = point.partition(".")[0]
        most = 4 if group in {"unit", "append", "atomic", "marks"} else 1
        return operations.KINDS.get(group, ""), 1 if point == "unit.attempted" else most

    def judge(self) -> list[Any]:
        return [*super().judge(), *self.outside()]

    def outside(self, *, ended: bool = False) -> list[str]:
        """What the jobs did beyond the log, against what the log says of them."""
        story = story_of(self.journal)
        written = {"rows": _rows(self.place / "log.db"), "elsewhere": _rows(self.target)}
        found: list[str] = []
        for job in self.oracle.jobs():
            kind = job.row["kind"]
            if kind in written:
                found += _check_rows(job, written[kind], exact=kind == "rows" or ended)
            else:
                found += _check_bodies(job, story.effects)
        return found


def _rows(path: Path) -> dict[str, list[int]]:
    with sqlite3.connect(path, timeout=10) as connection:
        found = connection.execute("SELECT job, n FROM target ORDER BY n").fetchall()
    connection.close()
    rows: dict[str, list[int]] = {}
    for job, n in found:
        rows.setdefault(job, []).append(n)
    return rows


def _check_rows(job: JobTrace, written: dict[str, list[int]], *, exact: bool) -> list[str]:
    """Exactly once: the rows of the recorded batches; of one more in another database, whose record is on its way."""
    have = written.get(job.stream.hex, [])
    recorded = sum(unit.startswith("rows:") for unit in job.units) * operations.SIZE
    allowed = {recorded} if exact else {recorded, recorded + operations.SIZE}
    if have == list(range(len(have))) and len(have) in allowed:
        return []
    return [f"S9: job {job.stream} has written rows {have}, the log says {recorded}"]


def _check_bodies(job: JobTrace, effects: Counter[Any]) -> list[str]:
    """At least once before its record, and at most once more for each time that the job was given back."""
    found: list[str] = []
    again = job.token[1]
    for unit, count in ((unit, effects[job.stream, unit]) for unit in job.units if unit.startswith("step:")):
        if not 1 <= count <= again:
            found.append(f"S9: job {job.stream}: the body of {unit} ran {count} times in {again} grants")
    return found


def run(report: Report, *, kills: int, life: int = LIFE) -> Report:
    """Kill workers until *kills* have been proven."""
    return fork_rig.run(report, kills=kills, life=life, make=WorkerRig, births=False)
