"""Lists of items: stored whole before the first unit, then each item's phases are units of their own."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import orjson

from ..domain import storable, withheld
from ..domain.errors import InvalidFieldError
from ..eventstore.failpoint import failpoint
from ..eventstore.mapper import evidence_of
from .book import missing
from .errors import ListChangedError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from ..domain.job import Job
    from .book import Book
    from .commands.log import JobLog

T = TypeVar("T")
CHUNK: Final = 1000  #: items a stored row
_KEY_SHOWN: Final = 100


def unit_key(name: str, key: str, phase: str) -> str:
    """The unit of one item's phase; a long item key is shortened to a digest."""
    shown = (
        key
        if len(key) <= _KEY_SHOWN and key.isprintable()
        else hashlib.sha256(storable.escape(key).encode()).hexdigest()
    )
    return f"{name}:{shown}:{phase}"


def frozen(
    book: Book, name: str, source: Iterable[Any], key: Callable[[Any], str]
) -> Generator[Any, Any, tuple[int, list[tuple[str, Any]]]]:
    """Where to go on, and the list as it was stored; stored now if it was not (JRN-01…04).

    Raises:
        ListChangedError: the stored rows do not match the digest that the log has.
    """
    storable.name(name, "items")
    book.check()
    log, held = book.log, book.held
    if book.redo is not None:
        found = yield partial(_read, log, book.redo.parent, name)
        unit = book.redo.skipped.unit  # a key may be the beginning of another: the longest that fits is meant
        fitting = [one for one in found if unit.startswith(unit_key(name, one[0], ""))]
        return 0, [max(fitting, key=lambda one: len(unit_key(name, one[0], "")))] if fitting else []
    if name not in held.job.lists:
        made = [[key(value), storable.payload(value, f"items of {name}")] for value in source]
        if len({one for one, _ in made}) != len(made):
            raise InvalidFieldError(
                f"items of {name}", "two items have the same key", "give a key that tells them apart"
            )
        chunks = [
            withheld.refuse(orjson.dumps(made[start : start + CHUNK]), name) for start in range(0, len(made), CHUNK)
        ]
        yield lambda: log.store.put_list(held.job_id, name, chunks)
        failpoint("list.stored")
        yield from held.freezing_list(name, count=len(made), digest=_digest(chunks))
        failpoint("list.frozen")
    found = yield partial(_read, log, held.job, name)
    return int(book.marks.get(f"i:{name}", 0)), found


def _read(log: JobLog, job: Job, name: str) -> list[tuple[str, Any]]:
    if name not in job.lists:
        return []  # the job whose unit is retried never came here
    stored = log.store.get_list(job.id, name)
    if _digest(stored) != job.lists[name]["digest"]:
        raise ListChangedError(job.id, name)
    return [(one, value) for chunk in stored for one, value in orjson.loads(chunk)]


def _digest(chunks: Iterable[bytes]) -> str:
    made = hashlib.sha256()
    for chunk in chunks:
        made.update(len(chunk).to_bytes(8, "big"))
        made.update(chunk)
    return made.hexdigest()


def finished(book: Book, name: str, count: int) -> Generator[Any, Any, None]:
    """All items are done: the list's own unit closes it, unless it did before."""
    if book.marks.get(f"i:{name}") == count + 1 or book.redo is not None:
        return
    yield from book.done([(f"{name}:all", count)], (f"i:{name}", count + 1))


class BaseItem(Generic[T]):
    """One item of a list."""

    def __init__(self, book: Book, name: str, index: int, key: str, value: T) -> None:
        self._book, self._name, self._index = book, name, index
        self.key, self.value = key, value

    def phase(self, phase: str, function: Callable[..., Any], args: tuple[Any, ...]) -> Generator[Any, Any, Any]:
        """One unit of this item; the five steps as in ``Book.step``."""
        book = self._book
        unit = unit_key(self._name, self.key, storable.name(phase, "phase"))
        book.check()
        if not missing(pending := book.pending(unit)):
            return pending
        if self._index <= int(book.marks.get(f"i:{self._name}", 0)):  # only the item in flight can have recorded phases
            states = yield lambda: book.log.store.unit_states(book.held.job_id, [unit])
            if book.redo is not None:
                states |= yield partial(book.redo.phases, book.log, [unit])
            if unit in states:
                return evidence_of(states[unit])
        yield from book.begun(unit, (f"i:{self._name}", self._index + 1))
        failpoint("unit.before_effect")
        result = yield book.call(function, args)
        failpoint("unit.after_effect")
        storable.payload(result, f"result of {phase}")
        yield from book.done([(unit, result)], (f"i:{self._name}", self._index))
        book.check()
        return result
