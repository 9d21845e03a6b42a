"""Holders that are stopped past their lease and come back: each of their appends is refused and nothing changes.

A holder stops itself (SIGSTOP) in its own code, between the work and the append; others take its job over, or not; then
it goes on (SIGCONT).  It is never stopped inside a transaction: on SQLite a process that is stopped while it holds the
writer lock keeps every writer out until it goes on, which is a documented limit and no matter of leases.
"""

import os
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, Final

from joblog import JobLog, JobSpec, LeasePolicy
from joblog.domain.errors import LeaseLostError
from joblog.eventstore import schema as s
from joblog.workers.commands.held import Held
from tests.faults import rig
from tests.faults.finish import finish
from tests.faults.journal import Journal, story_of
from tests.faults.oracle import Oracle
from tests.faults.reader import open_reader
from tests.faults.rig import Report
from tests.faults.workload import QUICK, RunIds, complete, finish_job, units_left, watch

LEASES: Final = LeasePolicy(lease=timedelta(milliseconds=300), heartbeat=timedelta(milliseconds=100))
CALM: Final = LeasePolicy(lease=timedelta(seconds=30))
AT_ONCE: Final = 4  #: holders stopped in one round
BOUND: Final = 20.0  #: seconds for a lease to run out and be taken, on a machine that is busy
#: What a zombie tries first when it is back.
TRIES: Final[dict[str, Callable[[Held], Any]]] = {
    "complete-unit": lambda held: held.complete_units([("u1", {"late": True})]),
    "attempt": lambda held: held.attempt_unit("u1"),
    "retry": lambda held: held.schedule_retry("u1", category="network", text="reset"),
    "release": lambda held: held.release("yield"),
    "skip": lambda held: held.skip_unit("u1", code="bad-row", text="no number"),
    "freeze": lambda held: held.freeze_list("rows", count=3, digest="d"),
    "park": lambda held: held.park(reason="credential", text="expired"),
    "fail": lambda held: held.fail(reason="bad-input", text="no such file"),
    "advance": lambda held: held.complete_units([], advance=0, cursor={"at": "u1"}),
    "end": lambda held: held.complete({"late": True}),
    "renew": lambda _: None,
}
#: What became of the job meanwhile.
MEANWHILE: Final = ("expired", "reclaimed", "claimed", "worked", "ended")


@dataclass(frozen=True)
class Zombie:
    kind: str
    attempt: str
    meanwhile: str


class ZombieRig:
    def __init__(self, url: str, folder: Path, report: Report) -> None:
        self.url, self.report = url, report
        self.journal, self.errors = folder / "journal", folder / "errors"
        self.rng = random.Random(report.seed)
        self._tick = Event()
        self._number = 0

    # -- in children -------------------------------------------------------------------------------------------------

    def open(self, url: str, *, leases: LeasePolicy = LEASES, **ports: Any) -> JobLog:
        return JobLog.open(url, leases=leases, random=random.Random(1), **ports)

    def work(self, run: str, leases: LeasePolicy, body: Callable[[JobLog, Journal], None]) -> None:
        journal = Journal(self.journal, run)
        log = self.open(self.url, leases=leases, ids=RunIds(run))
        watch(log, journal)
        body(log, journal)
        log.close()

    def be_a_zombie(self, zombie: Zombie, log: JobLog, journal: Journal) -> None:
        """Claim, work, stop; and be refused afterwards."""
        spec = JobSpec(zombie.kind, {"units": 3}, key="z", retry=QUICK)
        journal.submit(spec.job_id)
        log.submit(spec)
        (held,) = log.claim(f"zombie-{zombie.kind}", kinds=[zombie.kind])
        done = units_left(log, held)[: 3 if zombie.attempt == "end" else 1]
        complete(journal, held, done)
        if zombie.attempt == "complete-unit":
            journal.effect(held.job_id, "u1")
        journal.fired("stopped")
        with log.writer._commit_lock:
            pass  # the writer thread, which answers before it lets the file's lock go, has let it go
        os.kill(os.getpid(), signal.SIGSTOP)
        if zombie.attempt == "renew":
            if log.renew([held]) != [held]:
                raise AssertionError(f"S7: a zombie has renewed its lease ({zombie})")
            return
        try:
            TRIES[zombie.attempt](held)
        except LeaseLostError:
            return
        raise AssertionError(f"S6: a zombie's {zombie.attempt} was taken ({zombie})")

    def take_over(self, zombies: list[Zombie], log: JobLog, journal: Journal) -> None:
        """Another worker: it finds the leases run out, and goes on with the jobs."""
        wanted = {log.store.find_jobs(limit=1, kind=z.kind)[0]["id"] for z in zombies if z.meanwhile != "expired"}
        for _ in range(int(BOUND / 0.02)):
            wanted -= {taken.job_id for taken in log.expire("taker")}
            if not wanted:
                break
            self._tick.wait(0.02)
        if wanted:
            raise AssertionError(f"L2: after {BOUND} s leases of {LEASES.lease} stand: {wanted}")
        for zombie in zombies:
            if zombie.meanwhile in {"claimed", "worked", "ended"}:
                (held,) = log.claim("taker", kinds=[zombie.kind])
                if zombie.meanwhile == "worked":
                    complete(journal, held, units_left(log, held)[:1])
                elif zombie.meanwhile == "ended":
                    finish_job(log, journal, held)

    # -- in the parent -----------------------------------------------------------------------------------------------

    def round(self, count: int) -> list[Any]:
        """Stop *count* holders, let others take over, wake them one by one."""
        zombies: list[Zombie] = []
        pids: list[int] = []
        for _ in range(count):
            self._number += 1
            zombie = Zombie(f"z{self._number}", self.rng.choice(list(TRIES)), self.rng.choice(MEANWHILE))
            body = partial(self.be_a_zombie, zombie)
            pids.append(rig.fork(partial(self.work, zombie.kind, LEASES, body), self.errors))
            zombies.append(zombie)
        found: list[Any] = [
            f"{z} ended before it was stopped" for z, pid in zip(zombies, pids, strict=True) if not stopped(pid)
        ]
        if not found:
            taker = partial(self.work, f"t{self._number}", CALM, partial(self.take_over, zombies))
            found += self._reap(rig.fork(taker, self.errors), "the taker")
            self._tick.wait(LEASES.lease.total_seconds() + 0.05)  # also the leases that nobody ended have run out
        for zombie, pid in zip(zombies, pids, strict=True):
            self.report.runs += 1
            before = self.everything()
            os.kill(pid, signal.SIGCONT)
            trouble = self._reap(pid, str(zombie))
            changed = [name for name, rows in self.everything().items() if rows != before[name]]
            if changed:
                trouble.append(f"{zombie} has changed {changed}")
            if not trouble:
                self.report.fired[f"zombie-{zombie.meanwhile}"] += 1
            found += trouble
        return found + self.judge()

    def _reap(self, pid: int, who: str) -> list[Any]:
        try:
            code = rig.reap(pid)
        except TimeoutError as error:
            return [error]
        said = self.errors.read_text(encoding="utf-8") if self.errors.exists() else ""
        return [f"{who} ended with {code}: {said}"] if code else []

    def everything(self) -> dict[str, list[str]]:
        """Every row of every table."""
        with open_reader(self.url) as reader:
            return {name: sorted(map(repr, reader.table(table))) for name, table in s.metadata.tables.items()}

    def judge(self) -> list[Any]:
        story = story_of(self.journal)
        with open_reader(self.url) as reader:
            return [*Oracle(slack=timedelta(seconds=1)).check(reader, story, full=True)]

    def end(self) -> list[Any]:
        """One healthy worker ends what the zombies and takers left."""
        return [*finish(self.url, self.journal, partial(self.open, leases=CALM), clock=None, run="healer")]


def stopped(pid: int) -> bool:
    """Wait until a child has stopped itself; False if it ended instead, and is reaped."""
    _, status = os.waitpid(pid, os.WUNTRACED)
    return os.WIFSTOPPED(status)


def run(report: Report, url: str, *, zombies: int) -> Report:
    """Let *zombies* holders come back to the log at *url*, which is empty."""
    report.again = f"python -m tests.faults.campaign --only {report.campaign} --seed {report.seed} --kills {zombies}"
    with rig.scratch() as folder, rig.timed(report):
        zombie_rig = ZombieRig(url, folder, report)
        Journal(zombie_rig.journal).close()
        with zombie_rig.open(url, leases=CALM):  # makes the schema, for which a third of a zombie's lease is short
            pass
        while report.runs < zombies and not report.failed and not rig.STOP.is_asked():
            found = zombie_rig.round(min(AT_ONCE, zombies - report.runs))
            if found:
                report.fail(f"zombie {report.runs} ({report.again})", found)
        if not report.failed and (found := zombie_rig.end()):
            report.fail(f"the healthy worker ({report.again})", found)
    return report


def run_sqlite(report: Report, *, zombies: int) -> Report:
    with rig.scratch() as folder:
        return run(report, f"sqlite:///{folder / 'log.db'}", zombies=zombies)
