"""Kill -9 of real workers over whole jobs, at the fail points of the whole engine and at any moment.

A child is a worker with several slots that works until it dies, or until nothing is left to do; up to three work on one
log at once.  Beside the log the rig counts what happened outside (``outside.py``): bodies of steps at least once and at
most once more for each time a job was given back, rows of an exactly-once kind, imported ones too, exactly once.

* After each run of up to three kills, by connections opened then: that every child which died had said where, the quick
  oracle (every event since, all leases, receipts and queues, the rows, results and snapshots of the jobs with new
  events, every acknowledgement), the database's own check, and what is outside for each job that has not ended, has new
  events or has written.
* After ``LIFE`` runs, for the whole database from the first event: the full oracle, what is outside for every job, then
  a healthy worker that must end every job, and all of that again.

The parent has done each kind of job once, so that no child imports and compiles what it would compile just so.
``SignalRig`` sends signals instead of kills.
"""

import asyncio
import gc
import random
import signal
import sqlite3
import tempfile
import threading
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

from joblog import Actor, JobLog, JobSpec, LeasePolicy
from joblog.eventstore import failpoint
from joblog.workers import children
from joblog.workers import worker as worker_module
from joblog.workers.worker import Worker, WorkerSettings
from tests import postgres_server as servers
from tests.faults import fork_rig, operations, rig
from tests.faults.finish import is_idle, serve
from tests.faults.fork_rig import ForkRig, Plan
from tests.faults.journal import Journal, story_of
from tests.faults.oracle import Oracle
from tests.faults.outside import TARGET, Outside, imported
from tests.faults.reader import open_reader
from tests.faults.rig import Report
from tests.faults.workload import RunIds, watch

LIFE: Final = 60
LEASES: Final = LeasePolicy(lease=timedelta(seconds=20), heartbeat=timedelta(seconds=5))
SETTINGS: Final = WorkerSettings(slots=3, poll_seconds=0.2, grace_seconds=5.0)
CROWD: Final = (1, 2, 3)  #: workers at once
WORKS_AT_MOST: Final = 4.0  #: seconds of a worker that does not die
IS_STOPPED_AFTER: Final = 0.15  #: seconds of one that is told to stop while it works
ENDS_WITHIN: Final = 120.0  #: seconds in which the last worker must have ended every job
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
    moments = 5
    moment = (0.002, 0.25)

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
        self.outside = Outside(self.url, self.target)

    def warm(self) -> None:
        """Let a worker do each kind of job here first, in a life of its own: no child imports or compiles again."""
        super().warm()
        before = threading.active_count()  # whoever runs this may have threads of its own
        rig.put_back(self._work_here)
        if threading.active_count() > before:
            raise RuntimeError("a process with threads must not fork")
        self.begin()
        gc.collect()
        gc.freeze()

    def _work_here(self) -> None:
        tempfile.tempdir = str(self.place)
        journal = Journal(self.journal, "warm")
        log = self.open(self.url, ids=RunIds("warm"))
        watch(log, journal)
        for kind in operations.ALL:
            plan = Plan(kind, kind, "", 0, kind, 0, 0, close=True, alive=frozenset())
            self.hand_in(log, journal, plan)
        asyncio.run(self.live(log, plan, ENDS_WITHIN))
        log.close()
        journal.close()

    @staticmethod
    def make_table(log: JobLog) -> None:
        with log.store.atomic() as transaction:
            transaction.connection.exec_driver_sql(TARGET)

    def open(self, url: str, **ports: Any) -> JobLog:
        vars(worker_module)["RAMP_PAUSE"] = 0.002
        vars(children)["LOOK_AGAIN"] = timedelta(seconds=2)  # where a kill comes between a child's end and its parent
        return super().open(url, leases=LEASES, **ports)

    # -- in the child ------------------------------------------------------------------------------------------------

    def work(self, plan: Plan) -> None:
        tempfile.tempdir = str(self.place)  # where presence files go
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
        kinds = [plan.must or rng.choice(operations.ALL), *rng.choices(operations.ALL, k=rng.random() < 0.25)]
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
            await asyncio.wait({task}, timeout=0.1)
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
        violations += self.outside.check(self.oracle.jobs(), story_of(self.journal).effects, full=True, ended=True)
        violations += [
            f"L1: job {job.stream} of kind {job.row['kind']} is {job.status} in the end ({job.row['reason']})"
            for job in self.oracle.jobs()
            if job.status != "completed"
        ]
        found.write_text("\n".join(violations), encoding="utf-8")

    # -- in the parent -----------------------------------------------------------------------------------------------

    def crowd(self) -> int:
        return self.rng.choice(CROWD)

    def route(self, point: str) -> tuple[str, int]:
        """The kind of job that leads to *point*, and how often it may be passed before the kill."""
        group = point.partition(".")[0]
        most = 4 if group in {"unit", "append", "atomic", "marks"} or point == "import.written" else 1
        return operations.KINDS.get(group, ""), 1 if point == "unit.attempted" else most

    def judge(self) -> list[Any]:
        found = super().judge()
        return [*found, *self.outside.check(self.oracle.jobs(), self.story.effects, self.oracle.touched)]

    def end(self, run: int) -> list[Any]:
        return [*self.outside.check(self.oracle.jobs(), self.story.effects, full=True), *super().end(run)]


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
