"""What a job's function gets as its first argument: the durable verbs, async (``Run``) and in a thread (``SyncRun``).

Pause, cancel, shutdown and the loss of the lease surface only at these verbs.  Code between them runs again after a
crash and must not hold the only copy of anything: locals are not durable, steps, batches, items and tallies are.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from ..eventstore.clock import pause_soon
from ..eventstore.failpoint import failpoint
from . import atomic, batch, children, items, marks
from .commands import drive
from .errors import AtomicUnavailableError
from .gate import Gate, SyncGate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Iterator
    from concurrent.futures import Executor
    from datetime import datetime
    from typing import Unpack
    from uuid import UUID

    import sqlalchemy as sa

    from ..eventstore.store import Store
    from .book import Book
    from .commands.log import JobLog
    from .registry import ChildOptions, Operation
    from .sources import Source

T = TypeVar("T")
R = TypeVar("R")
A = TypeVar("A")

#: A shorter sleep keeps the lease and the slot; a longer one gives them back.
KEEP_SLOT_SECONDS: Final = 1.0


class _BaseRun:
    """What both kinds of run know."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._sleeps = 0

    @property
    def job_id(self) -> UUID:
        """The job's id."""
        return self._book.held.job_id

    @property
    def tenant(self) -> str:
        """The job's tenant."""
        return self._book.held.job.tenant

    @property
    def log(self) -> JobLog:
        """The log that the job is in: to hand jobs in, never to command this one."""
        return self._book.log

    @property
    def attempt(self) -> int:
        """How often the job was claimed, this time included."""
        return self._book.held.attempt

    @property
    def unit_id(self) -> str:
        """The same id each time the unit in flight is tried: hand it on as idempotency key."""
        return self._book.unit_id()

    @property
    def fencing_token(self) -> str:
        """Grows with each grant of the job: whoever checks it refuses a former holder."""
        epoch, grant = self._book.held.token
        return f"{epoch}.{grant}"

    @property
    def store(self) -> Store:
        """The log's store; for operations that come with joblog."""
        return self._book.log.store

    def now(self) -> datetime:
        """The store's time, as this process estimates it."""
        return self._book.log.now()

    def tally(self, what: str, count: int = 1) -> None:
        """Add to a durable counter; it counts with the next unit."""
        self._book.tallies[what] = self._book.tallies.get(what, 0) + count

    def total(self, what: str) -> int:
        """The durable counter *what*, over all attempts."""
        return self._book.tallies.get(what, 0)

    def is_own_database(self, url: sa.URL) -> bool:
        """Whether *url* names the log's own database, by file or by server and name."""
        engine = getattr(self._book.log.store, "engine", None)
        if engine is None or engine.url.get_backend_name() != url.get_backend_name():
            return False
        mine: sa.URL = engine.url
        if mine.get_backend_name() == "sqlite":
            return Path(mine.database or "").resolve() == Path(url.database or "").resolve()
        return (mine.host, mine.port or 5432, mine.database) == (url.host, url.port or 5432, url.database)

    def _wake_at(self, seconds: float) -> tuple[str, datetime]:
        self._sleeps += 1
        return f"sleep-{self._sleeps}", self.now() + timedelta(seconds=seconds)


class Batch(batch.BaseBatch[T], Generic[T]):
    """A batch of an async run."""

    def __init__(self, *args: Any, run: Run, into: marks.Marks | None) -> None:
        super().__init__(*args)
        self._run, self._into = run, into

    @asynccontextmanager
    async def atomic(self) -> AsyncIterator[AsyncConnection]:
        """A connection whose writes are committed together with this batch's evidence and checkpoint.

        Its calls run in a thread of the run; see ``atomic.atomic``.
        """
        thread = self._run.thread()
        loop = asyncio.get_running_loop()
        block = transaction(self._book, self, self._into)
        connection = await loop.run_in_executor(thread, block.__enter__)
        try:
            yield AsyncConnection(connection, thread)
        except BaseException as error:
            kind = (type(error), error, error.__traceback__)
            if not await loop.run_in_executor(thread, block.__exit__, *kind):
                raise
        else:
            await loop.run_in_executor(thread, block.__exit__, None, None, None)

    async def commit(self, function: Callable[[sa.Connection], Any]) -> None:
        """Call *function* with a connection, and commit what it writes with this batch.

        As ``atomic``, in one go in a thread that the runs of a worker share: a connection for four, not for each.
        """
        await asyncio.get_running_loop().run_in_executor(self._run.readers, self._committed, function)

    def _committed(self, function: Callable[[sa.Connection], Any]) -> None:
        with transaction(self._book, self, self._into) as connection:
            function(connection)


class AsyncConnection:
    """A SQLAlchemy connection that works in its own thread."""

    def __init__(self, connection: sa.Connection, thread: Executor) -> None:
        self._connection, self._thread = connection, thread

    async def execute(self, statement: Any, parameters: Any = None) -> Any:
        """As ``Connection.execute``."""
        return await self.run(lambda connection: connection.execute(statement, parameters))

    async def scalar(self, statement: Any, parameters: Any = None) -> Any:
        """As ``Connection.scalar``."""
        return await self.run(lambda connection: connection.scalar(statement, parameters))

    async def run(self, function: Callable[[sa.Connection], R]) -> R:
        """Call *function* with the connection, in the thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, self._connection)


class SyncBatch(batch.BaseBatch[T], Generic[T]):
    """A batch of a run in a thread."""

    def __init__(self, *args: Any, into: marks.Marks | None) -> None:
        super().__init__(*args)
        self._into = into

    @contextmanager
    def atomic(self) -> Iterator[sa.Connection]:
        """A connection whose writes are committed together with this batch's evidence and checkpoint."""
        with transaction(self._book, self, self._into) as connection:
            yield connection


@contextmanager
def transaction(book: Book, unit: batch.BaseBatch[Any], into: marks.Marks | None) -> Iterator[sa.Connection]:
    """The transaction of a unit: in the log's database, or in another with a mark there."""
    if into is not None:
        with into.writing(unit) as connection:
            yield connection
    elif book.log.store.dialect == "memory":
        raise AtomicUnavailableError("the log in memory has no SQL; pass into=<engine> to batches(), or use SQLite")
    else:
        with atomic.atomic(book, unit) as connection:
            yield connection


class Run(_BaseRun):
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

    async def step(self, name: str, function: Callable[..., Awaitable[R] | R], *args: Any) -> R:
        """The result of ``function(*args)``, remembered under *name*: after a crash it is returned, not run again.

        The result must be a JSON value.
        """
        made: R = await self._drive(self._book.step(name, function, args))
        return made

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
            yield Item(self._book, name, index, item_key, value, self)
        await self._drive(items.finished(self._book, name, len(stored)))

    async def spawn(
        self, operation: Operation[A, R], args: A, *, key: str, **options: Unpack[ChildOptions]
    ) -> Child[R]:
        """A child job, submitted once under *key*; ``await child.result()`` waits for it without slot or lease.

        *options* as in ``Operation.spec``.
        """
        made = await self._drive(children.spawning(self._book, operation, args, key, options))
        return Child(made, self)

    def gate(self, provider: str, *, credential: str = "", hosts: tuple[str, ...] = ()) -> Gate:
        """The gate of *provider* (and *credential*, a reference that is sent to *hosts* only).

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


class SyncRun(_BaseRun):
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
            yield SyncItem(self._book, name, index, item_key, value, self)
        self._drive(items.finished(self._book, name, len(stored)))

    def spawn(self, operation: Operation[A, R], args: A, *, key: str, **options: Unpack[ChildOptions]) -> SyncChild[R]:
        """As ``Run.spawn``."""
        return SyncChild(self._drive(children.spawning(self._book, operation, args, key, options)), self)

    def gate(self, provider: str, *, credential: str = "", hosts: tuple[str, ...] = ()) -> SyncGate:
        """As ``Run.gate``."""
        return SyncGate(self._book, provider, credential, hosts)

    def sleep(self, seconds: float) -> None:
        """As ``Run.sleep``; woken when the worker stops."""
        if seconds <= KEEP_SLOT_SECONDS:
            self._book.check()
            self._book.control.wait(seconds)
            return
        self._drive(self._book.until(*self._wake_at(seconds)))


class Child(Generic[R]):
    """A child of an async run."""

    def __init__(self, handle: children.ChildHandle[R], run: Run) -> None:
        self._handle, self._run, self.job_id = handle, run, handle.job_id

    async def result(self) -> R:
        """What the child returned; raises ``ChildFailed`` if it failed or was cancelled."""
        made: R = await self._run._drive(self._handle.waiting())  # noqa: SLF001 - two halves of one thing
        return made


class SyncChild(Generic[R]):
    """A child of a run in a thread."""

    def __init__(self, handle: children.ChildHandle[R], run: SyncRun) -> None:
        self._handle, self._run, self.job_id = handle, run, handle.job_id

    def result(self) -> R:
        """As ``Child.result``."""
        made: R = self._run._drive(self._handle.waiting())  # noqa: SLF001 - two halves of one thing
        return made


class Item(items.BaseItem[T], Generic[T]):
    """An item of an async run."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args[:-1])
        self._run: Run = args[-1]

    async def once(self, phase: str, function: Callable[..., Awaitable[R] | R], *args: Any) -> R:
        """The result of ``function(*args)``, once for this item and phase."""
        made: R = await self._run._drive(self.phase(phase, function, args))  # noqa: SLF001 - two halves of one thing
        return made


class SyncItem(items.BaseItem[T], Generic[T]):
    """An item of a run in a thread."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args[:-1])
        self._run: SyncRun = args[-1]

    def once(self, phase: str, function: Callable[..., R], *args: Any) -> R:
        """As ``Item.once``."""
        made: R = self._run._drive(self.phase(phase, function, args))  # noqa: SLF001 - two halves of one thing
        return made
