"""Checking a view against the log: everything is folded again, into a file of its own, and compared row by row.

The live rows are read in one transaction, so followers and readers go on meanwhile; only the first and the last digest
need to be believed, the rows in between say where they differ.
"""

from __future__ import annotations

import hashlib
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

import orjson

from ..domain.errors import ViewStoppedError
from ..eventstore.view_schema import view_state
from ..eventstore.view_scratch import Scratch
from ..eventstore.views import dumped, key_columns
from .folding import Folder, page
from .rebuild import Progress
from .uncollected import uncollected

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    import sqlalchemy as sa

    from ..eventstore.mapper import OrjsonMapper
    from ..eventstore.store import Store
    from ..eventstore.views import Dump
    from .view import View

BATCH: Final = 5000
CHUNK: Final = 2000  #: rows compared at once

Page = tuple[list[Any], int]  #: what happened, and how far it reaches
Row = dict[str, Any]
Values = tuple[Any, ...]


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
    with (
        tempfile.TemporaryDirectory(prefix="joblog-verify-") as folder,
        closing(Scratch(Path(folder) / "fold.db", view.name, view.tables)) as scratch,
    ):
        folding = Folder(view, scratch, scratch.generation)

        def advance(pages: Iterator[Page]) -> None:
            happened, after = next(pages)
            write = folding.fold(happened, scratch.position, after)
            if write.stop is not None:
                raise ViewStoppedError(view.name, *write.stop)
            scratch.write(write)

        def upto(position: int) -> None:
            with closing(_pages(store, mapper, view, scratch.position, position)) as pages:
                while scratch.position < position:
                    with uncollected():
                        advance(pages)
                    report(Progress(scratch.position, position))

        first = store.views.standings().get(view.name)
        upto(first.position if first else 0)
        with store.views.dump(view.name) as live:
            upto(live.position)
            return _compare(view, live, scratch, found)


def _pages(store: Store, mapper: OrjsonMapper, view: View, after: int, upto: int) -> Generator[Page, None, None]:
    """Pages of the log; of a server's, the next one comes while this one is folded."""

    def read(after: int) -> Page:
        return page(store, mapper, (view,), after, upto, BATCH)

    if store.dialect != "postgresql":
        while after < upto:
            happened, after = read(after)
            yield happened, after
        return
    with ThreadPoolExecutor(1, thread_name_prefix="joblog-verify") as reader:
        try:
            coming = reader.submit(read, after)
            while after < upto:
                happened, after = coming.result()
                if after < upto:
                    coming = reader.submit(read, after)
                yield happened, after
        finally:
            reader.submit(store.release_thread).result()


def _compare(view: View, live: Dump, made: Dump, found: Callable[[RowDifference], None]) -> Verified:
    digests = [hashlib.sha256()]  # one for both sides, for as long as they are the same
    rows = differences = 0
    for table in (*view.tables, view_state):
        for digest in digests:
            digest.update(table.name.encode())
        left, right = _canonical(table, live), _canonical(table, made)
        while True:
            with uncollected():
                stored, folded = list(islice(left, CHUNK)), list(islice(right, CHUNK))
                if stored == folded:  # nearly always: as many rows as that are one comparison and one text
                    if not stored:
                        break
                    rows += len(stored)
                    said = _said(stored)
                    for digest in digests:
                        digest.update(said)
                    continue
            left, right = chain(stored, left), chain(folded, right)
            digests = digests if len(digests) > 1 else [digests[0], digests[0].copy()]
            for key, ours, theirs in _side_by_side(table, left, right):
                rows += ours is not None
                for digest, row in zip(digests, (ours, theirs), strict=True):
                    digest.update(b"" if row is None else _said([row]))
                if ours != theirs:
                    differences += 1
                    named = _named(table, key) or {}
                    found(RowDifference(table.name, tuple(named.values()), _named(table, ours), _named(table, theirs)))
            break
    return Verified(live.position, rows, differences, digests[0].hexdigest(), digests[-1].hexdigest())


def _said(rows: list[Values]) -> bytes:
    """The rows as JSON, each with a comma behind it: the same text however they come in."""
    return orjson.dumps(rows, default=bytes.hex)[1:-1] + b","


def _side_by_side(
    table: sa.Table, left: Iterator[Values], right: Iterator[Values]
) -> Iterator[tuple[Values, Values | None, Values | None]]:
    """Both sides in the order of their keys, each key once."""
    keys = len(key_columns(table))  # they come first
    stored, folded = next(left, None), next(right, None)
    while stored is not None or folded is not None:
        if folded is None or (stored is not None and stored[:keys] < folded[:keys]):
            assert stored is not None  # noqa: S101 - else both were None
            yield stored[:keys], stored, None
            stored = next(left, None)
        elif stored is None or folded[:keys] < stored[:keys]:
            yield folded[:keys], None, folded
            folded = next(right, None)
        else:
            yield stored[:keys], stored, folded
            stored, folded = next(left, None), next(right, None)


def _canonical(table: sa.Table, dump: Dump) -> Iterator[Values]:
    if table is not view_state:
        return dump.values(table)
    # The same memory may be written in another order.
    return (
        (key, orjson.dumps(orjson.loads(state), option=orjson.OPT_SORT_KEYS).decode())
        for key, state in dump.values(table)
    )


def _named(table: sa.Table, values: Values | None) -> Row | None:
    """The columns by their names, ids as such."""
    if values is None:
        return None
    named = dict(zip(dumped(table), values, strict=False))
    return {name: UUID(bytes=value) if isinstance(value, bytes) else value for name, value in named.items()}
