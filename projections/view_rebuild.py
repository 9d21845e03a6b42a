"""Rebuilding a view beside the live one: whole, or not at all, and resumed where it was killed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..domain.errors import ViewStoppedError
from .folding import Folder, page
from .rebuild import Progress
from .uncollected import uncollected

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..eventstore.mapper import OrjsonMapper
    from ..eventstore.store import Store
    from ..eventstore.views import ViewWrite
    from .view import View

BATCH: Final = 5000  #: events a transaction
CATCH_UP: Final = 500  #: events left over for the switch, at most, when writers allow it
ALIVE_MICROS: Final = 30_000_000  #: without a step for so long a rebuild counts as dead
KEEP_MICROS: Final = 60_000_000  #: how long the generation before stays, for whoever still reads it


def rebuild(
    store: Store,
    mapper: OrjsonMapper,
    view: View,
    owner: str,
    *,
    report: Callable[[Progress], None] = lambda _: None,
) -> int:
    """Fold the whole log into a new generation of *view* and switch to it; returns its position.

    Raises:
        RebuildRunningError: another one is alive, or took this one over.
        ViewStoppedError: an event can't be folded; the live generation stays.
    """
    work = store.views.rebuild_begin(view.name, view.version, view.tables, owner, ALIVE_MICROS)
    folder = Folder(view, store.views, work.generation)

    def fold(behind: int, upto: int, limit: int) -> ViewWrite:
        happened, after = page(store, mapper, (view,), behind, upto, limit)
        write = folder.fold(happened, behind, after)
        if write.stop is not None:
            raise ViewStoppedError(view.name, *write.stop)
        return write

    head = store.head()
    while True:
        if work.position < head:
            with uncollected():
                work = store.views.rebuild_write(work, fold(work.position, head, BATCH), ALIVE_MICROS)
        head = store.head()
        report(Progress(work.position, head))
        if head - work.position <= CATCH_UP:
            break
    return store.views.rebuild_switch(
        work, view.version, lambda behind, upto: fold(behind, upto, max(upto - behind, 1)), KEEP_MICROS
    )


def drop_old(store: Store, view: View, *, limit: int = 5000) -> None:
    """Drop the generations before the live one, a few thousand rows a transaction."""
    while store.views.drop(view.name, view.tables, limit):
        pass
