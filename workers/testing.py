"""For the tests of an operation's author: a log in memory, a moved clock, and a crash at every durable point.

    def test_it_survives_everything() -> None:
        lab = Lab()
        report = lab.crash_everywhere(import_people, args, observe=rows, reset=empty_table)
        assert report.points > 10
        assert report.differing == []

``kill9`` does the same to a real worker process with SIGKILL.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from ..domain.status import CLAIMABLE, Status
from ..eventstore import failpoint
from ..eventstore.memory_store import MemoryStore
from ..eventstore.outcomes import Answer
from ..eventstore.writer import GroupWriter
from .commands import claiming
from .commands.log import JobLog
from .executor import Execution
from .registry import Jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from uuid import UUID

    from ..domain.job import Job
    from ..eventstore.append import Append
    from .commands.held import Held
    from .registry import Operation

ROUNDS = 200  #: claims of one job until a test gives up on it


class Crash(BaseException):
    """The process is gone: nothing of the user may catch it."""


class ManualClock:
    """A clock that moves when it is told to."""

    def __init__(self, at: datetime | None = None) -> None:
        self._now = at or datetime(2030, 1, 1, tzinfo=UTC)
        self._seconds = 1000.0
        self._boot = "boot-1"

    def advance(self, seconds: float = 0.0, **span: float) -> None:
        """Move all its readings; *span* as for ``timedelta``."""
        moved = timedelta(seconds=seconds, **span)
        self._now += moved
        self._seconds += moved.total_seconds()

    def now(self) -> datetime:
        """Wall clock."""
        return self._now

    def monotonic(self) -> float:
        """Seconds."""
        return self._seconds

    def boottime(self) -> float:
        """Seconds."""
        return self._seconds

    def boot_id(self) -> str:
        """The boot."""
        return self._boot


class SeededRandom:
    """Jitter that is the same in each test."""

    def random(self) -> float:
        """Half."""
        return 0.5


class CountedIds:
    """Ids that are the same in each test."""

    def __init__(self) -> None:
        self._count = 0

    def next(self) -> str:
        """The next one."""
        self._count += 1
        return f"test-{self._count:015d}"


class _InlineWriter(GroupWriter):
    """Commits in the caller's thread, so that a crash there is a crash of the caller."""

    def append_soon(self, appends: Iterable[Append], loop: asyncio.AbstractEventLoop) -> list[asyncio.Future[Answer]]:
        """At once."""
        futures = []
        for answer in self.append_many(appends):
            future: asyncio.Future[Answer] = loop.create_future()
            future.set_result(answer)
            futures.append(future)
        return futures

    def later(self, task: Callable[[], None]) -> None:
        """At once."""
        task()


@dataclass
class CrashReport:
    """What ``crash_everywhere`` found."""

    points: int = 0  #: durable points at which the job was crashed
    differing: list[tuple[str, int, Any]] = field(default_factory=list)  #: point, n-th passing, what came out
    undisturbed: Any = None


class Lab:
    """A log in memory with its clock and one imaginary worker; *jobs*: where the gates of its operations are declared."""

    def __init__(self, jobs: Jobs | None = None) -> None:
        self.clock = ManualClock()
        self._gates = {} if jobs is None else jobs.gates
        self._start()

    def _start(self) -> None:
        self.store = MemoryStore(clock=self.clock)
        self.log = self._open()

    def _open(self) -> JobLog:
        self.store.reopen()
        log = JobLog(self.store, clock=self.clock, random=SeededRandom(), ids=self._ids())
        log.writer = _InlineWriter(self.store, log.busy)
        log.busy.wait = self.clock.advance
        return log

    def _ids(self) -> CountedIds:
        # One counter over all reopenings: ids never repeat.
        self._counted = getattr(self, "_counted", None) or CountedIds()
        return self._counted

    # -- one job -----------------------------------------------------------------------------------------------------

    def run(self, operation: Operation[Any, Any], args: Any, **options: Any) -> Job:
        """Submit and run to its end, moving the clock to each retry; returns the job."""
        job_id = operation.submit(self.log, args, **options).job_id
        return self.finish(operation, job_id)

    def finish(self, operation: Operation[Any, Any], job_id: UUID) -> Job:
        """Run the job to its end or its pause, by as many claims as it takes."""
        for _ in range(ROUNDS):
            job = self.log.job(job_id)
            if job.status not in CLAIMABLE and job.status is not Status.RUNNING:
                return job
            self._one_round(operation, job)
        message = f"job {job_id} did not end within {ROUNDS} claims"
        raise AssertionError(message)

    def _one_round(self, operation: Operation[Any, Any], job: Job) -> None:
        if job.lease is not None:  # its holder is gone: past the lease it is taken over
            self.clock.advance(self.log.leases.lease.total_seconds() + 1)
            self.log.expire("lab")
        elif job.due_at > self.clock.now():
            self.clock.advance((job.due_at - self.clock.now()).total_seconds())
        self.log.promote()
        taken = claiming.claim(self.log, "lab", queues=[job.queue], limit=1, kinds=[operation.kind])
        for held in taken:
            self.execute(operation, held)
        if not taken and (opening := self.store.next_opening()) is not None:
            self.clock.advance(opening)

    def execute(self, operation: Operation[Any, Any], held: Held) -> None:
        """Run a claimed job to its next boundary."""
        jobs = Jobs()
        jobs.add(operation)
        jobs.gates |= self._gates
        with ThreadPoolExecutor(1) as threads:
            execution = Execution(self.log, held, jobs, threads, threads)
            asyncio.run(execution.run())

    def enqueued(self, operation: Operation[Any, Any]) -> list[Any]:
        """The arguments of this kind's jobs that have not ended."""
        rows = [
            row
            for status in ("queued", "waiting", "running")
            for row in self.store.find_jobs(status=status, limit=10_000)
        ]
        return [operation.decode(self.log.job(row["id"]).args) for row in rows if row["kind"] == operation.kind]

    def steal_lease(self, held: Held) -> None:
        """Let another worker take the job over, as after a stop past the lease."""
        self.clock.advance(self.log.leases.lease.total_seconds() + 1)
        self.log.expire("thief")
        self.log.claim("thief", queues=[held.job.queue])

    # -- crashes -----------------------------------------------------------------------------------------------------

    def interrupt(self, operation: Operation[Any, Any], args: Any, *, after: str, **options: Any) -> Job:
        """Run until the unit whose key contains *after* is recorded, crash there, and return the job as it then is."""
        job_id = operation.submit(self.log, args, **options).job_id

        def watch() -> None:
            if any(after in unit for unit in self.store.unit_states(job_id)):
                raise Crash

        self._crashing(operation, job_id, {"append.after_commit": watch})
        return self.log.job(job_id)

    def crash_everywhere(
        self,
        operation: Operation[Any, Any],
        args: Any,
        *,
        observe: Callable[[], Any] = lambda: None,
        reset: Callable[[], None] = lambda: None,
    ) -> CrashReport:
        """Run once undisturbed, then once for each durable point with a crash there; compare what came out.

        Compared are the job's status, result, tallies, units with their evidence, and what *observe* returns; *reset*
        puts the world outside back before each run.
        """
        passed: dict[str, int] = {}
        report = CrashReport(undisturbed=self._world(operation, args, observe, reset, self._counting(passed)))
        for point, times in passed.items():
            for number in range(1, times + 1):
                report.points += 1
                seen = self._world(operation, args, observe, reset, {point: self._crash_at(number)})
                if seen != report.undisturbed:
                    report.differing.append((point, number, seen))
        return report

    @staticmethod
    def _counting(passed: dict[str, int]) -> dict[str, Callable[[], None]]:
        def count(point: str) -> Callable[[], None]:
            def action() -> None:
                passed[point] = passed.get(point, 0) + 1

            return action

        return {point: count(point) for point in (*failpoint.POINTS, *failpoint.WORKER_POINTS)}

    @staticmethod
    def _crash_at(number: int) -> Callable[[], None]:
        left = number

        def action() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise Crash

        return action

    def _world(
        self,
        operation: Operation[Any, Any],
        args: Any,
        observe: Callable[[], Any],
        reset: Callable[[], None],
        actions: dict[str, Callable[[], None]],
    ) -> Any:
        """What there is after a run with *actions* armed, finished by undisturbed ones."""
        reset()
        self._start()
        job_id = operation.submit(self.log, args, key="lab").job_id
        self._crashing(operation, job_id, actions)
        job = self.finish(operation, job_id)
        units = dict(sorted(self._evidence(job_id).items()))
        return job.status, job.result, job.tallies, units, observe()

    def _evidence(self, job_id: UUID) -> dict[str, Any]:
        from ..eventstore.mapper import evidence_of

        states = self.store.unit_states(job_id).items()
        # When a sleep ends depends on when it began: that is no difference.
        return {unit: evidence_of(state) for unit, state in states if not unit.startswith("step:sleep-")}

    def _crashing(self, operation: Operation[Any, Any], job_id: UUID, actions: dict[str, Callable[[], None]]) -> None:
        """One run with *actions* armed; after a crash the log is opened anew."""
        for point, action in actions.items():
            failpoint.arm(point, action)
        try:
            self.finish(operation, job_id)
        except Crash:
            self.log = self._open()
        finally:
            failpoint.disarm()


def kill9(
    command: Sequence[str], *, until: Callable[[], bool], after: Callable[[int], float], limit: int = 1000
) -> int:
    """Start *command* (a worker), SIGKILL it after ``after(n)`` seconds, again and again, until ``until()``.

    Returns the number of kills.  The last worker is stopped in order.
    """
    kills = 0
    while not until():
        worker = subprocess.Popen([sys.executable, "-m", "joblog", *command])  # noqa: S603 - our own program
        try:
            worker.wait(timeout=after(kills))
        except subprocess.TimeoutExpired:
            if until() or kills >= limit:
                worker.send_signal(signal.SIGTERM)
                worker.wait(timeout=60)
                break
            worker.send_signal(signal.SIGKILL)
            worker.wait()
            kills += 1
    return kills
