"""What a view is: a pure function from (what it remembers, an event) to (what it remembers then, changes of rows).

Nothing else goes in: no clock, no look into a table.  So the follower, the rebuild and the verification are one
function, and rows at position p are the fold of the events 1..p, however they were cut into batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from . import job_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    import sqlalchemy as sa

State = dict[str, Any]


class Happened:
    """An event of the log with its place and instant."""

    __slots__ = ("_says", "at", "event", "position")

    def __init__(self, position: int, at: int, event: Any) -> None:
        self.position = position
        self.at = at  #: microseconds since 1970
        self.event = event
        self._says: job_table.Row | None = None

    @property
    def says(self) -> job_table.Row:
        """What the event says of the job's row: worked out once for all views, so nobody may change it."""
        if self._says is None:
            self._says = job_table.change(self.event)
        return self._says


#: A table, a key of it without the generation, and the row to merge there; None drops it.  Of a table with columns that
#: are added to, the row belongs to whoever merges it.  A plain tuple: views make millions of them.
Change = tuple["sa.Table", tuple[Any, ...], "dict[str, Any] | None"]
Folded = tuple["State | None", "Sequence[Change]"]


#: The key of what is remembered, unless a view says otherwise.
BY_STREAM: Final[Callable[[Any], UUID]] = attrgetter("originator_id")


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """A view by its name; *version* counts up when its rows mean something else, and then it is rebuilt.

    *fold* is only called for *events*; what it remembers is kept by *key*.
    """

    name: str
    version: int
    tables: tuple[sa.Table, ...]
    events: frozenset[type[Any]]
    fold: Callable[[State | None, Happened], Folded]
    key: Callable[[Any], UUID] = BY_STREAM


class NeverSubmittedError(Exception):
    """An event of a job whose first event was not seen (internal: it stops the view)."""


def remembered(state: State | None, happened: Happened) -> State:
    """What is remembered of a job that must have been submitted before."""
    if state is None:
        event = happened.event
        raise NeverSubmittedError(
            f"job {event.originator_id} has {event.TOPIC} at version {event.originator_version}, and was not submitted"
        )
    return state
