"""What a view is: a pure function from (what it remembers, an event) to (what it remembers then, changes of rows).

Nothing else goes in: no clock, no look into a table.  So the follower, the rebuild and the verification are one
function, and rows at position p are the fold of the events 1..p, however they were cut into batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    import sqlalchemy as sa

State = dict[str, Any]


class Happened(NamedTuple):
    """An event of the log with its place and instant."""

    position: int
    at: int  #: microseconds since 1970
    event: Any


class Change(NamedTuple):
    """A row to merge into a table, by its key without the generation; None drops it."""

    table: sa.Table
    key: tuple[Any, ...]
    row: dict[str, Any] | None


Folded = tuple["State | None", "Sequence[Change]"]


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
    key: Callable[[Any], UUID] = attrgetter("originator_id")


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
