"""Commits whose answer is lost: carried out or not, the caller is not told; sending again makes no second copy.

On both databases a fail point raises the driver's own error of a lost connection or a failed disk, before or after the
commit; on PostgreSQL a proxy also loses the bytes themselves.
"""

import random
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import psycopg
import sqlalchemy as sa

from joblog import JobLog, LeasePolicy
from joblog.eventstore import failpoint
from joblog.workers.commands import log as log_module
from tests.faults import proxy, rig
from tests.faults.finish import finish
from tests.faults.journal import Journal, story_of
from tests.faults.oracle import Oracle
from tests.faults.reader import open_reader
from tests.faults.rig import Report
from tests.faults.workload import BROKEN, RunIds, Script, SharedClock, watch

SHARE: Final = 0.15  #: of the appends lose their answer
STEPS: Final = 12  #: commands between two looks of the oracle
#: Where an answer can be lost on each database; before the commit the request itself is.
POINTS: Final = {
    "sqlite": ("append.before_commit", "append.after_commit"),
    "postgresql": ("append.before_commit", "append.after_commit", "claim.before_commit"),
}


def lost_connection() -> Exception:
    return psycopg.OperationalError("server closed the connection unexpectedly")


def failed_disk() -> Exception:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR
    return error


def _is_main() -> bool:
    """Snapshots are written beside, at moments that no seed repeats: they lose nothing and are left alone."""
    return threading.current_thread() is threading.main_thread()


class AnswersRig:
    """One process at work on one log, whose answers get lost."""

    def __init__(self, url: str, folder: Path, report: Report) -> None:
        self.url, self.report = url, report
        self.dialect = sa.make_url(url).get_backend_name()
        self.clock = SharedClock() if self.dialect == "sqlite" else None
        self.journal = folder / "journal"
        self.rng = random.Random(report.seed)
        self.oracle = Oracle()
        self._phase = 0

    def open(self, url: str, **ports: Any) -> JobLog:
        if self.clock is not None:
            ports["clock"] = self.clock
        return JobLog.open(url, random=random.Random(1), leases=LeasePolicy(), **ports)

    def work(self, url: str, losses: int, fail: Callable[[str], Callable[[], None]]) -> list[Any]:
        """Run scripts on *url* until *losses* have happened; *fail* makes the action of a point."""
        self._phase += 1
        facts = Journal(self.journal, f"a{self.report.seed:x}-{self._phase}")
        log = self.open(url, ids=RunIds(facts.run))
        watch(log, facts)
        script = Script(log, facts, self.rng, clock=self.clock, keys=12, expected=BROKEN, weights={"snapshot": 0.2})
        found: list[Any] = []
        try:
            while self.report.fired.total() < losses and not found and not rig.STOP.is_asked():
                self.report.runs += 1
                for point in POINTS[self.dialect]:
                    failpoint.arm(point, fail(point))
                try:
                    script.run(STEPS)
                except AssertionError as error:
                    found = [f"S2: {error}"]
                failpoint.disarm()
                script.keys += 2
                found += self.judge()
        finally:
            failpoint.disarm()
            self.report.counts["retried"] += log.busy.counts["retried"]
            log.close()
            facts.close()
        return found

    def raising(self, make: Callable[[], Exception]) -> Callable[[str], Callable[[], None]]:
        """Now and then a point raises the driver's error."""

        def action(point: str) -> Callable[[], None]:
            def act() -> None:
                if _is_main() and self.rng.random() < SHARE:
                    self.report.fired[f"{point}-raised"] += 1
                    raise make()

            return act

        return action

    def losing(self, between: proxy.Proxy) -> Callable[[str], Callable[[], None]]:
        """Now and then the proxy loses the answer, or the request, that comes next."""

        def action(point: str) -> Callable[[], None]:
            def act() -> None:
                if _is_main() and self.rng.random() < SHARE and point.endswith("before_commit"):
                    between.lose(self.rng.choice((proxy.ANSWER, proxy.ANSWER, proxy.REQUEST)))
                self.report.fired.update(between.fired)
                between.fired.clear()

            return act

        return action

    def judge(self, *, full: bool = False) -> list[Any]:
        story = story_of(self.journal)
        with open_reader(self.url) as reader:
            return [*self.oracle.check(reader, story, full=full)]


def run(report: Report, url: str, *, losses: int) -> Report:
    """Lose *losses* answers or requests of work on *url*, which is empty; half of them on the wire if there is one."""
    report.again = f"python -m tests.faults.campaign --only {report.campaign} --seed {report.seed} --kills {losses}"
    vars(log_module)["SNAPSHOT_EVERY"], before = 4, log_module.SNAPSHOT_EVERY
    try:
        with rig.scratch() as folder, rig.timed(report):
            answers = AnswersRig(url, folder, report)
            found = _lose(answers, url, losses)
            story = story_of(answers.journal)
            report.counts += story.answers()
            found = found or answers.judge(full=True)
            found = found or [*finish(url, answers.journal, answers.open, clock=answers.clock, run="healer")]
            if found:
                report.fail(f"script {report.runs} ({report.again})", found)
    finally:
        vars(log_module)["SNAPSHOT_EVERY"] = before
    return report


def _lose(answers: AnswersRig, url: str, losses: int) -> list[Any]:
    if answers.dialect == "sqlite":
        return answers.work(url, losses, answers.raising(failed_disk))
    if found := answers.work(url, losses // 2, answers.raising(lost_connection)):
        return found
    parsed = sa.make_url(url)
    with proxy.Proxy(parsed.host or "127.0.0.1", parsed.port or 5432) as between:
        through = parsed.set(host="127.0.0.1", port=between.port).render_as_string(hide_password=False)
        return answers.work(through, losses, answers.losing(between))


def run_sqlite(report: Report, *, losses: int) -> Report:
    with rig.scratch() as folder:
        return run(report, f"sqlite:///{folder / 'log.db'}", losses=losses)
