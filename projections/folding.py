"""From events of the log to what they change in a view: decoded once for all views, cut off at what can't be folded."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import orjson
from eventsourcing.persistence import MapperDeserialisationError

from ..domain.errors import UnknownEventError
from ..eventstore.failpoint import failpoint
from ..eventstore.mapper import known_topics
from ..eventstore.views import ViewWrite
from .view import Change, Happened, State, View

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from uuid import UUID

    import sqlalchemy as sa

    from ..eventstore.mapper import OrjsonMapper
    from ..eventstore.store import LoggedEvent
    from ..eventstore.views import Views

States = dict["UUID", "State | None"]
_CACHED = 50_000  #: jobs whose state a follower remembers between batches
_REASON = 500  #: characters


class Unfoldable:
    """An event that stops every view (of newer code), or each that wants its topic (broken bytes)."""

    def __init__(self, topic: str, error: Exception) -> None:
        self.topic, self.error = topic, error

    def stops(self, view: View) -> bool:
        """Whether the view may not go past it."""
        return isinstance(self.error, UnknownEventError) or self.topic in _topics(view)


@cache
def _topics(view: View) -> frozenset[str]:
    return frozenset(cls.TOPIC for cls in view.events)


@cache
def _wanted(views: tuple[View, ...]) -> frozenset[str]:
    return frozenset().union(*(_topics(view) for view in views))


def decode(events: Iterable[LoggedEvent], mapper: OrjsonMapper, views: tuple[View, ...]) -> list[Happened]:
    """What these events say to *views*; what none of them wants is left out, other people's events too.

    An event of ours that this code does not know is never passed over by guess: newer code has to go on (S18).
    """
    wanted, known = _wanted(views), known_topics()
    made: list[Happened] = []
    for position, stream, version, topic, state in events:
        if topic in wanted:
            try:
                made.append(Happened(position, mapper.decode(stream, version, topic, state)))
            except (UnknownEventError, MapperDeserialisationError) as error:
                made.append(Happened(position, Unfoldable(topic, error)))
        elif topic not in known and topic.startswith("joblog."):
            made.append(Happened(position, Unfoldable(topic, UnknownEventError(stream, version, topic))))
    return made


@cache
def _rules(table: sa.Table) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns that are added to, and those that stay."""
    folds = {fold: tuple(c.name for c in table.c if c.info.get("fold") == fold) for fold in ("sum", "first")}
    return folds["sum"], folds["first"]


class Folder:
    """Folds batches into one generation of a view, with what it remembers kept between them."""

    def __init__(self, view: View, views: Views, generation: int) -> None:
        self.view, self._views, self._generation = view, views, generation
        self._cache: States = {}

    def forget(self) -> None:
        """Trust only what is written: the last write may not have been."""
        self._cache = {}

    def fold(self, happened: Sequence[Happened], before: int, after: int) -> ViewWrite:
        """What the events behind *before* change, up to *after* or to the first that can't be folded."""
        write = ViewWrite(before, after)
        mine = self._mine(happened, before, write)
        loaded = self._load({key for _, key in mine})
        for one, key in mine:
            try:
                state, changes = self.view.fold(self._cache[key], one)
            except Exception as error:  # noqa: BLE001 - it stops this view, with position and reason, and nothing else
                _stop(write, one.position, error)
                break
            self._cache[key] = state
            _merge(write, changes)
        failpoint("view.folded")
        for key, was in loaded.items():
            state = self._cache[key]
            if state is not was:
                write.states[key] = None if state is None else orjson.dumps(state).decode()
        return write

    def _mine(self, happened: Sequence[Happened], before: int, write: ViewWrite) -> list[tuple[Happened, UUID]]:
        """The events for this view with their keys, up to the first that can't even be read."""
        view = self.view
        mine: list[tuple[Happened, UUID]] = []
        for one in happened:
            event = one.event
            if one.position <= before or not (type(event) in view.events or _stops(event, view)):
                continue
            try:
                if isinstance(event, Unfoldable):
                    raise event.error  # noqa: TRY301 - told like a fold that fails
                mine.append((one, view.key(event)))
            except Exception as error:  # noqa: BLE001 - as in ``fold``
                _stop(write, one.position, error)
                break
        return mine

    def _load(self, keys: set[UUID]) -> States:
        """What is remembered of these keys before they are folded."""
        if len(self._cache) > _CACHED:
            self._cache = {}
        missing = [key for key in keys if key not in self._cache]
        if missing:
            found = self._views.states(self.view.name, self._generation, missing)
            self._cache |= {key: orjson.loads(found[key]) if key in found else None for key in missing}
        return {key: self._cache[key] for key in keys}


def _stop(write: ViewWrite, position: int, error: Exception) -> None:
    write.after, write.stop = position - 1, (position, _reason(error))


def _merge(write: ViewWrite, changes: Sequence[Change]) -> None:
    for table, key, row in changes:
        rows = write.rows.setdefault(table, {})
        old = rows.get(key)
        if old is None or row is None:
            rows[key] = row
            continue
        sums, firsts = _rules(table)
        rows[key] = {**row, **{name: old[name] + row[name] for name in sums}, **{name: old[name] for name in firsts}}


def _stops(event: Any, view: View) -> bool:
    return isinstance(event, Unfoldable) and event.stops(view)


def _reason(error: Exception) -> str:
    text = f"{type(error).__name__}: {error}"
    return text.replace("\0", "\\0")[:_REASON]
