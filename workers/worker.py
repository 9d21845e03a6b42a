"""A worker: takes due jobs, runs them side by side, gives them back in order when it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..domain import storable
from ..domain.errors import InvalidFieldError, JobLogError
from ..domain.job import CRASH_LIMIT
from ..eventstore.clock import pause_soon
from ..eventstore.failpoint import failpoint
from . import presence
from .commands import claiming
from .executor import Execution
from .outbound.clients import Clients
from .renewal import Renewal
from .suspects import Suspects

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..eventstore.store import Outlook
    from .commands.held import Held
    from .commands.log import JobLog
    from .registry import Jobs

logger = logging.getLogger(__name__)

#: A job that has run so long may be asked to give its slot to a due one, at its next boundary (seconds).
YIELD_AFTER: Final = 2.0
#: How often a full worker looks whether somebody waits (seconds).
LOOK_WHEN_FULL: Final = 1.0
#: How long between looks at other workers' presence files while they hold leases (seconds).
LOOK_AT_OTHERS: Final = 0.5
RAMP: Final = 4  #: passes until a starting worker uses all its slots
#: Between those passes, half to once and a half of it by chance, or until a job ends (seconds).
RAMP_PAUSE: Final = 0.025
ANSWERS_WITHIN: Final = 1.0  #: seconds in which an event loop that nothing blocks has turned


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How a worker works."""

    name: str | None = None  #: by default host and pid
    queues: tuple[str, ...] = ("default",)
    slots: int = 10  #: jobs at a time
    poll_seconds: float = 5.0  #: the floor under wake-ups
    grace_seconds: float = 25.0  #: from the first stop until units are abandoned
    only_kinds: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        """Refuse what can't work."""
        if type(self.slots) is not int or self.slots < 1:
            raise InvalidFieldError("slots", f"{self.slots!r} is no count of jobs", "give 1 or more")
        if not self.queues:
            raise InvalidFieldError("queues", "none", "name at least one queue")
        for queue in self.queues:
            storable.name(queue, "queues")


class Worker:
    """See the module.  ``run`` blocks; ``stop`` may be called from any thread or a signal handler."""

    def __init__(self, log: JobLog, jobs: Jobs, settings: WorkerSettings | None = None) -> None:
        self.log, self.jobs, self.settings = log, jobs, settings or WorkerSettings()
        self.name = self.settings.name or f"{socket.gethostname()}-{os.getpid()}-{log.ids.next()[-6:]}"
        self.alive = False
        self._running: dict[Held, tuple[Execution, asyncio.Task[str]]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake, self._wake_now = asyncio.Event(), asyncio.Event()  # for news; for a slot that is free, or the end
        self._stopping = self._stop_now = False
        self._alone = False
        self._passes = 0
        self._next_look = 0.0
        self._suspects = Suspects(log.clock)
        self._turned = True  #: the loop has come round since the last heartbeat
        self._renewal = Renewal(log, self._lost, self._check_loop)
        self._presence: presence.Presence | None = None

    # -- control -----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Work until ``stop``.

        In the main thread, where nothing else will run: what is there already, modules above all, is then left out of
        the search for cycles.  Short jobs make so many objects that going through all of it took a fifth of their time.
        """
        if threading.current_thread() is not threading.main_thread():
            asyncio.run(self.serve())
            return
        gc.freeze()
        try:
            asyncio.run(self.serve())
        finally:
            gc.unfreeze()

    def stop(self, *, now: bool = False) -> None:
        """Take no more jobs, let units reach their boundary within the grace, give the jobs back; *now*: at once."""
        self._stopping = True
        self._stop_now = self._stop_now or now
        self._soon(self._ring)

    # -- main --------------------------------------------------------------------------------------------------------

    async def serve(self) -> None:
        """``run``, inside an event loop that is there already."""
        self._loop = asyncio.get_running_loop()
        readers = ThreadPoolExecutor(4, thread_name_prefix="joblog-reader")
        threads = ThreadPoolExecutor(self.settings.slots, thread_name_prefix="joblog-unit")
        claimer = ThreadPoolExecutor(1, thread_name_prefix="joblog-claimer")
        self._pools = (readers, threads, claimer)
        self._clients = Clients(self.log, actor=self.name)
        ticket = self.log.waker.subscribe(self._nudge, ready_only=True, seen_only=True)
        failpoint("startup.begun")
        await self._arrive()
        failpoint("startup.present")
        self._renewal.start()
        self.alive = True
        try:
            await self._main()
            await self._drain()
        finally:
            self.alive = False
            self.log.waker.unsubscribe(ticket)
            await self._clients.close()
            self._renewal.stop()
            for pool in self._pools:
                pool.shutdown(wait=False, cancel_futures=True)
            if self._presence is not None:
                self._presence.close()

    def _nudge(self) -> None:
        self._soon(self._wake.set)

    def _ring(self) -> None:
        self._wake.set()
        self._wake_now.set()

    async def _arrive(self) -> None:
        """Leave the presence file, as soon as the store is there."""
        assert self._loop is not None  # noqa: S101 - set by serve
        while not self._stopping:
            self._wake.clear()
            try:
                return await self._loop.run_in_executor(self._pools[2], self._announce)
            except JobLogError as error:
                logger.warning("the worker can't begin yet: %s", error)
            await self._sleep(1.0 + self.log.random.random(), self._wake)
        return None

    def _announce(self) -> None:
        folder = presence.folder_for(self.log.store.state().store_id)
        if presence.is_local(folder):
            self._presence = presence.Presence(folder, self.name, self.log.clock.boot_id(), self.log.ids.next())

    async def _main(self) -> None:
        assert self._loop is not None  # noqa: S101 - set by serve
        while not self._stopping:
            self._wake.clear()
            self._wake_now.clear()
            try:
                held, pause = await self._loop.run_in_executor(self._pools[2], self._look)
            except JobLogError as error:  # the store is away: no process ends because of that
                logger.warning("nothing can be claimed: %s", error)
                held, pause = [], 1.0 + self.log.random.random()
            for one in held:
                self._begin(one)
            if pause > 0 and not self._stopping:
                await self._sleep(pause, self._wake_now if self._ramps else self._wake)

    async def _sleep(self, seconds: float, bell: asyncio.Event) -> None:
        try:
            async with asyncio.timeout(seconds):
                await bell.wait()
        except TimeoutError:
            pass

    # -- claiming (in the claimer's thread) --------------------------------------------------------------------------

    def _look(self) -> tuple[list[Held], float]:
        """One look at the store, and what follows from it; returns new jobs and how long to wait for the next look."""
        settings, log, self._ramps = self.settings, self.log, False
        outlook = log.store.outlook(settings.queues, self._mine)
        waits = [settings.poll_seconds]
        if self._moves(outlook, waits):
            outlook = log.store.outlook(settings.queues, self._mine)
        free = settings.slots - len(self._running)
        if self._alone or free <= 0:
            waits.append(LOOK_WHEN_FULL)
            if outlook.ready:
                self._ask_to_yield()
            return [], min(waits)
        if not outlook.ready:
            return [], min(waits)
        held = self._claim(free, waits, suspects=outlook.crashes >= CRASH_LIMIT - 1)
        if not held and (opening := log.store.next_opening()) is not None:
            waits.append(opening)
        self._ramps = bool(held) and len(held) < free and self._passes <= RAMP
        if self._ramps:  # many that start at once shall not start together
            waits.append(RAMP_PAUSE * (0.5 + log.random.random()))
        elif self._half <= len(held) < free:  # there may be more: they are claimed while these run
            waits.append(0.0)
        return held, min(waits)

    def _moves(self, outlook: Outlook, waits: list[float]) -> int:
        """Do what stands between a job and its claim; returns how many may be ready now that were not."""
        moved = self.log.drain_outbox() if outlook.outbox else 0
        if outlook.next_end is not None:
            if outlook.next_end <= 0:
                moved += len(self.log.expire(self.name))
            waits.append(max(outlook.next_end, 0.05))
        if outlook.others:
            moved += self._look_at_others()
            waits.append(LOOK_AT_OTHERS)
        if outlook.next_due is not None and outlook.next_due <= 0:
            moved += self.log.promote()[0]
        elif outlook.next_due is not None:
            waits.append(outlook.next_due)
        return moved

    def _claim(self, free: int, waits: list[float], *, suspects: bool) -> list[Held]:
        """Take jobs: few at first, so that a restart is no herd; a suspect only into an idle worker, alone."""
        self._passes += 1
        ramp = min(free, self._half) if self._passes > RAMP else max(1, free * self._passes // (RAMP + 1))
        idle = not self._running
        suspect = self._suspects.have_a_turn(wait=suspects, is_idle=idle)
        if suspects and (seconds := self._suspects.seconds_left):
            waits.append(seconds)
        if suspect and not idle:  # it waits for this worker, or another, to become idle
            return []
        kinds = self.settings.only_kinds
        text = self._presence.text if self._presence is not None else ""
        limit, crashes = (1, 2**31 - 1) if suspect else (ramp, CRASH_LIMIT - 2)
        held = claiming.claim(
            self.log,
            self.name,
            queues=self.settings.queues,
            limit=limit,
            kinds=kinds,
            presence=text,
            max_crashes=crashes,
        )
        failpoint("worker.claimed")
        claiming.replay(self.log, held)
        failpoint("worker.replayed")
        self._alone = any(one.crashes >= CRASH_LIMIT - 1 for one in held)
        if suspect and held and not self._alone:
            self._suspects.were_passed_over()
        elif suspects and not suspect and idle and not held:
            self._suspects.are_alone()
            waits.append(0.0)
        return held

    _ramps = False  #: waits between its first passes, whatever news there is

    @property
    def _half(self) -> int:
        """As many as are claimed at once: one half of the slots is claimed while the other runs.

        Not in a file, where a claim holds the write lock and is a commit to the disk of its own.
        """
        slots = self.settings.slots
        return slots if self.log.store.dialect == "sqlite" else -(-slots // 2)

    @property
    def _mine(self) -> str:
        return self._presence.text if self._presence is not None else ""

    def _look_at_others(self) -> int:
        """Take back the jobs of workers on this host that are proven dead; returns how many."""
        now = self.log.clock.monotonic()
        if now < self._next_look:
            return 0
        self._next_look = now + LOOK_AT_OTHERS / 2
        boot = self.log.clock.boot_id()
        dead: dict[str, bool] = {}
        taken = 0
        for lease in self.log.store.held_by_others(self._mine, 1000):
            if lease.presence not in dead:
                dead[lease.presence] = presence.is_dead(lease.presence, boot)
            if dead[lease.presence]:
                answer = self.log.reclaim(lease, self.name)
                taken += not isinstance(answer, JobLogError)
                what = answer if isinstance(answer, JobLogError) else f"taken back from {lease.worker}, which died"
                logger.warning("job %s: %s", lease.job_id, what)
        return taken

    def _ask_to_yield(self) -> None:
        """Somebody waits and no slot is free: the longest runner gives way at its next boundary."""
        now = self.log.clock.monotonic()
        running = self._running.copy()  # at once: the loop's thread begins and ends jobs meanwhile
        runners = [execution for execution, _ in running.values() if now - execution.began >= YIELD_AFTER]
        if runners:
            min(runners, key=lambda execution: execution.began).control.ask("yield")

    # -- running -----------------------------------------------------------------------------------------------------

    def _begin(self, held: Held) -> None:
        assert self._loop is not None  # noqa: S101 - set by serve
        readers, threads, _ = self._pools
        execution = Execution(self.log, held, self.jobs, readers, threads, clients=self._clients)
        execution.control.presence_fd = self._presence.fd if self._presence is not None else None
        self._renewal.add(held)
        task = self._loop.create_task(execution.run(), name=f"job {held.job_id}")
        self._running[held] = (execution, task)
        task.add_done_callback(lambda done: self._ended(held, done))

    def _ended(self, held: Held, task: asyncio.Task[str]) -> None:
        self._renewal.remove(held)
        self._running.pop(held, None)
        if not self._running:
            self._alone = False
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("job %s ended the worker's way, not its own", held.job_id, exc_info=error)
        elif not task.cancelled():
            logger.debug("job %s: %s", held.job_id, task.result())
        self._ring()

    def _lost(self, held: Held) -> None:
        """The lease is gone: the unit in flight is not recorded, the job is somebody else's."""
        self._soon(self._drop, held)

    def _check_loop(self) -> None:
        """In the renewal's thread: say that user code blocks the loop.  The leases are kept, all other jobs wait."""
        if not self._turned:
            kinds = ", ".join(sorted({held.kind for held in list(self._running) if self.jobs.get(held.kind).is_async}))
            logger.warning("the event loop is blocked by a unit of %s: use a plain function or in_process()", kinds)
        self._turned = False
        self._soon(self._turn)

    def _turn(self) -> None:
        self._turned = True

    def _soon(self, call: Callable[..., None], *args: Any) -> bool:
        """Have the loop do it, if there is one."""
        loop = self._loop
        if loop is None or loop.is_closed():
            return False
        loop.call_soon_threadsafe(call, *args)
        return True

    def _drop(self, held: Held) -> None:
        if (entry := self._running.get(held)) is not None:
            execution, task = entry
            execution.control.ask("lease-lost")
            if self.jobs.get(held.kind).is_async:
                task.cancel()

    # -- stopping ----------------------------------------------------------------------------------------------------

    def answers(self, seconds: float = ANSWERS_WITHIN) -> bool:
        """Whether the event loop turns; called from another thread."""
        turned = threading.Event()
        return not self._soon(turned.set) or turned.wait(seconds)

    def give_back(self) -> None:
        """Release what is held although its units still run, from another thread: the process is about to end."""
        for held in list(self._running):
            try:
                held.apart().release("shutdown")
            except JobLogError as error:
                logger.warning("job %s is left to its next holder: %s", held.job_id, error)

    async def _drain(self) -> None:
        """Boundaries first; past the grace units are abandoned before their checkpoint and the jobs given back."""
        failpoint("shutdown.begun")
        for execution, _ in self._running.values():
            execution.control.ask("shutdown")
        deadline = self.log.clock.monotonic() + self.settings.grace_seconds
        await pause_soon(0)  # a task that is cancelled before its first step could not give its job back
        while self._running and not self._stop_now:
            left = deadline - self.log.clock.monotonic()
            if left <= 0:
                break
            self._wake.clear()
            await self._sleep(min(left, 1.0), self._wake)
        for execution, task in list(self._running.values()):
            execution.control.abandon()
            task.cancel()
        tasks: list[Any] = [task for _, task in self._running.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=5.0)
