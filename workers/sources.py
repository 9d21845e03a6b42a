"""Where batches come from: anything that can be read on behind a cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Source(Protocol[T_co]):
    """A sequence of rows in an order that never changes for the same job."""

    def batches(self, size: int, cursor: Any) -> Iterator[tuple[Sequence[T_co], Any]]:
        """Rows behind *cursor* (None: from the start), at most *size* at a time, each with the cursor behind it.

        The cursor is a small JSON value.  The same cursor gives the same rows, in any process.
        """


class ListSource(Generic[T]):
    """Rows that are in memory."""

    def __init__(self, rows: Sequence[T]) -> None:
        self._rows = rows

    def batches(self, size: int, cursor: Any) -> Iterator[tuple[Sequence[T], Any]]:
        """See ``Source``."""
        start = int(cursor or 0)
        while start < len(self._rows):
            rows = self._rows[start : start + size]
            start += len(rows)
            yield rows, start
