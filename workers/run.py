"""What a job's function gets as its first argument: the durable verbs, async (``Run``) and in a thread (``SyncRun``).

Pause, cancel, shutdown and the loss of the lease surface only at these verbs.  Code between them runs again after a
crash and must not hold the only copy of anything: locals are not durable, steps, batches, items and tallies are.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from ..eventstore.clock import pause_soon
from ..eventstore.failpoint import failpoint
from . import batch, children, items, marks
from .base_run import BaseRun
from .commands import drive
from .gate import Credentials, Gate, SyncGate
from .run_batches import Batch, SyncBatch
from .run_parts import Child, Item, SyncChild, SyncItem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Iterator
    from concurrent.futures import Executor
    from typing import Unpack

    import sqlalchemy as sa

    from .book import Book
    from .registry import ChildOptions, Operation
    from .sources import Source

T = TypeVar("T")
R = TypeVar("R")
A = TypeVar("A")

#: A shorter sleep keeps the lease and the slot; a longer one gives them back.
KEEP_SLOT_SECONDS: Final = 1.0


class Run(BaseRun):
    """The run of an async function."""

    def __init__(self, book: Book, readers: Executor) -> None:
        super().__init__(book)
        self._readers = readers
        self._thread: ThreadPoolExecutor | None = None

    async def _drive(self, script: Generator[Any, Any, R]) -> R:
        return await drive.run_soon(script, self._book.log.writer, self._readers)

    @property
    def readers(self) -> Executor:
        """The threads that the runs of a worker share, for what takes moments."""
        return self._readers

    def thread(self) -> Executor:
        """The one thread in which this run's transactions live."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="joblog-run")
        return self._thread

    def close(self) -> None:
        """End the run's thread."""
        if self._thread is not None:
            self._thread.submit(self._book.log.store.release_thread)
            self._thread.shutdown(wait=False)

    @overload
    async def step(self, name: str, function: Callable[..., Awaitable[R]], *args: Any) -> R: ...
    @overload
    async def step(self, name: str, function: Callable[..., R], *args: Any) -> R: ...
    async def step(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """The result of ``function(*args)``, remembered under *name*: after a crash it is returned, not run again.

        The result must be a JSON value.
        """
        return await self._drive(self._book.step(name, function, args))

    async def batches(
        self, name: str, source: Source[T], *, size: int = 100, into: sa.Engine | None = None
    ) -> AsyncIterator[Batch[T]]:
        """Rows of *source*, *size* at a time, each batch one unit; after a crash it goes on behind the last one.

        A batch counts as done when the loop comes back for the next, or when its ``atomic()`` block ends.  *into* names
        another database as the target of ``atomic()``: it keeps a mark there.
        """
        book = self._book
        loop = asyncio.get_running_loop()
        made = None if into is None else await loop.run_in_executor(self._readers, marks.Marks, into, book, name)
        index, stream = await loop.run_in_executor(self._readers, batch.rows_of, book, name, source, size)
        while (following := await loop.run_in_executor(self._readers, next, stream, None)) is not None:
            one: Batch[T] = Batch(book, name, index, *following, run=self, into=made)
            index += 1
            book.check()
            if made is not None and (left := await loop.run_in_executor(self._readers, made.unrecorded, one.number)):
                await self._drive(one.recording(left))
                continue
            await self._drive(book.begun(one.unit, one.mark))
            failpoint("unit.before_effect")
            yield one
            failpoint("unit.after_effect")
            await self._drive(one.committing(at_once=made is not None))
            book.check()

    async def items(self, name: str, source: Iterable[T], *, key: Callable[[T], str] = str) -> AsyncIterator[Item[T]]:
        """Each of *source*, whose list is stored before the first unit: its boundaries never move.

        Each ``await item.once(phase, function, …)`` is one unit with its evidence.
        """
        start, stored = await self._drive(items.frozen(self._book, name, source, key))
        for index, (item_key, value) in enumerate(stored[start:], start):
            self._book.check()
            yield Item(self._book, name, index, item_key, value, drive=self._drive)
        await self._drive(items.finished(self._book, name, len(stored)))

    async def spawn(
        self, operation: Operation[A, R], args: A, *, key: str, **options: Unpack[ChildOptions]
    ) -> Child[R]:
        """A child job, submitted once under *key*; ``await child.result()`` waits for it without slot or lease.

        *options* as in ``Operation.spec``.
        """
        made = await self._drive(children.spawning(self._book, operation, args, key, options))
        return Child(made, self._drive)

    def gate(self, provider: str, *, credential: Credentials = "", hosts: tuple[str, ...] = ()) -> Gate:
        """The gate of *provider* (and *credential*, a reference that is sent to *hosts* only; of several the first there is).

        ``async with run.gate("crm") as turn``: one request of your own client, when its turn has come, with its slot;
        ``await turn.answered(status, headers)`` tells the gate what the provider said.  ``await run.gate("crm").request(…)``:
        the same with the bounded client that never goes inside.

        A turn more than a moment away gives lease and slot back until then; that is no attempt of the unit in flight.
        """
        return Gate(self._book, provider, credential, hosts, self._readers)

    async def sleep(self, seconds: float) -> None:
        """Wait; more than a second gives the lease and the slot back, and the instant is stored."""
        if seconds <= KEEP_SLOT_SECONDS:
            self._book.check()
            await pause_soon(seconds)
            return
        await self._drive(self._book.until(*self._wake_at(seconds)))


class SyncRun(BaseRun):
    """The run of a plain function, in a thread."""

    def _drive(self, script: Generator[Any, Any, R]) -> R:
        return drive.run(script, self._book.log.writer)

    @contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """A transaction in the log's database that records nothing: for preparing a table, not for work."""
        with self._book.log.store.atomic() as made:
            yield made.connection

    def close(self) -> None:
        """Nothing to end."""

    def step(self, name: str, function: Callable[..., R], *args: Any) -> R:
        """As ``Run.step``."""
        made: R = self._drive(self._book.step(name, function, args))
        return made

    def batches(
        self, name: str, source: Source[T], *, size: int = 100, into: sa.Engine | None = None
    ) -> Iterator[SyncBatch[T]]:
        """As ``Run.batches``."""
        book = self._book
        made = None if into is None else marks.Marks(into, book, name)
        index, stream = batch.rows_of(book, name, source, size)
        for following in stream:
            one: SyncBatch[T] = SyncBatch(book, name, index, *following, into=made)
            index += 1
            book.check()
            if made is not None and (left := made.unrecorded(one.number)):
                self._drive(one.recording(left))
                continue
            self._drive(book.begun(one.unit, one.mark))
            failpoint("unit.before_effect")
            yield one
            failpoint("unit.after_effect")
            self._drive(one.committing(at_once=made is not None))
            book.check()

    def items(self, name: str, source: Iterable[T], *, key: Callable[[T], str] = str) -> Iterator[SyncItem[T]]:
        """As ``Run.items``."""
        start, stored = self._drive(items.frozen(self._book, name, source, key))
        for index, (item_key, value) in enumerate(stored[start:], start):
            self._book.check()
            yield SyncItem(self._book, name, index, item_key, value, drive=self._drive)
        self._drive(items.finished(self._book, name, len(stored)))

    def spawn(self, operation: Operation[A, R], args: A, *, key: str, **options: Unpack[ChildOptions]) -> SyncChild[R]:
        """As ``Run.spawn``."""
        return SyncChild(self._drive(children.spawning(self._book, operation, args, key, options)), self._drive)

    def gate(self, provider: str, *, credential: Credentials = "", hosts: tuple[str, ...] = ()) -> SyncGate:
        """As ``Run.gate``."""
        return SyncGate(self._book, provider, credential, hosts)

    def sleep(self, seconds: float) -> None:
        """As ``Run.sleep``; woken when the worker stops."""
        if seconds <= KEEP_SLOT_SECONDS:
            self._book.check()
            self._book.control.wait(seconds)
            return
        self._drive(self._book.until(*self._wake_at(seconds)))
