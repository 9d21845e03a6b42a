"""Named consumers: positions that the log keeps for its readers, which only move forward.

What was read and not committed comes again, what was committed never does.  Two that use one name at once are told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...domain import storable
from ...domain.errors import ConsumerMovedError, ConsumerNotFoundError
from ...eventstore.proof_rows import ConsumerRow, proof_rows
from .pages import PAGE, Cursor, read_page
from .pages import rejoin as common_place

if TYPE_CHECKING:
    from typing import Self

    from ...eventstore.store import Store
    from .pages import Filter, Page


class Consumer:
    """One reader of the log under its name."""

    def __init__(self, store: Store, row: ConsumerRow) -> None:
        self._store, self._row = store, row
        self.cursor = self.committed  #: all up to here was read

    @classmethod
    def open(cls, store: Store, name: str, *, at_end: bool = False) -> Self:
        """Go on where *name* has committed; a new one begins at the log's beginning, or at its end."""
        name, rows = storable.name(name, "consumer"), proof_rows(store)
        row = rows.consumer(name)
        if row is None:
            state = store.state()
            row = ConsumerRow(name, state.epoch, state.head if at_end else 0, store.now())
            if not rows.move_consumer(None, row):
                row = _there(store, name)
        return cls(store, row)

    @property
    def name(self) -> str:
        """What it is called."""
        return self._row.name

    @property
    def committed(self) -> Cursor:
        """How far it has committed."""
        return Cursor(self._row.epoch, self._row.position)

    def read(self, *, only: Filter | None = None, limit: int = PAGE) -> Page:
        """The page behind the last one that was read.

        Raises:
            LogRewoundError: the log is not the one that this consumer has read; see ``rejoin``.
        """
        page = read_page(self._store, self.cursor, only=only, limit=limit)
        self.cursor = page.cursor
        return page

    def commit(self, cursor: Cursor | None = None) -> None:
        """Never ask for anything up to *cursor* again; by default up to what was read.  Safe to repeat.

        Raises:
            ConsumerMovedError: it would move back, or somebody else has moved this consumer.
            LogRewoundError: the log is in another epoch by now.
        """
        goal = cursor or self.cursor
        if goal == self.committed:
            return
        if goal < self.committed:
            raise ConsumerMovedError(f"consumer {self.name!r} is at {self.committed}; it does not move back to {goal}")
        read_page(self._store, goal, limit=1)  # which refuses a cursor that is not of this log
        self._move(goal)

    def rejoin(self) -> Cursor:
        """After the log was put back: go on where the two are still the same.  The only way back, and an explicit one."""
        self._move(common_place(self._store, self.committed))
        self.cursor = self.committed
        return self.committed

    def _move(self, goal: Cursor) -> None:
        row = ConsumerRow(self.name, *goal, self._store.now())
        if not proof_rows(self._store).move_consumer(self._row, row):
            there = _there(self._store, self.name)
            if there[:3] != row[:3]:  # else it was our own commit, whose answer was lost
                text = f"consumer {self.name!r} is at {there.epoch}:{there.position}, moved by somebody else"
                raise ConsumerMovedError(f"{text}; open it again, and use one name in one place")
        self._row = row


def _there(store: Store, name: str) -> ConsumerRow:
    row = proof_rows(store).consumer(name)
    if row is None:
        raise ConsumerNotFoundError(f"there is no consumer {name!r}; see `joblog consumers`")
    return row


def find(store: Store, name: str) -> Consumer:
    """A consumer that is there.

    Raises:
        ConsumerNotFoundError: there is none of this name.
    """
    return Consumer(store, _there(store, name))


class Lag(NamedTuple):
    """How far a consumer is."""

    name: str
    cursor: Cursor
    behind: int  #: events
    moved_at: int  #: microseconds since 1970
    is_rewound: bool  #: its cursor is of another epoch, or behind the log's end


def lags(store: Store) -> list[Lag]:
    """Every consumer, by name."""
    state = store.state()
    return [
        Lag(
            row.name,
            Cursor(row.epoch, row.position),
            max(state.head - row.position, 0),
            row.moved_at,
            row.epoch != state.epoch or row.position > state.head,
        )
        for row in proof_rows(store).consumers()
    ]


def drop(store: Store, name: str) -> None:
    """Forget a consumer.

    Raises:
        ConsumerNotFoundError: there is none of this name.
    """
    if not proof_rows(store).drop_consumer(name):
        raise ConsumerNotFoundError(f"there is no consumer {name!r}; see `joblog consumers`")
