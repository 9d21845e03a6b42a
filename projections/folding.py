"""From events of the log to what they change in a view: decoded once for all views, cut off at what can't be folded."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

import orjson
from eventsourcing.persistence import MapperDeserialisationError

from ..domain.errors import UnknownEventError
from ..eventstore.clock import micros
from ..eventstore.failpoint import failpoint
from ..eventstore.mapper import known_topics
from ..eventstore.views import ViewWrite
from .view import BY_STREAM, Happened, State, View

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from uuid import UUID

    import sqlalchemy as sa

    from ..eventstore.mapper import OrjsonMapper
    from ..eventstore.store import LoggedEvent, Store
    from ..eventstore.views import TableRows

#: By the key as a number: an id's hash is worked out in Python, each time.
States = dict[int, "State | None"]
#: What is remembered of one key while a batch is folded, and the key.
Slot = list[Any]
_CACHED = 50_000  #: jobs whose state a follower remembers between batches
_REASON = 500  #: characters
_SPAN = 10  #: times as many positions as events are looked through in one statement: it must end within a transaction's time


class Remembering(Protocol):
    """Where a view keeps what it remembers."""

    def states(self, view: str, generation: int, keys: Sequence[UUID]) -> dict[UUID, str]:
        """See ``Views``."""


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


@cache
def _unread(views: tuple[View, ...]) -> tuple[str, ...]:
    """Topics that this code knows and none of *views* wants: the database may keep them, big bodies and all."""
    return tuple(sorted(known_topics() - _wanted(views)))


def page(
    store: Store, mapper: OrjsonMapper, views: tuple[View, ...], behind: int, upto: int, limit: int
) -> tuple[list[Happened], int]:
    """What the log says to *views* behind a position, in one read, and up to which position that is all."""
    upto = min(upto, behind + limit * _SPAN)
    batch = store.log(behind, limit, upto=upto, without=_unread(views))
    return decode(batch, mapper, views), batch[-1].position if len(batch) == limit else upto


def decode(events: Iterable[LoggedEvent], mapper: OrjsonMapper, views: tuple[View, ...]) -> list[Happened]:
    """What these events say to *views*; what none of them wants is left out, other people's events too.

    An event of ours that this code does not know is never passed over by guess: newer code has to go on (S18).
    """
    wanted, known = _wanted(views), known_topics()
    made: list[Happened] = []
    for position, stream, version, topic, state in events:
        if topic in wanted:
            try:
                event = mapper.decode(stream, version, topic, state)
                made.append(Happened(position, micros(event.timestamp), event))
            except (UnknownEventError, MapperDeserialisationError) as error:
                made.append(Happened(position, 0, Unfoldable(topic, error)))
        elif topic not in known and topic.startswith("joblog."):
            made.append(Happened(position, 0, Unfoldable(topic, UnknownEventError(stream, version, topic))))
    return made


@cache
def _rules(table: sa.Table) -> tuple[tuple[str, ...], ...]:
    """The columns that are added to, and those that stay; nothing if there are none."""
    found = tuple(tuple(c.name for c in table.c if c.info.get("fold") == fold) for fold in ("sum", "first"))
    return found if any(found) else ()


class Folder:
    """Folds batches into one generation of a view, with what it remembers kept between them."""

    def __init__(self, view: View, views: Remembering, generation: int) -> None:
        self.view, self._views, self._generation = view, views, generation
        self._cache: States = {}

    def forget(self) -> None:
        """Trust only what is written: the last write may not have been."""
        self._cache = {}

    def fold(self, happened: Sequence[Happened], before: int, after: int) -> ViewWrite:
        """What the events behind *before* change, up to *after* or to the first that can't be folded."""
        write = ViewWrite(before, after)
        slots: dict[int, Slot] = {}
        mine = self._mine(happened, before, write, slots)
        self._load(slots)
        fold, merging = self.view.fold, {table: _rules(table) for table in self.view.tables}
        rows: dict[sa.Table, TableRows] = {table: {} for table in merging}
        for one, slot in mine:
            try:
                slot[0], changes = fold(slot[0], one)
            except Exception as error:  # noqa: BLE001 - it stops this view, with position and reason, and nothing else
                _stop(write, one.position, error)
                break
            for table, key, row in changes:
                if row is not None and merging[table] and (old := rows[table].get(key)) is not None:
                    _add(row, old, *merging[table])
                rows[table][key] = row
        write.rows = {table: made for table, made in rows.items() if made}
        failpoint("view.folded")
        cache, states = self._cache, write.states
        for number, (state, key) in slots.items():
            if state is not cache[number]:
                cache[number] = state
                states[key] = None if state is None else orjson.dumps(state).decode()
        return write

    def _mine(
        self, happened: Sequence[Happened], before: int, write: ViewWrite, slots: dict[int, Slot]
    ) -> list[tuple[Happened, Slot]]:
        """The events for this view, each with the slot of what is remembered; up to the first that can't be read."""
        key_of, events = self.view.key, self.view.events
        by_stream = key_of is BY_STREAM
        mine: list[tuple[Happened, Slot]] = []
        for one in happened:
            event = one.event
            if type(event) in events:
                if one.position <= before:
                    continue
                try:
                    key = key_of(event)
                except Exception as error:  # noqa: BLE001 - as in ``fold``
                    _stop(write, one.position, error)
                    break
                slot = slots.get(key.int)
                if slot is None:
                    slot = slots[key.int] = [None, key]
                    if by_stream and event.originator_version == 1:
                        self._cache.setdefault(key.int, None)  # a stream that begins: nothing can be remembered of it
                mine.append((one, slot))
            elif type(event) is Unfoldable and one.position > before and event.stops(self.view):
                _stop(write, one.position, event.error)
                break
        return mine

    def _load(self, slots: dict[int, Slot]) -> None:
        """Fill the slots with what is remembered before."""
        if len(self._cache) > _CACHED:
            self._cache = {}
        cache = self._cache
        missing = [key for number, (_, key) in slots.items() if number not in cache]
        if missing:
            found = self._views.states(self.view.name, self._generation, missing)
            for key in missing:
                cache[key.int] = orjson.loads(found[key]) if key in found else None
        for number, slot in slots.items():
            slot[0] = cache[number]


def _stop(write: ViewWrite, position: int, error: Exception) -> None:
    write.after, write.stop = position - 1, (position, reason_of(error))


def _add(row: dict[str, Any], old: dict[str, Any], sums: Iterable[str], firsts: Iterable[str]) -> None:
    for name in sums:
        row[name] += old[name]
    for name in firsts:
        row[name] = old[name]


def reason_of(error: Exception) -> str:
    """Why a view stands still, as every store can keep it."""
    text = f"{type(error).__name__}: {error}"
    return text.replace("\0", "\\0")[:_REASON]
