"""Transactional units: the user's rows, the unit's evidence and the checkpoint in one commit, fenced inside it.

Lock order: the user's rows first, then in one go the job's row and the log.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from ..domain.errors import GenerationChangedError, JobLogError, StateError
from ..eventstore.append import Append, Stored
from ..eventstore.failpoint import failpoint
from ..eventstore.store import ConflictError
from .commands import drive
from .errors import AtomicTooLongError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from ..eventstore.store import AtomicTransaction
    from .batch import BaseBatch
    from .book import Book
    from .commands.log import JobLog

#: How long one unit may hold SQLite's write lock, seconds: below the heartbeat.
SQLITE_BUDGET: Final = 5.0


@contextmanager
def atomic(book: Book, batch: BaseBatch[Any]) -> Iterator[sa.Connection]:
    """A connection in the log's database; at the end of the block its writes and the unit are committed together.

    An exception in the block undoes both.

    Raises:
        AtomicTooLongError: on SQLite, where everybody waits for the writer, it took longer than 5 s; undone.
        LeaseLostError: the job is somebody else's now; undone.
    """
    log, held = book.log, book.held
    drive.run(book.flush(), log.writer)
    began = log.clock.monotonic()
    before = held.job.version
    try:
        with log.store.atomic() as transaction, _guarded(transaction.connection):
            yield transaction.connection
            _check_budget(log, began)
            failpoint("atomic.rows_written")
            units, mark = batch.settle()
            marks = {**book.marks, mark[0]: mark[1]}
            checkpoint = {"cursor": marks, "tallies": dict(book.tallies)}
            _drive_in(held.completing_units(units, checkpoint, uncommitted=True), transaction, log)
            failpoint("atomic.before_commit")
    except BaseException:
        held.forget()
        raise
    failpoint("atomic.committed")
    book.marks, book.unit, batch.committed = marks, "", True
    log.snapshot_later(held.job, before)
    log.waker.notify()


def _check_budget(log: JobLog, began: float) -> None:
    if log.store.dialect == "sqlite" and log.clock.monotonic() - began > SQLITE_BUDGET:
        raise AtomicTooLongError(f"the unit held the write lock for more than {SQLITE_BUDGET} s; make it smaller")


@contextmanager
def _guarded(connection: sa.Connection) -> Iterator[None]:
    """The transaction is ours to end: a commit in the block would tear it apart."""

    def refuse(*_: Any) -> None:
        raise StateError(None, "atomic() commits at the end of its block; don't commit or roll back inside")

    names = ("commit", "rollback")
    for name in names:
        sa.event.listen(connection, name, refuse)
    try:
        yield
    finally:
        for name in names:
            sa.event.remove(connection, name, refuse)


def _drive_in(command: Generator[Any, Any, int], transaction: AtomicTransaction, log: JobLog) -> int:
    """Drive a command whose append goes into the open *transaction*."""
    answer: Any = None
    try:
        while True:
            want = command.send(answer)
            answer = _write(want, transaction, log) if isinstance(want, Append) else want()
    except StopIteration as end:
        return int(end.value)


def _write(append: Append, transaction: AtomicTransaction, log: JobLog) -> Stored | JobLogError:
    writer = log.writer
    for _ in range(2):
        try:
            first = transaction.append(append, writer.generation, writer.seen)
        except GenerationChangedError:
            writer.refresh()
        except ConflictError as conflict:
            return writer.outcomes.diagnose(append, conflict)
        except JobLogError as error:
            return error
        else:
            return Stored(first)
    return writer.outcomes.diagnose(append, ConflictError("the job table was rebuilt twice"))
