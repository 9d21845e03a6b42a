"""Group commit: one writer for a process takes all appends that are waiting into one transaction.

There is no timer: a batch is what came in while the previous commit ran, so a lonely append waits for nothing.  A
batch that fails is undone and run one by one; the bad one alone is refused.  A request that meets a row lock goes to
the side lane, which may wait.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from ..domain.errors import (
    EpochChangedError,
    GenerationChangedError,
    JobLogError,
    StoreBusyError,
    StoreClosedError,
    UnknownOutcomeError,
    VersionConflictError,
)
from .append import Append, Stored
from .outcomes import Answer, Outcomes
from .store import ConflictError, LockedError, Seen
from .waiting import Bell, Request, deliver, set_results

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future
    from collections.abc import Callable, Iterable

    from .busy import BusyRetry
    from .store import Store

logger = logging.getLogger(__name__)

MAX_BATCH: Final = 512  #: appends in one transaction
#: An answer from its position: a named tuple's own constructors go through Python.
_stored: Final[Callable[[tuple[int]], Stored]] = partial(tuple.__new__, Stored)
_CLOSED: Final = "this log was closed; open it again"


class GroupWriter:
    """Appends for one process."""

    def __init__(self, store: Store, busy: BusyRetry, *, on_commit: Callable[[bool], None] = lambda _: None) -> None:
        self.store, self.busy = store, busy
        self.outcomes = Outcomes(store, busy)
        self._on_commit = on_commit
        self._waiting: deque[Request] = deque()
        self._side: deque[Request | Callable[[], None]] = deque()
        self._arriving: dict[AbstractEventLoop, list[Request]] = {}  #: of this tick, by loop
        self._work, self._side_work = Bell(), Bell()
        self._commit_lock, self._start_lock = threading.Lock(), threading.Lock()
        self._closing = False
        self._threads: list[threading.Thread] = []
        state = store.state()
        self.generation = state.generation
        self.seen = Seen(state.epoch, state.head)
        self.batches = self.appends = self.split = self.side_lane = 0

    # -- callers -----------------------------------------------------------------------------------------------------

    def append(self, append: Append, *, timeout: float | None = None) -> Answer:
        """Write one append; returns where it is, or the error that says why not.

        With *timeout* (seconds) an append whose turn has not come by then is withdrawn: ``StoreBusyError``, not written.
        """
        return self.append_many([append], timeout=timeout)[0]

    def append_many(self, appends: Iterable[Append], *, timeout: float | None = None) -> list[Answer]:
        """Write several appends, each with its own answer; they travel in as few transactions as possible."""
        requests = [Request(append) for append in appends]
        if not self._commit_now(requests):
            self._enqueue(requests)
            for request in requests:
                self._wait(request, timeout)
        return [request.answer for request in requests]  # type: ignore[misc]

    def append_groups(self, groups: Iterable[Iterable[Append]]) -> list[Answer]:
        """As ``append_many``; while one group is written in the writer's thread, the next is made in this one."""
        requests: list[Request] = []
        for appends in groups:
            group = [Request(append) for append in appends]
            try:
                self._enqueue(group)
            except StoreClosedError as error:  # of this group; those before it are written
                for request in group:
                    request.answer = error
            requests += group
        for request in requests:
            if request.answer is None:
                self._wait(request, None)
        return [request.answer for request in requests]  # type: ignore[misc]

    def append_atomic(self, appends: list[Append]) -> list[tuple[int, Append]] | JobLogError:
        """Write all of *appends* in one transaction or none; returns where each begins, or why not."""
        requests = [Request(append) for append in appends]
        try:
            first = self._write_together(requests)
        except (ConflictError, UnknownOutcomeError) as error:
            return self._settle_together(requests, error)
        except JobLogError as error:
            return requests[0].doubts[-1] if requests[0].doubts else error
        self._tell(any(append.row.get("ready") for append in appends))
        placed: list[tuple[int, Append]] = []
        for append in appends:
            placed.append((first, append))
            first += len(append.events)
        return placed

    def _write_together(self, requests: list[Request]) -> int:
        try:
            with self._commit_lock:
                if self._closing:
                    raise StoreClosedError(_CLOSED)
                self.store.turn(blocking=True)
                try:
                    return self.busy.run(lambda: self._doubting(requests))
                finally:
                    self.store.end_turn()
        except LockedError:  # wait for the row in this thread, while others write
            return self.busy.run(lambda: self._doubting(requests, side=True))

    def _settle_together(
        self, requests: list[Request], error: ConflictError | UnknownOutcomeError
    ) -> list[tuple[int, Append]] | JobLogError:
        """Where appends are that travelled together, or what stands against one of them."""
        placed: list[tuple[int, Append]] = []
        refusals: list[JobLogError] = []
        for request in requests:
            if isinstance(error, UnknownOutcomeError):
                answer = self.outcomes.resolve(request.append, error)
            else:
                answer = self.outcomes.refused(request.append, error, request.doubts)
            if isinstance(answer, Stored):
                placed.append((answer.position, request.append))
            else:
                refusals.append(answer)
        if not refusals:
            return placed
        # One against which nothing stands is told to reload: say what stands against another instead.
        return next((one for one in refusals if not isinstance(one, VersionConflictError)), refusals[-1])

    def append_soon(self, appends: Iterable[Append], loop: AbstractEventLoop) -> list[Future[Answer]]:
        """The same for callers on an event loop, which it never blocks."""
        if self._closing:
            raise StoreClosedError(_CLOSED)
        requests = [Request(append, loop) for append in appends]
        arriving = self._arriving.get(loop)
        if arriving is None:  # what all tasks of this tick bring travels together
            arriving = self._arriving[loop] = []
            loop.call_soon(self._arrived, loop)
        arriving += requests
        return [request.future for request in requests]  # type: ignore[misc]

    def _arrived(self, loop: AbstractEventLoop) -> None:
        requests = self._arriving.pop(loop)
        try:
            self._enqueue(requests)
        except StoreClosedError as error:
            for request in requests:
                request.answer = error
            set_results(requests)

    def _enqueue(self, requests: list[Request]) -> None:
        if self._closing:
            raise StoreClosedError(_CLOSED)
        self._start()
        for request in requests:
            request.expect()
        with self._start_lock:  # not behind the writer's last look
            if self._closing:
                raise StoreClosedError(_CLOSED)
            self._waiting.extend(requests)
        self._work.ring()

    def _wait(self, request: Request, timeout: float | None) -> None:
        assert request.ready is not None  # noqa: S101 - only waited for by threads
        if request.ready.acquire(timeout=-1 if timeout is None else timeout):
            return
        try:
            self._waiting.remove(request)
        except ValueError:  # being written now: its outcome is worth waiting for
            request.ready.acquire()
        else:
            request.answer = StoreBusyError(f"no turn to write within {timeout} s; nothing was written")

    def _commit_now(self, requests: list[Request]) -> bool:
        """Commit in the caller's own thread if nobody else writes: spares two thread switches."""
        if self._waiting or not self._commit_lock.acquire(blocking=False):
            return False
        try:
            if self._closing or not self.store.turn(blocking=False):
                return False
            try:
                for start in range(0, len(requests), MAX_BATCH):
                    self._commit(requests[start : start + MAX_BATCH])
            finally:
                self.store.end_turn()
        finally:
            self._commit_lock.release()
        moved = [request for request in requests if request.answer is None]
        for request in moved:
            self._wait(request, None)
        return True

    def later(self, task: Callable[[], None]) -> None:
        """Run *task* beside, best effort: a fault in it is logged and changes nothing that was acknowledged."""
        if self._closing:
            return
        self._start()
        self._side.append(task)
        self._side_work.ring()

    # -- threads -----------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        if self._threads:
            return
        with self._start_lock:
            if not self._threads:
                for name, target in (("writer", self._run), ("side-lane", self._run_side)):
                    thread = threading.Thread(target=target, name=f"joblog-{name}", daemon=True)
                    self._threads.append(thread)
                    thread.start()

    def close(self) -> None:
        """Write what is waiting, then stop."""
        with self._start_lock:
            self._closing = True
        with self._commit_lock:
            pass  # a caller that commits in its own thread has come to its end
        for work, thread in zip((self._work, self._side_work), list(self._threads), strict=False):
            work.ring()
            thread.join()

    def _run(self) -> None:
        while True:
            self._work.listen()
            while self._waiting:
                with self._commit_lock:
                    self._run_batch()
            if self._closing:
                break
        self.store.release_thread()

    def _run_batch(self) -> None:
        """Get the turn first, then take what is waiting: whoever gave up meanwhile is not written."""
        batch: list[Request] = []
        try:
            self.store.turn(blocking=True)
            try:
                batch = self._take()
                if batch:
                    self._commit(batch)
            finally:
                self.store.end_turn()
        except JobLogError as error:
            batch = batch or self._take()
            self._answer([request for request in batch if request.answer is None], error)
        except Exception:  # a fault of ours: nobody may wait for ever, and nobody may be told that nothing happened
            logger.exception("the writer met a fault it does not know")
            doubt = UnknownOutcomeError("the writer met a fault; the log has it")
            self._answer([request for request in batch if request.answer is None], doubt)
        deliver(batch)

    def _take(self) -> list[Request]:
        """What is waiting now; a caller that gives up takes its own away meanwhile."""
        taken: list[Request] = []
        with suppress(IndexError):
            while len(taken) < MAX_BATCH:
                taken.append(self._waiting.popleft())
        return taken

    def _run_side(self) -> None:
        while True:
            self._side_work.listen()
            while self._side:
                request = self._side.popleft()
                if isinstance(request, Request):
                    self._answer([request], self._try_one(request, side=True))
                    deliver([request])
                else:
                    self._run_task(request)
            if self._closing:
                break
        self.store.release_thread()

    @staticmethod
    def _run_task(task: Callable[[], None]) -> None:
        try:
            task()
        except Exception:
            logger.warning("a task beside the log failed; nothing acknowledged depends on it", exc_info=True)

    # -- commit ------------------------------------------------------------------------------------------------------

    def _commit(self, batch: list[Request]) -> None:
        self.batches += 1
        self.appends += len(batch)
        if len(batch) > 1:
            try:
                first = self.busy.run(lambda: self._doubting(batch))
            except Exception as error:  # noqa: BLE001 - a value that a driver chokes on is that append's alone
                logger.debug("a batch of %d runs one by one: %s", len(batch), error)
                self.split += 1
            else:
                for request in batch:
                    request.answer = _stored((first,))
                    first += len(request.append.events)
                self._wake(batch)
                return
        self._wake([request for request in batch if self._commit_one(request)])

    def _commit_one(self, request: Request) -> bool:
        """Whether it was answered here; else the side lane does it."""
        try:
            request.answer = self._try_one(request)
        except LockedError:
            self.side_lane += 1
            request.expect()
            self._side.append(request)
            self._start()
            self._side_work.ring()
            return False
        return True

    def _doubting(self, batch: list[Request], *, side: bool = False) -> int:
        """Write *batch*; a try whose answer is lost stays in mind: no later refusal is definite by itself."""
        try:
            return self._write([request.append for request in batch], side=side)
        except UnknownOutcomeError as doubt:
            for request in batch:
                request.doubts += (doubt,)
            raise
        except LockedError as error:
            if side:
                raise StoreBusyError("a row of this job stayed locked; nothing was written") from error
            raise

    def _try_one(self, request: Request, *, side: bool = False) -> Answer:
        """Write one append alone and find out why if it does not go."""
        append = request.append
        try:
            return Stored(self.busy.run(lambda: self._doubting([request], side=side)))
        except ConflictError as conflict:
            return self.outcomes.refused(append, conflict, request.doubts)
        except UnknownOutcomeError as error:
            return self.outcomes.resolve(append, error)
        except JobLogError as error:
            return request.doubts[-1] if request.doubts else error  # "nothing was written" holds for the last try only
        except LockedError:
            raise
        except Exception:  # a fault of ours: nobody may be told that nothing happened
            logger.exception("an append met a fault that the store does not know")
            return self.outcomes.resolve(append, UnknownOutcomeError("the append met a fault; the process' log has it"))

    def _write(self, appends: list[Append], *, side: bool = False) -> int:
        """One transaction; follows a rebuild's switch and a raised epoch."""
        for last_try in (False, False, True):
            try:
                first = self.store.append(appends, self.generation, self.seen, side=side)
            except (GenerationChangedError, EpochChangedError):
                if last_try:
                    raise
                self.refresh()
            else:
                written = sum(len(append.events) for append in appends)
                self.saw(first + written - 1)
                return first
        raise AssertionError  # pragma: no cover - the loop returns or raises

    def refresh(self) -> None:
        """Read generation and epoch again."""
        state = self.store.state()
        self.generation = state.generation
        if state.epoch > self.seen.epoch:
            self.seen = Seen(state.epoch, state.head)

    def saw(self, position: int) -> None:
        """Remember the newest position: a store that is behind it was rewound."""
        if position > self.seen.position:
            self.seen = Seen(self.seen.epoch, position)

    # -- answers -----------------------------------------------------------------------------------------------------

    def _answer(self, requests: list[Request], answer: Answer) -> None:
        for request in requests:
            request.answer = answer
        self._wake(requests)

    def _wake(self, requests: list[Request]) -> None:
        ready = False
        for request in requests:
            if request.ready is not None and request.answer is not None:
                request.ready.release()
            ready = ready or bool(request.append.row.get("ready"))
        self._tell(ready)

    def _tell(self, ready: bool) -> None:  # noqa: FBT001 - as ``on_commit``
        """Wake whoever follows the log; a fault of theirs changes nothing that was written."""
        try:
            self._on_commit(ready)
        except Exception:
            logger.exception("a follower of the log failed to be woken")
