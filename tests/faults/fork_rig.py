"""Kill -9 at every fail point, on SQLite: a warm parent forks children that work on one log and die at a point.

The parent holds no connection while it forks.  After each run the quick oracle judges the log; after ``LIFE`` runs the
full one does, a healthy worker ends every job, and the next run starts with an empty folder.
"""

import gc
import os
import random
import shutil
import signal
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import alembic.command  # noqa: F401 - the parent is warm: no child imports it again
import sqlalchemy as sa

from joblog import JobLog
from joblog.eventstore import failpoint, migrate, sql_reads
from joblog.eventstore.sqlite_append import SqliteAppends
from joblog.eventstore.statements import Compiled, Statements
from joblog.workers.commands import log as log_module
from tests.faults import rig
from tests.faults.finish import finish
from tests.faults.journal import Journal, Story
from tests.faults.oracle import Oracle, Violation
from tests.faults.reader import open_reader
from tests.faults.rig import Report
from tests.faults.workload import EXPECTED, RunIds, Script, SharedClock, watch

LIFE: Final = 200  #: runs on one database
SNAPSHOT_EVERY: Final = 4
#: Fail points that this rig does not reach, and why.  A new point must be covered or stand here.
EXCLUDED: Final[dict[str, str]] = {}
BIRTHS: Final = tuple(point for point in failpoint.POINTS if point.startswith("migrate."))
POINTS: Final = tuple(point for point in failpoint.POINTS if point not in EXCLUDED and point not in BIRTHS)
#: What a script must do to reach the points of a group, and how often it passes them at most.
MUST: Final = {
    "append.diagnosing": ("resend", 2),
    "append": ("", 12),
    "claim": ("claim", 2),
    "renew": ("renew", 2),
    "expire": ("expire", 2),
    "promote": ("promote", 1),
    "snapshot": ("snapshot", 2),
    "checkpoint": ("checkpoint", 1),
    "outbox": ("outbox", 1),
    "rebuild": ("rebuild", 1),
    "gate": ("gate", 1),
}
ANY_MOMENT: Final = "any-moment"


def route(point: str) -> tuple[str, int]:
    """The command that leads to *point*, and how many times it may be passed before the kill.

    Raises:
        KeyError: a point of a new group; teach the script the way, or exclude it with a reason.
    """
    return MUST.get(point) or MUST[point.partition(".")[0]]


@dataclass(frozen=True)
class Plan:
    """One child's life."""

    run: str
    seed: str
    point: str
    hit: int
    must: str
    steps: int
    keys: int
    close: bool
    alive: frozenset[str]  #: the runs of this child and of the other one: all other holders are dead

    @property
    def alone(self) -> bool:
        return len(self.alive) == 1


class KeptStatements(Statements):
    """What the parent has compiled, its children need not compile again."""

    def __init__(self, dialect: sa.Dialect) -> None:
        self._made: dict[Any, Compiled] = {}
        super().__init__(dialect)
        self._upsert = cache(super().upsert)

    def upsert(self, table: sa.Table, key: str, *, newer: str | None = None) -> Any:
        return self._upsert(table, key, newer=newer)

    def compile(self, statement: Any) -> Compiled:
        """By identity: only an upsert comes twice."""
        return self._made.get(statement) or self._made.setdefault(statement, super().compile(statement))


class ForkRig:
    """Runs children on one database after another."""

    points = POINTS
    moments = 2  #: kills at any moment for one at each point
    moment = (0.002, 0.04)  #: seconds from the fork to a kill at any moment: the least and the most
    driver = "sqlite"

    def __init__(self, folder: Path, report: Report) -> None:
        self.folder, self.report = folder, report
        self.rng = random.Random(report.seed)
        self.statements = KeptStatements(sa.make_url(f"{self.driver}://").get_dialect()())
        self.clock: SharedClock | None = SharedClock()
        self._points: list[str] = []
        self._life = -1
        self.place: Path
        self.begin()
        self.warm()

    def begin(self) -> None:
        """An empty database, a new journal and an oracle without a memory."""
        if self._life >= 0:  # what a failed run leaves has been kept elsewhere
            shutil.rmtree(self.place)
        self._life += 1
        self._kills = 0  #: children that ended by SIGKILL and not at a moment of ours
        self.place = self.folder / f"life-{self._life}"
        self.place.mkdir()
        self.url = self.new_database(self.place)
        self.journal, self.errors = self.place / "journal", self.place / "errors"
        self.oracle, self.story = Oracle(), Story()
        Journal(self.journal).close()

    def new_database(self, place: Path) -> str:
        return f"sqlite:///{place / 'log.db'}"

    def close(self) -> None:
        """Give back what the rig holds."""

    def warm(self) -> None:
        """Run a script here once, on a log of its own, closed before any fork: each child then starts compiled."""
        place = self.folder / "warm"
        place.mkdir()
        with self.open(self.new_database(place)) as log:
            watch(log, journal := Journal(place / "journal", "warm"))
            Script(log, journal, random.Random(1), clock=self.clock).run(60)
            journal.close()
        gc.collect()
        gc.freeze()

    # -- in the child ------------------------------------------------------------------------------------------------

    def open(self, url: str, **ports: Any) -> JobLog:
        """Open the log with what the parent has compiled already."""
        vars(sql_reads)["Statements"] = lambda _: self.statements
        vars(log_module)["SNAPSHOT_EVERY"] = SNAPSHOT_EVERY
        if self.clock is not None:
            ports["clock"] = self.clock
        return JobLog.open(url, random=random.Random(1), **ports)

    def work(self, plan: Plan) -> None:
        journal = Journal(self.journal, plan.run)
        if plan.point != ANY_MOMENT:
            failpoint.arm(plan.point, rig.die(plan.hit, partial(journal.fired, plan.point)))
        log = self.open(self.url, ids=RunIds(plan.run))
        watch(log, journal)
        script = Script(log, journal, random.Random(plan.seed), clock=self.clock, keys=plan.keys, expected=EXPECTED)
        script.may_move_time, script.alive = plan.alone, plan.alive
        script.run(plan.steps, must=plan.must)
        if plan.close or plan.must == "snapshot":  # which is written beside: closing waits for it
            log.close()

    def finish(self, run: str, found: Path) -> None:
        """In a child of its own: the parent stays without threads and connections."""
        violations = finish(self.url, self.journal, self.open, clock=self.clock, run=f"{run}-finish")
        found.write_text("\n".join(map(str, violations)), encoding="utf-8")

    # -- in the parent -----------------------------------------------------------------------------------------------

    def _next_point(self) -> str:
        if not self._points:
            self._points = [*self.points, *[ANY_MOMENT] * self.moments]
            self.rng.shuffle(self._points)
            self._points += [point for point in self.points if not self.report.fired[point]]  # these first
        return self._points.pop()

    def route(self, point: str) -> tuple[str, int]:
        return route(point)

    def crowd(self) -> int:
        """How many children there are at once."""
        return 2 if self.rng.random() < 0.2 else 1

    def plans(self, run: int) -> list[Plan]:
        """The children of one run; only a lonely one moves the clock."""
        names = [f"{self.report.seed:x}.{run}.{child}" for child in range(self.crowd())]
        made: list[Plan] = []
        for name in names:
            point = self._next_point()
            must, most = ("", 0) if point == ANY_MOMENT else self.route(point)
            hit = self.rng.randint(1, most) if most and self.report.fired[point] else 1
            steps, keys, close = self.rng.randint(3, 8), 12 + run % LIFE // 3, self.rng.random() < 0.5
            made.append(Plan(name, name, point, hit, must, steps, keys, close, frozenset(names)))
        return made

    def step(self, run: int) -> list[Any]:
        """One run: fork, kill, reap, judge."""
        if self.clock is not None and self.rng.random() < 0.04:
            self.clock.reboot()
        plans = self.plans(run)
        children = [(plan, rig.fork(partial(self.work, plan), self.errors)) for plan in plans]
        found: list[Any] = []
        for plan, pid in sorted(children, key=lambda child: child[0].point != ANY_MOMENT):  # their moment comes first
            killed = plan.point == ANY_MOMENT and self._kill_any_moment(pid)
            try:
                code = rig.reap(pid)
            except TimeoutError as error:
                found.append(error)
                continue
            if code not in {0, -signal.SIGKILL}:
                found.append(f"child {plan.run} ended with {code}: {self._errors()}")
            self.report.fired[ANY_MOMENT] += killed and code == -signal.SIGKILL
            self._kills += code == -signal.SIGKILL and not killed
            self.report.counts["unharmed"] += code == 0
        return found + self.judge() + self.check_proofs()

    def check_proofs(self) -> list[Any]:
        """Each child that died has said where, right before; and each that said so has died."""
        told = sum(self.story.fired[point] for point in self.points)
        return [] if told == self._kills else [f"{self._kills} children died, {told} have said at which point"]

    def _kill_any_moment(self, pid: int) -> bool:
        """Where no point was thought of."""
        if rig.ended(pid, self.rng.uniform(*self.moment)):
            return False
        os.kill(pid, signal.SIGKILL)
        return True

    def _errors(self) -> str:
        return self.errors.read_text(encoding="utf-8") if self.errors.exists() else "nothing was said"

    def judge(self) -> list[Violation]:
        before = self.story.fired.copy()
        self.story.follow(self.journal)
        self.report.fired += self.story.fired - before
        if not self.exists():
            return []
        with open_reader(self.url, writable=self.rng.random() < 0.3) as reader:
            return self.oracle.check(reader, self.story)

    def exists(self) -> bool:
        """Whether a child has come so far as to make the file."""
        return (self.place / "log.db").exists()

    def end(self, run: int) -> list[Any]:
        """The full check at the end of a database's life, with its memory, then a healthy worker."""
        if not self.exists():
            return []
        with open_reader(self.url) as reader:
            found: list[Any] = [*self.oracle.check(reader, self.story, full=True)]
        self.report.counts += self.story.answers()
        self.report.counts["events"] += self.oracle.head
        answer = self.place / "found"
        code = rig.reap(rig.fork(partial(self.finish, str(run), answer), self.errors))
        if code:
            return [*found, f"the healthy worker ended with {code}: {self._errors()}"]
        return found + [line for line in answer.read_text(encoding="utf-8").splitlines() if line]

    def births(self, run: int) -> list[Any]:
        """Kill a migration of an empty file at each of its points: all of the schema is there, or nothing."""
        found: list[Any] = []
        for point in BIRTHS:
            place = self.place / point
            place.mkdir()
            url, hit = self.new_database(place), self.rng.randint(1, 30) if point == "migrate.statement" else 1
            self.report.runs += 1
            code = rig.reap(rig.fork(partial(self.migrate, url, point, hit, run), self.errors))
            if code != -signal.SIGKILL:
                found.append(f"{point} was not reached at hit {hit}: {self._errors()}")
            with open_reader(url) as reader:
                half = reader.schema()
            if half and "events is missing" not in half:
                found.append(f"{point}: a killed migration left half a schema: {half}")
            if rig.reap(rig.fork(partial(self.migrate_again, url), self.errors)):
                found.append(f"{point}: after a kill the migration does not go on: {self._errors()}")
        return found

    def migrate(self, url: str, point: str, hit: int, run: int) -> None:
        journal = Journal(self.journal, f"birth-{run}")
        failpoint.arm(point, rig.die(hit, partial(journal.fired, point)))
        migrate.upgrade(url)

    def migrate_again(self, url: str) -> None:
        migrate.upgrade(url)
        if different := migrate.check(url):
            raise AssertionError(different)
        self.open(url).close()


class TornRig(ForkRig):
    """The rig on trial: its product commits the rows of an append before the events."""

    def open(self, url: str, **ports: Any) -> JobLog:
        whole = SqliteAppends._write_rows

        def torn(appends: SqliteAppends, cursor: Any, *arguments: Any) -> None:
            whole(appends, cursor, *arguments)
            cursor.execute("COMMIT")
            cursor.execute("BEGIN IMMEDIATE")

        vars_of_class: Any = SqliteAppends
        vars_of_class._write_rows = torn
        try:
            return super().open(url, **ports)
        finally:
            if url != self.url:  # warming up in the parent
                vars_of_class._write_rows = whole

    def finish(self, run: str, found: Path) -> None:
        """Nothing is expected of this product."""


def run(
    report: Report,
    *,
    kills: int,
    life: int = LIFE,
    make: type[ForkRig] = ForkRig,
    births: bool = True,
    tell: Callable[[str], None] = lambda _: None,
) -> Report:
    """Kill until *kills* have been proven, something does not hold, or the process is told to stop."""
    report.again = f"python -m tests.faults.campaign --only {report.campaign} --seed {report.seed} --kills {kills}"
    with rig.scratch() as folder, rig.timed(report), closing(make(folder, report)) as forks:
        number = 0
        while report.fired.total() < kills and not report.failed:
            if births and number % life == 0:
                _judged(report, forks, number, forks.births(number))
            report.runs += 1
            _judged(report, forks, number, forks.step(number))
            number += 1
            last = report.fired.total() >= kills or rig.STOP.is_asked()
            if number % life == 0 or last:
                _judged(report, forks, number, forks.end(number))
                tell(report.line())
                if last:
                    break
                forks.begin()
    return report


def _judged(report: Report, forks: ForkRig, number: int, found: list[Any]) -> None:
    if found:
        kept = rig.keep(forks.place, f"{report.campaign}-{report.seed}-{number}")
        report.fail(f"run {number} ({report.again}; kept in {kept})", found)
