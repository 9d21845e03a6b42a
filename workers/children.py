"""Child jobs: spawned once under a key, waited for without slot or lease."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from uuid import UUID

from ..domain import identity, storable
from ..domain.errors import InvalidFieldError, JobLogError
from ..domain.status import ENDED, Status
from . import redo
from .book import missing
from .errors import Fatal, Stopped

if TYPE_CHECKING:
    from collections.abc import Generator

    from .book import Book
    from .registry import ChildOptions, Operation

R = TypeVar("R")
A = TypeVar("A")
#: The floor under the wake-up that the child's end brings in its own commit.
LOOK_AGAIN: Final = timedelta(seconds=60)


class ChildFailed(Fatal):
    """A child ended without completing."""

    def __init__(self, job_id: UUID, status: Status, reason: str) -> None:
        super().__init__("child-failed", f"job {job_id} is {status.value}: {reason}")
        self.job_id, self.status = job_id, status


class ChildHandle(Generic[R]):
    """A spawned job."""

    def __init__(self, book: Book, job_id: UUID) -> None:
        self._book, self.job_id = book, job_id

    def waiting(self) -> Generator[Any, Any, R]:
        """Its result; until it has ended, lease and slot are given back.

        Raises:
            ChildFailed: it failed or was cancelled.
        """
        book = self._book
        book.check()
        child = yield lambda: book.log.job(self.job_id)
        if child.status not in ENDED:
            raise Stopped("child", book.log.now() + LOOK_AGAIN)
        if child.status is not Status.COMPLETED:
            raise ChildFailed(self.job_id, child.status, child.reason)
        result: R = child.result
        return result


def spawning(
    book: Book, operation: Operation[A, R], args: A, key: str, options: ChildOptions
) -> Generator[Any, Any, ChildHandle[R]]:
    """Submit the child, once: its id follows from the parent and *key*, so the same again is the same child."""
    storable.name(key, "key")
    if key.startswith(redo.PREFIX):
        raise InvalidFieldError("key", f"{key!r} begins with {redo.PREFIX!r}", "choose another key")
    unit = f"step:spawn:{key}"
    book.check()
    known = yield from book.known(unit)
    if not missing(known):
        return ChildHandle(book, UUID(known))
    job_id = identity.child_id(book.held.job_id, key)
    spec = operation.spec(args, key=key, parent_id=book.held.job_id, tenant=book.held.job.tenant, **options)
    answer = (yield lambda: book.log.submit_many([spec]))[0]
    if isinstance(answer, JobLogError):
        raise answer
    yield from book.done([(unit, str(job_id))])
    book.remember(unit, str(job_id))
    return ChildHandle(book, job_id)
