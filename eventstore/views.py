"""What a store must do for the views that follow the log: rows and position in one transaction, one elected writer each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from uuid import UUID

    import sqlalchemy as sa

#: A row's primary key without its generation -> the row, or None where it is dropped.
TableRows = dict[tuple[Any, ...], dict[str, Any] | None]


_COMMON: Final = frozenset({"generation", "view"})


class TurnLostError(Exception):
    """Another process writes this view now, or its live generation is another one (internal: it goes on there)."""

    def __init__(self, view: str) -> None:
        super().__init__(view)
        self.view = view


class Standing(NamedTuple):
    """Where one view stands."""

    name: str
    version: int
    generation: int
    owner: str
    token: int
    alive_until: int
    stopped_at: int | None
    reason: str
    old_until: int | None
    position: int


class Turn(NamedTuple):
    """The right to write one generation of a view, until another takes it."""

    name: str
    generation: int
    token: int


class Rebuilding(NamedTuple):
    """A generation that is being filled beside the live one."""

    name: str
    generation: int
    position: int
    owner: str
    alive_until: int


@dataclass(slots=True)
class ViewWrite:
    """What a batch of events changes in one view; written whole or not at all."""

    before: int  #: the position that the view must be at
    after: int
    rows: dict[sa.Table, TableRows] = field(default_factory=dict)
    states: dict[UUID, str | None] = field(default_factory=dict)
    stop: tuple[int, str] | None = None  #: the position that could not be folded, and why


#: Makes what is to be written, when the store wants it.
Making = Callable[[], ViewWrite]


@dataclass(frozen=True, slots=True)
class Select:
    """Which rows of a view's live generation."""

    table: sa.Table
    equal: Mapping[str, Any] = field(default_factory=dict)
    least: Mapping[str, Any] = field(default_factory=dict)  #: column >= value
    below: Mapping[str, Any] = field(default_factory=dict)  #: column < value
    among: tuple[str, Sequence[Any]] | None = None  #: column, values of which it has one
    behind: tuple[Any, ...] | None = None  #: the columns of *order*, all ascending, > these values
    contains: tuple[str, str] | None = None  #: column, literal text
    order: tuple[str, ...] = ()  #: columns; ``-`` in front: descending
    limit: int | None = None
    skip: int = 0


class Views(Protocol):
    """The views of one store."""

    def standings(self) -> dict[str, Standing]:
        """Every view that was ever followed."""

    def elect(self, versions: Mapping[str, int], owner: str, micros: int) -> dict[str, Turn]:
        """Take these views (name -> version of the code) where nobody else's turn lasts; returns what was got.

        A view whose live generation was filled by other code is left alone.
        """

    def resign(self, turns: Sequence[Turn], owner: str) -> None:
        """Let others take them at once."""

    def write(self, writes: Mapping[Turn, Making], owner: str, micros: int) -> dict[Turn, ViewWrite]:
        """Write them in one transaction, which also keeps the turns for so long; each is made when it is wanted.

        Raises:
            TurnLostError: one of them is somebody else's now; nothing was written.
        """

    def states(self, view: str, generation: int, keys: Sequence[UUID]) -> dict[UUID, str]:
        """What the fold remembers of these keys."""

    # -- rebuild

    def rebuilds(self) -> dict[str, Rebuilding]:
        """The rebuilds that were begun and not finished."""

    def rebuild_begin(self, view: str, version: int, tables: Sequence[sa.Table], owner: str, micros: int) -> Rebuilding:
        """The generation to fill, emptied, and the position to go on behind.

        Raises:
            RebuildRunningError: somebody else's rebuild is alive.
        """

    def rebuild_write(self, work: Rebuilding, write: ViewWrite, micros: int) -> Rebuilding:
        """Write a batch into the new generation and move its position.

        Raises:
            RebuildRunningError: it was taken over.
        """

    def rebuild_switch(
        self, work: Rebuilding, version: int, fold: Callable[[int, int], ViewWrite], keep_micros: int
    ) -> int:
        """Catch up with the live generation by *fold*(behind, upto) and take its place, in one transaction.

        The one before may be dropped after *keep_micros*.  Returns the position.
        """

    def drop(self, view: str, tables: Sequence[sa.Table], limit: int) -> bool:
        """Drop up to *limit* rows a table of generations that nobody reads or fills; True if there may be more."""

    # -- read

    def find(self, view: str, select: Select) -> list[dict[str, Any]]:
        """Rows of the live generation."""

    def count(self, view: str, select: Select, limit: int | None = None) -> int:
        """How many there are, counted up to *limit*."""

    def sums(self, view: str, table: sa.Table, column: str, by: Sequence[str], equal: Mapping[str, Any]) -> list[Any]:
        """Tuples (*by* …, sum of *column*), in the order of *by*."""

    def dump(self, view: str) -> AbstractContextManager[Dump]:
        """Everything of the live generation as it stands at one moment, in the order of the keys."""


class Dump(Protocol):
    """One moment of a view."""

    generation: int
    position: int

    def values(self, table: sa.Table) -> Iterator[tuple[Any, ...]]:
        """Each row's ``dumped`` columns, in the order of the keys; ids as 16 bytes."""


def dumped(table: sa.Table) -> tuple[str, ...]:
    """The columns that a dump holds: those that are not the same for every row of it."""
    return tuple(column.name for column in table.c if column.name not in _COMMON)


def dump_sql(table: sa.Table, where: str = "") -> str:
    """The statement that dumps *table*."""
    names, keys = (", ".join(f'"{name}"' for name in some) for some in (dumped(table), key_columns(table)))
    return f"SELECT {names} FROM {table.name}{where and f' WHERE {where}'} ORDER BY {keys}"


#: How the names begin under which the positions of views stand among the followers'.
VIEW_FOLLOWERS: Final = "joblog.view."


def tracked(view: str, generation: int) -> str:
    """The name under which the position of one generation of a view stands."""
    return f"{VIEW_FOLLOWERS}{view}.{generation}"


def key_columns(table: sa.Table) -> tuple[str, ...]:
    """The primary key without what every view's table has: generation (and view)."""
    return tuple(column.name for column in table.primary_key if column.name not in _COMMON)


def merged(table: sa.Table, old: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
    """*new* over *old*, by the ``fold`` of each column."""
    if old is None:
        return new
    made = dict(new)
    for column in table.c:
        fold = column.info.get("fold")
        if fold == "sum":
            made[column.name] = old[column.name] + new[column.name]
        elif fold == "first":
            made[column.name] = old[column.name]
    return made
