"""Checking a view against the log: everything is folded again, into a file of its own, and compared row by row.

The live rows are read in one transaction, so followers and readers go on meanwhile; only the first and the last digest
need to be believed, the rows in between say where they differ.
"""

from __future__ import annotations

import hashlib
import tempfile
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from ..domain.errors import ViewStoppedError
from ..eventstore.opening import open_store
from ..eventstore.view_schema import view_state
from ..eventstore.views import key_columns
from .folding import Folder, bare, decode
from .rebuild import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import sqlalchemy as sa

    from ..eventstore.mapper import OrjsonMapper
    from ..eventstore.store import Store
    from ..eventstore.views import Dump
    from .view import View

BATCH: Final = 5000
_OWNER: Final = "verify"
_LONG: Final = 2**52  #: nobody else writes the scratch file

Row = dict[str, Any]


class RowDifference(NamedTuple):
    """A row that is not what the log says."""

    table: str
    key: tuple[Any, ...]
    stored: Row | None  #: None: it is missing
    folded: Row | None  #: None: it should not be there

    @property
    def columns(self) -> list[str]:
        """The columns that differ; all of them where the row is on one side only."""
        stored, folded = self.stored or {}, self.folded or {}
        return [name for name in (folded or stored) if stored.get(name) != folded.get(name)]


class Verified(NamedTuple):
    """What a verification found."""

    position: int
    rows: int
    differences: int
    stored_digest: str
    folded_digest: str


def verify(
    store: Store,
    mapper: OrjsonMapper,
    view: View,
    *,
    report: Callable[[Progress], None] = lambda _: None,
    found: Callable[[RowDifference], None] = lambda _: None,
) -> Verified:
    """Fold the log up to the view's position and compare; *found* is told each row that differs.

    Raises:
        ViewStoppedError: an event before the view's position can't be folded by this code.
    """
    with tempfile.TemporaryDirectory(prefix="joblog-verify-") as folder:
        scratch = open_store(f"sqlite:///{folder}/fold.db")
        try:
            fold = _Fold(store, mapper, view, scratch)
            first = store.views.standings().get(view.name)
            fold.upto(first.position if first else 0, report)
            with store.views.dump(view.name) as live:
                fold.upto(live.position, report)
                with scratch.views.dump(view.name) as made:
                    return _compare(view, live, made, found)
        finally:
            scratch.close()


class _Fold:
    """The log folded into a scratch file."""

    def __init__(self, store: Store, mapper: OrjsonMapper, view: View, scratch: Store) -> None:
        self._store, self._mapper, self._view, self._views = store, mapper, view, scratch.views
        self._turn = scratch.views.elect({view.name: view.version}, _OWNER, _LONG)[view.name]
        self._folder = Folder(view, scratch.views, self._turn.generation)
        self._position = 0

    def upto(self, position: int, report: Callable[[Progress], None]) -> None:
        while self._position < position:
            batch = self._store.log(self._position, BATCH, upto=position, bare=bare((self._view,)))
            happened = decode(batch, self._mapper, (self._view,))
            write = self._folder.fold(happened, self._position, batch[-1].position)
            if write.stop is not None:
                raise ViewStoppedError(self._view.name, *write.stop)
            self._views.write([(self._turn, write)], _OWNER, _LONG)
            self._position = write.after
            report(Progress(self._position, position))


def _compare(view: View, live: Dump, made: Dump, found: Callable[[RowDifference], None]) -> Verified:
    digests = hashlib.sha256(), hashlib.sha256()
    rows = differences = 0
    for table in (*view.tables, view_state):
        for key, stored, folded in _side_by_side(table, live, made):
            for digest, row in zip(digests, (stored, folded), strict=True):
                if row is not None:
                    digest.update(orjson.dumps([table.name, *row.values()]))
            rows += stored is not None
            if stored != folded:
                differences += 1
                found(RowDifference(table.name, key, stored, folded))
    return Verified(live.position, rows, differences, digests[0].hexdigest(), digests[1].hexdigest())


def _side_by_side(table: sa.Table, live: Dump, made: Dump) -> Iterator[tuple[Any, Row | None, Row | None]]:
    """Both sides in the order of their keys, each key once."""
    names = key_columns(table)
    left, right = _keyed(table, names, live), _keyed(table, names, made)
    stored, folded = next(left, None), next(right, None)
    while stored is not None or folded is not None:
        if folded is None or (stored is not None and stored[0] < folded[0]):
            assert stored is not None  # noqa: S101 - else both were None
            yield stored[0], stored[1], None
            stored = next(left, None)
        elif stored is None or folded[0] < stored[0]:
            yield folded[0], None, folded[1]
            folded = next(right, None)
        else:
            yield stored[0], stored[1], folded[1]
            stored, folded = next(left, None), next(right, None)


def _keyed(table: sa.Table, names: tuple[str, ...], dump: Dump) -> Iterator[tuple[tuple[Any, ...], Row]]:
    for row in dump.rows(table):
        if table is view_state:  # the same memory may be written in another order
            row["state"] = orjson.dumps(orjson.loads(row["state"]), option=orjson.OPT_SORT_KEYS).decode()
        yield tuple(row[name] for name in names), row
