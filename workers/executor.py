"""Running one claimed job to its next boundary: to its end, a retry, a pause, or back to the queue."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ..domain.errors import (
    ExhaustedError,
    InputError,
    JobLogError,
    LeaseLostError,
    RefusedError,
    StateError,
    StoreBusyError,
    StoreError,
    StoreUnavailableError,
    UnknownOutcomeError,
)
from ..domain.job import Actor
from ..domain.status import Status
from ..eventstore.clock import pause_soon
from ..eventstore.failpoint import failpoint
from . import redo
from .book import Book, Control
from .commands import drive, family, gating
from .errors import (
    ArgumentError,
    AtomicUnavailableError,
    Fatal,
    ListChangedError,
    NeedsOperator,
    ProviderWaits,
    RetryLater,
    Stopped,
    UnknownKindError,
)
from .faults import asked_for, category_of, describe, fingerprint
from .outbound.clients import Clients
from .redaction import Redaction
from .run import Run, SyncRun

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Executor

    from .commands.held import Held
    from .commands.log import JobLog
    from .registry import Jobs, Operation

logger = logging.getLogger(__name__)
logger.addFilter(Redaction())  # texts and tracebacks of users' code

#: Faults that an operator can plausibly mend: exhausted, they pause the job; a verdict about the input fails it.
PAUSING: Final = frozenset({"provider", "network", "storage", "credential"})
#: A provider that wants us to wait longer is a case for an operator (design 5.1).
LONGEST_WAIT: Final = timedelta(days=1)
_LOST: Final = "lease-lost"
#: Of the store while it is away; an answer that was lost is found in the log by the next try.
_PASSING: Final = (StoreBusyError, StoreUnavailableError, UnknownOutcomeError)
_STORE_PAUSE: Final = 0.5  #: seconds between two tries, half to once and a half of it by chance
E = TypeVar("E")


class Execution:
    """One claimed job in this worker."""

    def __init__(
        self,
        log: JobLog,
        held: Held,
        jobs: Jobs,
        readers: Executor,
        threads: Executor,
        *,
        clients: Clients | None = None,
    ) -> None:
        self.log, self.held, self.control = log, held, Control()
        self._clients = clients
        self._jobs, self._readers, self._threads = jobs, readers, threads
        self.began = log.clock.monotonic()

    async def run(self) -> str:
        """Run it; returns what became of it, for the worker's log."""
        if self._clients is not None:
            return await self._run(self._clients)
        clients = Clients(self.log)
        try:
            return await self._run(clients)
        finally:
            await clients.close()

    async def _run(self, clients: Clients) -> str:
        try:
            operation = self._jobs.get(self.held.kind)
            args = operation.decode(self.held.job.args)
        except UnknownKindError as error:
            return await self._settle("parked", self.held.park, reason=error.code, text=str(error))
        except ArgumentError as error:
            return await self._settle("failed", self.held.fail, reason=error.code, text=str(error))
        retried: redo.Redo | None = None
        if redo.is_one(self.held.job):  # else no look at the log is worth a change of threads
            loop = asyncio.get_running_loop()
            try:
                retried = await loop.run_in_executor(self._readers, redo.of, self.log, self.held.job)
            except JobLogError as error:
                return await self._storage_fault(error, "")
        while True:
            group = operation.units_per_commit
            book = Book(
                self.log,
                self.held,
                self.control,
                gates=self._jobs.gates,
                clients=clients,
                units_per_commit=group,
                redo=retried,
            )
            try:
                result = await self._flushed(book, self._call(operation, book, args), in_thread=not operation.is_async)
            except BaseException as error:  # noqa: BLE001 - sorted out below; what is not ours is raised again
                outcome = await self._whole(self._ended_by(error, operation, book))
                if outcome is None:
                    continue  # a bad unit was passed over: on behind it
                return outcome
            try:
                return await self._complete(result)
            except asyncio.CancelledError:  # stored or not; if not, it is given back
                self.held = self.held.apart()
                return await self._whole(self._stopped(Stopped(self.control.stop or "shutdown"), book))

    @staticmethod
    async def _whole(ending: Coroutine[Any, Any, E]) -> E:
        """Storing how a job ended is waited for, also by a stop that comes meanwhile: else it stays leased to nobody."""
        task = asyncio.ensure_future(ending)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            return await task

    async def _flushed(self, book: Book, call: Coroutine[Any, Any, Any], *, in_thread: bool) -> Any:
        """Await *call*; whatever ends it, the units that it has finished are recorded first.

        A thread that is abandoned still runs, with this very book: what it has not recorded is done again.
        """
        try:
            result = await call
        except (Exception, Stopped, asyncio.CancelledError) as error:
            abandoned = in_thread and isinstance(error, asyncio.CancelledError)
            lost = isinstance(error, LeaseLostError) or (isinstance(error, Stopped) and error.cause == _LOST)
            if not abandoned and not lost:
                await self._whole(drive.run_soon(book.flush(), self.log.writer, self._readers))
            raise
        if not book.is_flushed:
            await drive.run_soon(book.flush(), self.log.writer, self._readers)
        return result

    async def _call(self, operation: Operation[Any, Any], book: Book, args: Any) -> Any:
        book.check()
        if operation.is_async:
            run = Run(book, self._readers)
            try:
                if operation.timeout is None:
                    return await operation.function(run, args)
                async with asyncio.timeout(operation.timeout):
                    return await operation.function(run, args)
            finally:
                run.close()
        call = partial(self._in_thread, operation, book, args)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    @staticmethod
    def _in_thread(operation: Operation[Any, Any], book: Book, args: Any) -> Any:
        return operation.function(SyncRun(book), args)

    async def _complete(self, result: Any) -> str:
        failpoint("job.before_completed")
        try:
            await self.held.complete_soon(result, self._readers)
        except LeaseLostError:
            return _LOST
        except RefusedError as error:
            return await self._settle("failed", self.held.fail, reason=error.code, text=str(error))
        except JobLogError as error:
            return await self._storage_fault(error, "")
        failpoint("job.completed")
        return "completed"

    # -- how it ended ------------------------------------------------------------------------------------------------

    async def _ended_by(self, error: BaseException, operation: Operation[Any, Any], book: Book) -> str | None:
        """What becomes of the job; None to run on behind a unit that was passed over."""
        if isinstance(error, Stopped):
            return await self._stopped(error, book)
        if isinstance(error, asyncio.CancelledError):
            cause = self.control.stop or "shutdown"
            self.held = self.held.apart()  # a thread of it can't be ended, and may be about to record a unit
            return await self._stopped(Stopped(cause), book)
        if not isinstance(error, Exception):
            raise error
        if isinstance(error, LeaseLostError):
            return _LOST
        if isinstance(error, InputError | AtomicUnavailableError | ListChangedError):
            return await self._settle("failed", self.held.fail, reason=error.code, text=describe(error), unit=book.unit)
        if isinstance(error, StoreError | UnknownOutcomeError):
            return await self._storage_fault(error, book.unit)
        if isinstance(error, NeedsOperator):
            return await self._settle("parked", self.held.park, reason=error.code, text=describe(error))
        if isinstance(error, Fatal):
            return await self._fatal(error, operation, book)
        if isinstance(error, ProviderWaits) and error.until - self.log.now() > LONGEST_WAIT:
            return await self._settle("parked", self._park_for_provider(error, book))
        return await self._faulted(error, book)

    async def _stopped(self, stopped: Stopped, book: Book) -> str:
        if stopped.cause == _LOST:
            return _LOST
        if stopped.gate:
            waiting = partial(self.held.await_gate, stopped.gate, unit=book.unit, due_at=stopped.due_at)
            outcome = await self._settle(stopped.cause, waiting)
        else:
            outcome = await self._settle(stopped.cause, self.held.release, stopped.cause, due_at=stopped.due_at)
        if stopped.cause == "shutdown":
            failpoint("shutdown.released")
        if outcome in ("wish", "child", "gate"):
            await asyncio.get_running_loop().run_in_executor(self._readers, self._family)
        return outcome

    def _family(self) -> None:
        """Cancel the children of a cancelled job; look again if a child ended before we began to wait for it."""
        job = self.held.job
        if job.status is Status.CANCELLED:
            family.cancel_children(self.log, job, Actor("joblog"))
        elif job.status is Status.WAITING:
            family.wake_if_done(self.log, job)

    async def _fatal(self, error: Fatal, operation: Operation[Any, Any], book: Book) -> str | None:
        job = self.held.job
        skip = operation.on_unit_failure == "skip" and book.skip_mark is not None and book.unit
        if skip and job.skipped < operation.skip_limit:
            marks = dict([*book.marks.items(), book.skip_mark])  # type: ignore[list-item]
            skipping = partial(self.held.skip_unit, book.unit, code=error.code, text=describe(error), cursor=marks)
            outcome = await self._settle("skipped", skipping)
            return None if outcome == "skipped" else outcome
        return await self._settle("failed", self.held.fail, reason=error.code, text=describe(error), unit=book.unit)

    async def _faulted(self, error: Exception, book: Book) -> str:
        """A passing fault: store when to try again, or keep the work for somebody."""
        later = error if isinstance(error, RetryLater) else None
        category = later.category if later else category_of(error)
        text = describe(error) if later else f"{type(error).__name__}: {describe(error)} [{fingerprint(error)}]"
        logger.warning("job %s, unit %r: %s", self.held.job_id, book.unit, text, exc_info=later is None)
        unit = book.unit or "body"
        failpoint("retry.classified")
        when = {} if later is None else asked_for(later, self.log.now())
        retry = partial(self.held.schedule_retry, unit, category=category, text=text, **when)
        try:
            outcome = await self._settle("retry", retry, raising=ExhaustedError)
        except ExhaustedError:
            reason = later.code if later else category
            if category in PAUSING:
                told = later.until if isinstance(later, ProviderWaits) else None
                park = partial(self.held.park, reason=f"exhausted-{category}", text=text, not_before=told)
                return await self._settle("parked", park)
            return await self._settle("failed", self.held.fail, reason=reason, text=text, unit=unit)
        failpoint("retry.stored")
        return outcome

    def _park_for_provider(self, error: ProviderWaits, book: Book) -> Callable[[], int]:
        """Nothing resumes it by itself, not even after that instant; it stands behind the gate that may be opened."""
        text = f"{describe(error)}: the provider takes nothing before {error.until:%Y-%m-%d %H:%M:%S} UTC"
        park = partial(self.held.park, reason=gating.PROVIDER_WAITS, text=text, not_before=error.until)
        return partial(park, unit=book.unit, gate=error.gate)

    async def _storage_fault(self, error: JobLogError, unit: str) -> str:
        """Our own store failed, not the operation: no attempt of it is spent beyond this one."""
        logger.warning("job %s: %s", self.held.job_id, error)
        retry = partial(self.held.schedule_retry, unit or "body", category="storage", text=describe(error))
        try:
            return await self._settle("retry", retry, raising=ExhaustedError)
        except ExhaustedError:
            return await self._settle("parked", self.held.park, reason="exhausted-storage", text=describe(error))

    async def _settle(
        self, outcome: str, command: Any, *args: Any, raising: type[Exception] | tuple[()] = (), **kwargs: Any
    ) -> str:
        """Run a command of the holder off the loop, for as long as the lease stands if the store is away.

        A lost lease leaves the job to whoever takes it over.
        """
        call = partial(command, *args, **kwargs)
        while True:
            try:
                await asyncio.get_running_loop().run_in_executor(self._readers, call)
            except LeaseLostError:
                return _LOST
            except JobLogError as error:
                if raising and isinstance(error, raising):
                    raise
                if isinstance(error, _PASSING) and not (self.held.is_overdue or self.control.abandoned):
                    logger.warning("job %s: %s", self.held.job_id, error)
                    await pause_soon(_STORE_PAUSE * (0.5 + self.log.random.random()))
                    continue
                level = logging.INFO if isinstance(error, StateError) else logging.ERROR
                logger.log(level, "job %s is left to its next holder: %s", self.held.job_id, error)
                return "left"
            return outcome
