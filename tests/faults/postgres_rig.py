"""Kill -9 of workers at the fail points on PostgreSQL, and of the server and its backends under load."""

import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import partial
from mmap import mmap
from pathlib import Path
from threading import Event
from typing import Any, Final

import psycopg
import sqlalchemy as sa

from joblog import JobLog, LeasePolicy
from joblog.domain.errors import StoreUnavailableError
from joblog.workers.commands import log as log_module
from tests import postgres_server as servers
from tests.faults import fork_rig, rig
from tests.faults.finish import finish
from tests.faults.fork_rig import POINTS, SNAPSHOT_EVERY, ForkRig
from tests.faults.journal import Journal, Story
from tests.faults.oracle import Oracle
from tests.faults.reader import open_reader
from tests.faults.rig import Report
from tests.faults.workload import BROKEN, RunIds, Script, watch

LIFE: Final = 100
LEASES: Final = LeasePolicy(lease=timedelta(seconds=10), heartbeat=timedelta(seconds=3))
WORKERS: Final = 3
#: Fail points that no client of PostgreSQL passes, and why.
EXCLUDED: Final[dict[str, str]] = {
    "append.units_inserted": "inside the server's function",
    "append.rows_written": "inside the server's function",
    "append.locked": "inside the server's function",
    "append.events_inserted": "inside the server's function",
    "checkpoint.before": "the server's own business",
    "checkpoint.after": "the server's own business",
}


class PostgresForkRig(ForkRig):
    """The fork rig on a database of the test run's server."""

    points = tuple(point for point in POINTS if point not in EXCLUDED)
    driver = "postgresql+psycopg"

    def __init__(self, folder: Path, report: Report) -> None:
        self._databases = ExitStack()
        super().__init__(folder, report)

    def begin(self) -> None:
        self.clock = None  # it is the server's
        super().begin()

    def new_database(self, place: Path) -> str:
        del place
        return self._databases.enter_context(servers.fresh_database())

    def close(self) -> None:
        self._databases.close()

    def open(self, url: str, **ports: Any) -> JobLog:
        return super().open(url, leases=LEASES, **ports)

    def exists(self) -> bool:
        return True


def run_kills(report: Report, *, kills: int, life: int = LIFE) -> Report:
    """As on SQLite; migrations, which take seconds, only in a run that takes minutes."""
    return fork_rig.run(report, kills=kills, life=life, make=PostgresForkRig, births=kills >= LIFE)


# -- the server dies ---------------------------------------------------------------------------------------------------


class CrashRig:
    """Workers that go on while their server is hurt; it is a server of the rig's own."""

    def __init__(self, server: servers.Server, folder: Path, report: Report) -> None:
        self.server, self.report = server, report
        self.journal, self.errors = folder / "journal", folder / "errors"
        self.rng = random.Random(report.seed)
        self.oracle, self.story = Oracle(slack=timedelta(seconds=1)), Story()
        self.stop = mmap(-1, 1)
        self._tick = Event()
        self._run = self._seen = 0
        Journal(self.journal).close()
        with self.connected("postgres") as connection:
            connection.execute("CREATE DATABASE load TEMPLATE template0")
        self.url = server.url("load")

    def open(self, url: str, **ports: Any) -> JobLog:
        vars(log_module)["SNAPSHOT_EVERY"] = SNAPSHOT_EVERY
        return JobLog.open(url, random=random.Random(1), leases=LEASES, **ports)

    @contextmanager
    def connected(self, database: str = "load") -> Iterator[psycopg.Connection[Any]]:
        plain = sa.make_url(self.server.url(database)).set(drivername="postgresql")
        with psycopg.connect(plain.render_as_string(hide_password=False), autocommit=True) as connection:
            yield connection

    # -- in the children ---------------------------------------------------------------------------------------------

    def work(self, run: str, alive: frozenset[str]) -> None:
        """Work until told to stop; a server that goes away ends no process."""
        journal = Journal(self.journal, run)
        while (log := self._opened(run, journal)) is None:  # it may be hurt already
            self._tick.wait(0.05)
        keys = 20 + 3 * self._run
        script = Script(log, journal, random.Random(run), keys=keys, expected=BROKEN, weights={"epoch": 0})
        script.alive = alive
        while not self.stop[0]:
            before = script.refused
            script.run(3)
            if script.refused - before == 3:
                self._tick.wait(0.01)
        log.close()

    def _opened(self, run: str, journal: Journal) -> JobLog | None:
        try:
            log = self.open(self.url, ids=RunIds(run))
            watch(log, journal)
        except StoreUnavailableError:
            return None
        return log

    # -- in the parent -----------------------------------------------------------------------------------------------

    def round(self, faults: int) -> list[Any]:
        """Start workers, hurt the server *faults* times, stop the workers, judge."""
        self._run += 1
        self.stop[0] = 0
        names = frozenset(f"{self.report.seed:x}.{self._run}.{n}" for n in range(WORKERS))
        pids = {name: rig.fork(partial(self.work, name, names), self.errors) for name in sorted(names)}
        seen: list[Any] = []
        for _ in range(faults):
            self._tick.wait(self.rng.uniform(0.05, 0.5))
            self.report.runs += 1
            kind, hurt = self.rng.choice(self.hurts())
            self.report.fired[kind] += hurt()
            self._wait_until_up()
            seen += self.look()
        self._tick.wait(0.3)
        self.stop[0] = 1
        found: list[Any] = []
        for name, pid in pids.items():
            try:
                code = rig.reap(pid)
            except TimeoutError as error:
                found.append(f"{name}: {error}")
                continue
            if code:
                found.append(f"{name} ended with {code}: {self.errors.read_text(encoding='utf-8')}")
        return seen + found + self.judge()

    def look(self) -> list[Any]:
        """What a reader sees while others append: no gap, and never less than before (S3, S4)."""
        with open_reader(self.url) as reader:
            count, head = reader.extent()
        before, self._seen = self._seen, max(self._seen, head)
        found = [f"S4: {count} events up to position {head}"] if count != head else []
        return [*found, f"S3: the log ends at {head} and has been {before} long"] if head < before else found

    def hurts(self) -> list[tuple[str, Callable[[], int]]]:
        """Each answers how many times the fault has been proven."""
        return [
            ("backend-terminated", self.terminate_one),
            ("backends-terminated", self.terminate_all),
            ("backend-killed", self.kill_backend),
            ("server-stopped", self.stop_server),
        ]

    def _backends(self, connection: psycopg.Connection[Any]) -> list[int]:
        clients = "SELECT pid FROM pg_stat_activity WHERE datname = 'load' AND backend_type = 'client backend'"
        return [pid for (pid,) in connection.execute(clients).fetchall() if pid != connection.info.backend_pid]

    def terminate_one(self) -> int:
        with self.connected() as connection:
            pids = self._backends(connection)
            return int(bool(pids) and self._terminate(connection, self.rng.choice(pids)))

    def terminate_all(self) -> int:
        with self.connected() as connection:
            return sum(self._terminate(connection, pid) for pid in self._backends(connection))

    @staticmethod
    def _terminate(connection: psycopg.Connection[Any], pid: int) -> bool:
        row = connection.execute("SELECT pg_terminate_backend(%s)", (pid,)).fetchone()
        return bool(row and row[0])

    def kill_backend(self) -> int:
        """SIGKILL of one backend: the server ends all others and recovers from its log."""
        before = self._crashes()
        with self.connected() as connection:
            pids = self._backends(connection)
            if not pids:
                return 0
            os.kill(self.rng.choice(pids), signal.SIGKILL)
        for _ in range(500):
            if self._crashes() > before:
                return 1
            self._tick.wait(0.02)
        return 0

    def _crashes(self) -> int:
        log = self.server.data.with_name(f"{self.server.data.name}.log")
        return log.read_text(encoding="utf-8", errors="replace").count("server processes terminated; reinitializing")

    def stop_server(self) -> int:
        """A stop without a shutdown checkpoint, and a start, which recovers."""
        self.server.stop("immediate")
        self._tick.wait(self.rng.uniform(0, 0.3))
        self.server.start()
        return 1

    def _wait_until_up(self) -> None:
        for _ in range(1500):
            try:
                with self.connected() as connection:
                    connection.execute("SELECT 1")
            except psycopg.OperationalError:
                self._tick.wait(0.02)
            else:
                return
        raise TimeoutError("the server does not come back")

    def judge(self, *, full: bool = False) -> list[Any]:
        self.story.follow(self.journal)
        with open_reader(self.url) as reader:
            return [*self.oracle.check(reader, self.story, full=full)]

    def end(self) -> list[Any]:
        self.report.counts += self.story.answers()
        self.report.counts["events"] += self.oracle.head
        return self.judge(full=True) or [*finish(self.url, self.journal, self.open, clock=None, run="healer")]


def run_crashes(report: Report, *, faults: int, in_round: int = 5) -> Report:
    """Hurt the server *faults* times under load."""
    report.again = f"python -m tests.faults.campaign --only {report.campaign} --seed {report.seed} --kills {faults}"
    with servers.private_server() as server, rig.scratch() as folder, rig.timed(report):
        crashes = CrashRig(server, folder, report)
        with crashes.open(crashes.url):
            pass
        while report.runs < faults and not report.failed and not rig.STOP.is_asked():
            if found := crashes.round(min(in_round, faults - report.runs)):
                report.fail(f"round with fault {report.runs} ({report.again}; kept in {_kept(folder, report)})", found)
        if not report.failed and (found := crashes.end()):
            report.fail(f"at the end ({report.again}; kept in {_kept(folder, report)})", found)
    return report


def _kept(folder: Path, report: Report) -> Path:
    return rig.keep(folder, f"{report.campaign}-{report.seed}")
