"""The batches that a run hands out, and the transaction in which rows of the user are committed with one."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from . import atomic, batch, marks
from .errors import AtomicUnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from concurrent.futures import Executor

    import sqlalchemy as sa

    from .book import Book
    from .run import Run

T = TypeVar("T")
R = TypeVar("R")


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
