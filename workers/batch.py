"""Batches and items: what a job's function iterates over, each with its durable mark."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..domain import storable

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from .book import Book
    from .sources import Source

T = TypeVar("T")
REJECTS_KEPT = 50  #: rejected rows named in a batch's evidence; the others are counted


class BaseBatch(Sequence[T], Generic[T]):
    """Some rows of a source: one unit."""

    def __init__(self, book: Book, name: str, number: int, rows: Sequence[T], cursor: Any) -> None:
        self._book, self.name, self.number, self._rows, self._cursor = book, name, number, rows, cursor
        self._tallied: dict[str, int] = {}
        self._rejected: list[list[Any]] = []
        self._rejected_count = 0
        self._noted: dict[str, Any] = {}
        self.committed = False

    @property
    def unit(self) -> str:
        """The unit's key."""
        return f"{self.name}:{self.number}"

    def __len__(self) -> int:
        """How many rows."""
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        """A row, or a slice of rows."""
        return self._rows[index]

    def tally(self, what: str, count: int = 1) -> None:
        """Add to a durable counter of the job; it counts when the batch is committed."""
        storable.name(what, "tally")
        self._tallied[what] = self._tallied.get(what, 0) + count

    def reject(self, index: int, code: str, text: str = "") -> None:
        """Leave a row out, kept with its reason: by place in the batch and code, never by content."""
        self._rejected_count += 1
        if len(self._rejected) < REJECTS_KEPT:
            self._rejected.append([index, storable.name(code, "code"), storable.text(text, limit=200)])
        self.tally("rejected")

    def note(self, **facts: Any) -> None:
        """Say more in the unit's evidence: what proves the effect, never its content."""
        self._noted |= storable.payload(facts, "note")

    def evidence(self) -> dict[str, Any]:
        """What the unit's event says."""
        made: dict[str, Any] = {"rows": len(self._rows), **self._noted}
        if self._rejected_count:
            made["rejected"] = self._rejected_count
            made["rejects"] = self._rejected
        return made

    @property
    def cursor(self) -> Any:
        """Where the source goes on behind this batch."""
        return self._cursor

    @property
    def tallied(self) -> dict[str, int]:
        """What this batch adds to the job's counters."""
        return dict(self._tallied)

    def recording(self, left: dict[str, Any]) -> Generator[Any, Any, None]:
        """Record a batch that is in its target already, by what it left there."""
        for what, count in left["tallies"].items():
            self._book.tallies[what] = self._book.tallies.get(what, 0) + count
        mark = (f"b:{self.name}", [self.number + 1, left["cursor"]])
        yield from self._book.done([(self.unit, left["evidence"])], mark, at_once=True)
        self.committed = True

    def settle(self) -> tuple[list[tuple[str, Any]], tuple[str, Any]]:
        """The unit with its evidence, and the source's mark behind it; tallies go into the job's."""
        for what, count in self._tallied.items():
            self._book.tallies[what] = self._book.tallies.get(what, 0) + count
        self._tallied.clear()
        return [(self.unit, self.evidence())], self.mark

    @property
    def mark(self) -> tuple[str, Any]:
        """Where the source goes on behind this batch, as the checkpoint keeps it."""
        return f"b:{self.name}", [self.number + 1, self._cursor]

    def committing(self, *, at_once: bool = False) -> Generator[Any, Any, None]:
        """Record the batch, unless ``atomic`` did; *at_once* where a mark elsewhere waits for it."""
        if self.committed:
            return
        units, mark = self.settle()
        yield from self._book.done(units, mark, at_once=at_once)
        self.committed = True


def rows_of(book: Book, name: str, source: Source[T], size: int) -> tuple[int, Iterator[tuple[Sequence[T], Any]]]:
    """Number of the next batch of *name*, and what comes behind the last one; of a unit that is retried, it alone."""
    index, cursor = book.marks.get(f"b:{name}", (0, None))
    if book.redo is None:
        return index, source.batches(size, cursor)
    place = book.redo.batch(name)
    if place is None or f"b:{name}" in book.marks:
        return 0, iter(())
    return place[0], islice(source.batches(size, place[1]), 1)
