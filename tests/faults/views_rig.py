"""Kill -9 of whatever folds the log: following, rebuilding, switching, dropping, importing reports (SQLite and PostgreSQL).

A warm parent, which holds no connection, forks children that work on one log and die at a fail point, or at any moment.
While a generation is built and put in its place another child reads.  After each kill one judges: each view's rows are the
fold of the events up to its position (S13), readers have seen the old generation or the new one, whole (S14), no position
ever moves back, and each line of a file of reports is one row of the report (S16).
"""

import json
import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from threading import Event
from typing import Final

from joblog.domain.spec import JobSpec
from joblog.eventstore import failpoint
from joblog.projections import queries, view_rebuild
from joblog.projections import rebuild as job_rebuild
from joblog.projections.runner import Runner
from joblog.projections.verify import row_differences
from joblog.projections.view_verify import verify
from joblog.projections.views import VIEWS
from joblog.workers.commands import recovery
from joblog.workers.commands.log import JobLog
from tests import postgres_server as servers
from tests.faults import rig
from tests.faults.rig import Report

LIFE: Final = 40  #: kills on one log
OWNER: Final = "rig"  #: the same for all: a turn or a rebuild of one that was killed is its own
ANY: Final = "any-moment"
LONGEST: Final = 0.15  #: seconds until a kill at any moment
GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "follow": ("view.elected", "view.folded", "view.rows_written", "view.before_commit", "view.after_commit"),
    "rebuild": ("view.rebuild_begun", "view.rebuild_batch", "view.before_switch", "view.after_switch"),
    "drop": ("view.dropped",),
    "reports": ("recovery.read", "recovery.appended"),
    "jobs": ("rebuild.begun", "rebuild.batch", "rebuild.before_switch", "rebuild.after_switch", "rebuild.dropped"),
}
GROUP_OF: Final = {point: group for group, points in GROUPS.items() for point in points}
POINTS: Final = (*GROUP_OF, ANY)
#: How often the work that leads to a point passes it at least.
PASSES: Final = {"view.folded": 6, "view.rows_written": 6}


def small() -> None:
    """Batches so small that each work has several."""
    view_rebuild.BATCH, view_rebuild.CATCH_UP = 20, 5  # type: ignore[misc]
    job_rebuild.BATCH, job_rebuild.CATCH_UP = 20, 5  # type: ignore[misc]
    recovery.BATCH = 2  # type: ignore[misc]


class Place:
    """One log, and what is folded from it."""

    def __init__(self, folder: Path, url: str) -> None:
        self.url = url
        self.folder, self.errors, self.proof = folder, folder / "errors", folder / "proof"
        self.reports, self.stop = folder / "recovery-events.jsonl", folder / "stop"
        self.reached = folder / "reached"  #: how far each view had come when it was judged last
        self.has_read = Event()
        self._view = VIEWS["recovery"]

    # -- work: each leads to the points of its group ---------------------------------------------------------------------

    def work(self, group: str) -> None:
        with JobLog.open(self.url) as log:
            grow(log)
            getattr(self, f"do_{group}")(log)

    def do_follow(self, log: JobLog) -> None:
        Runner(log.store, log.mapper, OWNER, batch=15).run()

    def do_rebuild(self, log: JobLog) -> None:
        view_rebuild.rebuild(log.store, log.mapper, self._view, OWNER)

    def do_drop(self, log: JobLog) -> None:
        self.do_follow(log)
        self.do_rebuild(log)
        view_rebuild.drop_old(log.store, self._view, limit=3)

    def do_reports(self, log: JobLog) -> None:
        with self.reports.open("a") as file:
            for _ in range(5):
                file.write(json.dumps({"type": "restore-finished", "detail": log.ids.next()}) + "\n")
            file.flush()
        recovery.import_file(log, self.reports)

    def do_jobs(self, log: JobLog) -> None:
        job_rebuild.rebuild(log.store, log.mapper, OWNER)
        log.store.rebuild_drop_old()

    def do_all(self, log: JobLog) -> None:
        for group in GROUPS:
            getattr(self, f"do_{group}")(log)

    # -- reading beside --------------------------------------------------------------------------------------------------

    def read(self) -> None:
        """Read the report until told to stop: no reading may show fewer rows than the one before, as none is ever removed.

        Raises:
            AssertionError: one did.
        """
        seen = 0
        with JobLog.open(self.url) as log:
            while not self.stop.exists():
                found = queries.recovery_count(log.store)
                assert found >= seen, f"S14: {found} rows after {seen}: a generation that is not whole was read"
                seen = found
                self.has_read.set()

    # -- judging ---------------------------------------------------------------------------------------------------------

    def judge(self) -> None:
        """Whether all that is left is true.

        Raises:
            AssertionError: it is not.
        """
        with JobLog.open(self.url) as log:
            before = json.loads(self.reached.read_text()) if self.reached.exists() else {}
            standings = log.store.views.standings()
            reached = {name: one.position for name, one in standings.items()}
            for name, one in standings.items():
                assert one.position >= before.get(name, 0), (
                    f"S14: {name} went back from {before[name]} to {one.position}"
                )
                assert one.stopped_at is None, f"S13: {name} stands still at {one.stopped_at}: {one.reason}"
            self.reached.write_text(json.dumps(reached))
            for view in VIEWS.values():
                found = verify(log.store, log.mapper, view)
                assert not found.differences, f"S13: {view.name} has {found.differences} rows that the log does not say"
            for difference in row_differences(log.store, log.mapper):
                raise AssertionError(f"S13: {difference}")

    def finish(self) -> None:
        """A healthy process goes on with all of it, and it comes to what it must.

        Raises:
            AssertionError: it does not.
        """
        with JobLog.open(self.url) as log:
            self.do_all(log)
            self.do_follow(log)
            head = log.store.head()
            assert {one.position for one in log.store.views.standings().values()} == {head}, (
                "S13: a view is left behind"
            )
            lines = [json.loads(line)["detail"] for line in self.reports.read_text().splitlines()]
            page = queries.recovery_page(log.store, search="restore-finished")
            assert page.total == len(lines), f"S16: {len(lines)} reports became {page.total} rows"
            rows = [
                str(row["detail"]) for number in range(page.window.pages) for row in self._reported(log, number + 1)
            ]
            assert sorted(rows) == sorted(lines), "S16: a report is not what was reported"
        self.judge()

    @staticmethod
    def _reported(log: JobLog, page: int) -> list[dict[str, object]]:
        return queries.recovery_page(log.store, search="restore-finished", page=page).rows


def grow(log: JobLog) -> None:
    """Some jobs more, in every state that a view tells apart."""
    for n in range(3):
        log.submit(JobSpec("rig", {"n": n}, key=log.ids.next(), tenant=f"t{n}"))
    for n, held in enumerate(log.claim("rig", limit=4)):
        unit = f"u{held.job.done}"
        if n == 0:
            held.schedule_retry(unit, category="network", text="reset by peer", next_attempt_at=log.now())
            continue
        held.complete_units([(unit, n)], cursor=n)
        if n == 1:
            held.complete()
        elif n == 2:
            held.fail(reason="input", text="no such column")
        else:
            held.release("yield")


def victim(place: Place, point: str, passes: int) -> None:
    """Work until the kill; the proof is there before it."""

    def leave_proof() -> None:
        place.proof.write_text(point)

    if point == ANY:
        leave_proof()
        place.work("all")
        return
    failpoint.arm(point, rig.die(passes, leave_proof))
    place.work(GROUP_OF[point])


@contextmanager
def sqlite_place() -> Iterator[Place]:
    with rig.scratch() as folder:
        yield Place(folder, f"sqlite:///{folder / 'joblog.db'}")


@contextmanager
def postgres_place() -> Iterator[Place]:
    with ExitStack() as stack:
        yield Place(stack.enter_context(rig.scratch()), stack.enter_context(servers.fresh_database()))


def run(
    report: Report,
    *,
    kills: int,
    make: Callable[[], AbstractContextManager[Place]] = sqlite_place,
    life: int = LIFE,
) -> Report:
    """Kill until *kills* have been proven."""
    small()
    return rig.lives(report, make, _live, kills=kills, life=life)


def _live(report: Report, place: Place, chance: random.Random, count: int) -> None:
    order = [point for _ in range(count // len(POINTS) + 1) for point in chance.sample(POINTS, len(POINTS))]
    for point in order[:count]:
        passes = chance.randint(1, PASSES.get(point, 1))
        name = f"seed {report.seed}, run {report.runs}, {point} pass {passes}"
        report.runs += 1
        found = _kill(place, point, passes, chance)
        if not found and place.proof.exists():
            report.fired[point] += 1
        found = found or _told(place, place.judge)
        if found:
            report.fail(name, [found])
            rig.keep(place.folder, f"{report.campaign}-{report.seed}-{report.runs}")
            return
    if found := _told(place, place.finish):
        report.fail(f"seed {report.seed}, run {report.runs}, the end", [found])
    report.counts["positions"] += max(json.loads(place.reached.read_text()).values(), default=0)


def _kill(place: Place, point: str, passes: int, chance: random.Random) -> str:
    """Run a victim, beside a reader where a generation is made; what went wrong otherwise than by the kill."""
    for path in (place.errors, place.proof, place.stop):
        path.unlink(missing_ok=True)
    reader = rig.fork(place.read, place.errors) if GROUP_OF.get(point, "rebuild") in {"rebuild", "drop"} else None
    pid = rig.fork(partial(victim, place, point, passes), place.errors)
    if point == ANY and not rig.ended(pid, chance.uniform(0.01, LONGEST)):
        os.kill(pid, signal.SIGKILL)
    code = rig.reap(pid)
    place.stop.touch()
    read = rig.reap(reader) if reader is not None else 0
    if code != -signal.SIGKILL:
        place.proof.unlink(missing_ok=True)
    if read or code not in {0, -signal.SIGKILL}:
        return (
            place.errors.read_text()
            if place.errors.exists()
            else f"the victim ended with {code}, the reader with {read}"
        )
    return ""


def _told(place: Place, work: Callable[[], None]) -> str:
    """What a child found wrong."""
    place.errors.unlink(missing_ok=True)
    return place.errors.read_text() if rig.reap(rig.fork(work, place.errors)) else ""


if __name__ == "__main__":
    make = postgres_place if "postgres" in os.environ.get("KIND", "") else sqlite_place
    servers.share()
    made = run(
        Report("view-kills", int(os.environ.get("SEED", "1"))), kills=int(os.environ.get("KILLS", "50")), make=make
    )
    print(made.line(), *made.violations, sep="\n")  # noqa: T201 - for people
