"""Kill -9 of real workers over whole jobs, at the fail points of the whole engine and at any moment.

A child is a worker with several slots that works until it dies, or until nothing is left to do.  Beside the log the rig
counts what happened outside: bodies of steps at least once and at most once more for each time a job was given back,
rows of an exactly-once kind, imported ones too, exactly once.  ``SignalRig`` sends signals instead of kills.
"""

import asyncio
import random
import signal
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

from joblog import Actor, JobLog, JobSpec, LeasePolicy
from joblog.eventstore import failpoint
from joblog.workers import worker as worker_module
from joblog.workers.worker import Worker, WorkerSettings
from tests import postgres_server as servers
from tests.faults import fork_rig, operations, rig
from tests.faults.finish import is_idle, serve
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
IS_STOPPED_AFTER: Final = 0.15  #: seconds of one that is told to stop while it works
ENDS_WITHIN: Final = 60.0  #: seconds in which the last worker must have ended every job
TARGET: Final = "CREATE TABLE IF NOT EXISTS target (job TEXT NOT NULL, n INTEGER NOT NULL)"
#: Points of the store that only workers' own ways to it make worth a second visit.
SHARED: Final = (
    "append.begin",
    "append.before_commit",
    "append.after_commit",
    "append.acknowledged",
    "claim.before_commit",
    "claim.after_commit",
    "expire.before",
    "expire.after",
)
POINTS: Final = (*failpoint.WORKER_POINTS, *SHARED)
TAKES_OVER: Final = ("expire.before", "expire.after")


class WorkerRig(ForkRig):
    """Runs workers on one SQLite log after another."""

    points: tuple[str, ...] = POINTS

    def begin(self) -> None:
        self.clock = None  # workers live in real time
        super().begin()
        self.oracle = Oracle(slack=timedelta(seconds=1), effects=False)
        self.target, self.source = self.place / "target.db", self.place / "source.csv"
        self.source.write_text(operations.SOURCE, encoding="ascii")
        with self.open(self.url) as log:  # makes the schema before a table of ours
            self.make_table(log)
        with sqlite3.connect(self.target) as connection:
            connection.execute(TARGET)
        connection.close()

    @staticmethod
    def make_table(log: JobLog) -> None:
        with log.store.atomic() as transaction:
            transaction.connection.exec_driver_sql(TARGET)

    def open(self, url: str, **ports: Any) -> JobLog:
        return super().open(url, leases=LEASES, **ports)

    # -- in the child ------------------------------------------------------------------------------------------------

    def work(self, plan: Plan) -> None:
        tempfile.tempdir = str(self.place)  # where presence files go
        vars(worker_module)["RAMP_PAUSE"] = 0.002
        journal = Journal(self.journal, plan.run)
        log = self.open(self.url, ids=RunIds(plan.run))
        watch(log, journal)
        self.hand_in(log, journal, plan)
        if (
            plan.point not in TAKES_OVER and plan.steps % 3
        ):  # else the dead are left to be found by their presence files
            self.bury(log, plan)
        if plan.point != fork_rig.ANY_MOMENT:
            failpoint.arm(plan.point, self.harm(plan, partial(journal.fired, plan.point)))
        if plan.point in TAKES_OVER:  # a dead worker is not always at hand, and its file may be in use
            self.bury(log, plan)
        asyncio.run(self.live(log, plan, IS_STOPPED_AFTER if plan.must == "slow" else WORKS_AT_MOST))
        log.close()

    @staticmethod
    def harm(plan: Plan, proof: Callable[[], None]) -> Callable[[], None]:
        """What comes at the point."""
        return rig.die(plan.hit, proof)

    def hand_in(self, log: JobLog, journal: Journal, plan: Plan) -> None:
        """A job that leads to the point, and sometimes others."""
        rng = random.Random(plan.seed)
        kinds = [plan.must or rng.choice(operations.ALL), *rng.choices(operations.ALL, k=rng.randint(0, 1))]
        for number, kind in enumerate(kinds):
            key = f"{plan.run}-{number}"
            spec = operations.jobs.get(kind).spec(self.args(kind, key, rng), key=key)
            journal.submit(spec.job_id)
            log.submit(spec)
            journal.accepted(spec.job_id)

    def args(self, kind: str, key: str, rng: random.Random) -> dict[str, Any]:
        elsewhere = f"sqlite:///{self.target}"
        if kind != "import.file":
            return {"journal": str(self.journal), "target": elsewhere}
        target = rng.choice((self.url, elsewhere))
        table = imported(JobSpec(kind, {}, key=key).job_id)
        return {"source": str(self.source), "target": target, "table": table, "batch": operations.SIZE}

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
        signal.signal(signal.SIGTERM, lambda *_: worker.stop())
        task = asyncio.create_task(worker.serve())
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while not task.done() and loop.time() < until and not await loop.run_in_executor(None, is_idle, log):
            await asyncio.wait({task}, timeout=0.04)
        worker.stop()
        await task

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
        most = 4 if group in {"unit", "append", "atomic", "marks"} or point == "import.written" else 1
        return operations.KINDS.get(group, ""), 1 if point == "unit.attempted" else most

    def judge(self) -> list[Any]:
        return [*super().judge(), *self.outside()]

    def outside(self, *, ended: bool = False) -> list[str]:
        """What the jobs did beyond the log, against what the log says of them."""
        story = story_of(self.journal)
        tables = {job.stream: imported(job.stream) for job in self.oracle.jobs() if job.row["kind"] == "import.file"}
        with open_reader(self.url) as reader:
            here = Counted(reader.rows, tables.values(), reader.dialect)
        with sqlite3.connect(self.target, timeout=10) as connection:
            there = Counted(lambda sql: connection.execute(sql).fetchall(), tables.values(), "sqlite")
        connection.close()
        found: list[str] = []
        for job in self.oracle.jobs():
            kind = job.row["kind"]
            if kind == "rows":
                found += _check_rows(job, here.rows_of(job), exact=True)
            elif kind == "elsewhere":
                found += _check_rows(job, there.rows_of(job), exact=ended)
            elif kind == "import.file":
                name = tables[job.stream]
                where = here if name in here.imported else there
                found += _check_rows(job, where.imported.get(name, []), exact=ended or where is here)
            else:
                found += _check_bodies(job, story.effects)
        return found


def imported(job_id: Any) -> str:
    """The table into which this job imports."""
    return f"imported_{job_id.hex}"


class Counted:
    """The rows that jobs have written into one database."""

    def __init__(self, ask: Callable[[str], list[tuple[Any, ...]]], tables: Iterable[str], dialect: str) -> None:
        self._rows: dict[str, list[int]] = {}
        for job, n in ask("SELECT job, n FROM target ORDER BY n"):
            self._rows.setdefault(job, []).append(n)
        there = {name for (name,) in ask(_TABLES[dialect])}.intersection(tables)
        self.imported = {name: sorted(int(n) for (n,) in ask(f"SELECT n FROM {name}")) for name in there}

    def rows_of(self, job: JobTrace) -> list[int]:
        return self._rows.get(job.stream.hex, [])


_TABLES: Final = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table'",
    "postgresql": "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'",
}


def _check_rows(job: JobTrace, have: list[int], *, exact: bool) -> list[str]:
    """Exactly once: the rows of the recorded batches; of one more in another database, whose record is on its way."""
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
        if not 1 <= count <= again and not unit.startswith("step:spawn"):
            found.append(f"S9: job {job.stream}: the body of {unit} ran {count} times in {again} grants")
    return found


class PostgresWorkerRig(WorkerRig):
    """The same on a database of the test run's server."""

    points = tuple(point for point in POINTS if not point.startswith("checkpoint."))
    driver = "postgresql+psycopg"

    def __init__(self, folder: Path, report: Report) -> None:
        self._databases = ExitStack()
        super().__init__(folder, report)

    def new_database(self, place: Path) -> str:
        del place
        return self._databases.enter_context(servers.fresh_database())

    def close(self) -> None:
        self._databases.close()

    def exists(self) -> bool:
        return True


class SignalRig(WorkerRig):
    """Tells workers to stop, at the same points: each gives back what it holds, and nobody counts it as a crash."""

    points = tuple(point for point in POINTS if point not in TAKES_OVER)  # nobody dies here

    @staticmethod
    def harm(plan: Plan, proof: Callable[[], None]) -> Callable[[], None]:
        return rig.tell(plan.hit, proof, signal.SIGTERM)

    def judge(self) -> list[Any]:
        found = super().judge()
        with open_reader(self.url) as reader:
            held = reader.rows("SELECT count(*) FROM leases")[0][0]
        if held:
            found.append(f"SHD-01: {held} leases are left behind by workers that were told to stop")
        crashed = [job.stream for job in self.oracle.jobs() if job.row["crashes"] or job.row["reclaims"]]
        return [*found, *(f"STU-05: job {stream} counts a crash" for stream in crashed)]

    def check_proofs(self) -> list[Any]:
        return ["a worker that was told to stop was killed"] if self._kills else []

    def _kill_any_moment(self, pid: int) -> bool:
        del pid
        return False


def run(report: Report, *, kills: int, life: int = LIFE, make: type[WorkerRig] = WorkerRig) -> Report:
    """Kill workers until *kills* have been proven."""
    return fork_rig.run(report, kills=kills, life=life, make=make, births=False)
