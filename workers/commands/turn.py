"""How an operator's command is written: with the group of its process, or, once it came too late, with the job to itself.

A job whose units are quick moves on between an operator's look and append, each time: a worker appends about as often as
the operator reads.  So the second try holds the job: on SQLite the write lock, on PostgreSQL the job's row.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...domain.errors import EpochChangedError, GenerationChangedError, JobLogError, VersionConflictError
from ...eventstore.append import Append, Stored
from ...eventstore.store import ConflictError
from .family import Together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

    from ...eventstore.store import AtomicTransaction
    from .log import JobLog

    Write = Callable[[Append | Together], Stored]


@contextmanager
def writing(log: JobLog, job_id: UUID, *, alone: bool) -> Iterator[Write]:
    """Give what writes an append, or raises why not; *alone* keeps everybody else from the job for the block."""
    if not alone or log.store.dialect == "memory":
        yield lambda whole: _raised(
            whole.write(log.writer) if isinstance(whole, Together) else log.writer.append(whole)
        )
        return
    ends: list[int] = []
    with log.store.atomic() as transaction:
        transaction.hold(job_id, log.writer.generation)
        yield lambda whole: _write_in(transaction, log, whole, ends)
    for end in ends:
        log.writer.saw(end)
    log.waker.notify()


def _raised(answer: Stored | JobLogError) -> Stored:
    if isinstance(answer, JobLogError):
        raise answer
    return answer


def _write_in(transaction: AtomicTransaction, log: JobLog, whole: Append | Together, ends: list[int]) -> Stored:
    """All of it in the open *transaction*; what is raised undoes that."""
    writer = log.writer
    for append in whole.appends if isinstance(whole, Together) else [whole]:
        try:
            first = transaction.append(append, writer.generation, writer.seen)
        except (GenerationChangedError, EpochChangedError) as error:
            writer.refresh()
            raise VersionConflictError(append.stream_id, append.expected) from error
        except ConflictError as conflict:
            return _raised(writer.outcomes.diagnose(append, conflict))
        ends.append(first + len(append.events) - 1)
    return Stored(ends[0])
