"""Pages of the log behind a cursor: in order, without gaps, and a loud no where the log is not the one the cursor is of.

Nothing is buffered for a reader, so none can be overrun: who is slow only has a longer way to the high-water mark.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from ...domain.errors import InvalidFieldError, LogRewoundError
from ...eventstore.proof_rows import proof_rows
from ...eventstore.store import Reading
from ..proof.tree import given_up_behind

if TYPE_CHECKING:
    from typing import Self
    from uuid import UUID

    from ...eventstore.store import LoggedEvent, Store

PAGE: Final = 500


class Cursor(NamedTuple):
    """A place in the log: all up to *position* was read, while the log was in *epoch*."""

    epoch: int
    position: int

    def __str__(self) -> str:
        return f"{self.epoch}:{self.position}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``epoch:position``.

        Raises:
            InvalidFieldError: it is something else.
        """
        epoch, colon, position = text.partition(":")
        if not colon or not epoch.isdecimal() or not position.isdecimal():
            raise InvalidFieldError("cursor", f"{text[:40]!r} is no cursor", "give epoch:position, as a page said it")
        return cls(int(epoch), int(position))


class Page(NamedTuple):
    """Some events, and where the next page begins.

    Where a body is in an archive that is not at hand, ``bodies.archive_of`` tells which.
    """

    events: list[LoggedEvent]
    cursor: Cursor
    high_water: int  #: the log's last position when the page was read; no earlier one can still appear

    @property
    def is_last(self) -> bool:
        """Whether there was no more."""
        return self.cursor.position >= self.high_water


@dataclass(slots=True)
class Filter:
    """Which events are wanted.  A page moves on over the others, so the cursor is that of the whole log."""

    topics: tuple[str, ...] = ()
    job: UUID | None = None
    tenant: str | None = None
    _tenants: dict[UUID, str | None] = field(default_factory=dict)

    def kept(self, store: Store, events: list[LoggedEvent]) -> list[LoggedEvent]:
        """Those of *events* that are wanted."""
        if self.tenant is not None:
            self._learn(store, {event.stream_id for event in events} - self._tenants.keys())
        return [event for event in events if self._keeps(event)]

    def _keeps(self, event: LoggedEvent) -> bool:
        return (
            (not self.topics or event.topic in self.topics)
            and self.job in {None, event.stream_id}
            and (self.tenant is None or self._tenants[event.stream_id] == self.tenant)
        )

    def _learn(self, store: Store, streams: set[UUID]) -> None:
        """A job never changes its tenant; queues, and the log itself, have none."""
        if len(self._tenants) > 100 * PAGE:
            self._tenants.clear()
        rows = store.jobs(list(streams))
        self._tenants |= {stream: rows[stream]["tenant"] if stream in rows else None for stream in streams}


def read_page(store: Store, after: Cursor, *, only: Filter | None = None, limit: int = PAGE) -> Page:
    """The next page: a function of the cursor and the filter.  It may be empty and not the last.

    Raises:
        LogRewoundError: the log is not the one that the cursor is of; ``rejoin`` tells where both are the same.
    """
    while True:
        state = store.state()
        _check(store, after, state.epoch, state.head)
        page = _page(store, after, state.head, only or Filter(), limit)
        if store.state().epoch == state.epoch:
            return page


def _page(store: Store, after: Cursor, head: int, only: Filter, limit: int) -> Page:
    epoch, position = after
    if only.job is not None:
        found = proof_rows(store).stream_log(only.job, position, head, limit, Reading.TOLD)
    else:
        found = store.log(position, limit, upto=head, topics=only.topics, reading=Reading.TOLD)
    reached = found[-1].position if len(found) >= limit else head
    return Page(only.kept(store, found), Cursor(epoch, reached), head)


def _check(store: Store, after: Cursor, epoch: int, head: int) -> None:
    if after.epoch == epoch and after.position <= head:
        return
    if after.epoch < epoch:
        behind = given_up_behind(store, after.epoch)
        same = min(after.position, head if behind is None else behind)
        text = f"the log is in epoch {epoch}, the cursor {after} is of an older one: up to {same} both are the same"
    else:
        text = f"the log ends at {epoch}:{head}, before the cursor {after}: it was put back"
    raise LogRewoundError(f"{text}; events behind that may be others now, or gone")


def rejoin(store: Store, cursor: Cursor) -> Cursor:
    """The last place that the log of *cursor* and the present one have in common, as far as its epochs tell.

    Only heads, or hashes of one's own, prove that (``joblog.projections.proof``).
    """
    state = store.state()
    behind = given_up_behind(store, cursor.epoch)
    return Cursor(state.epoch, min(cursor.position, state.head if behind is None else behind))
