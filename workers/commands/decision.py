"""What a holder's command decides, and what its append carries besides the events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...domain import storable
from ...domain.errors import InvalidFieldError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from ...domain.job import Job
    from ...domain.lease import Token
    from ...eventstore.append import Append, Delivery, EventRow

Unit = tuple[str, Any]  #: unit key, evidence


class Decision:
    """One command: made again from the start if only the stream's version was in the way."""

    __slots__ = ("_decide", "_finish")

    def __init__(self, decide: Callable[[Job, datetime], Any], finish: Callable[[Append], None] | None = None) -> None:
        self._decide, self._finish = decide, finish

    def check(self) -> None:
        """Refuse what can't be stored, before the job is touched."""

    def decide(self, job: Job, now: datetime) -> None:
        """Let the job decide: events, or why not."""
        self._decide(job, now)

    def finish(self, append: Append) -> None:
        """Put into *append* what goes with its events."""
        if self._finish is not None:
            self._finish(append)


class UnitsDone(Decision):
    """``Held.complete_units``, the one that is made most: an object of its own is cheaper than closures."""

    __slots__ = ("_checkpoint", "_delivery", "_keys", "_token", "_units")

    def __init__(
        self, token: Token, units: Sequence[Unit], checkpoint: dict[str, Any], delivery: Delivery | None
    ) -> None:
        self._token, self._units, self._checkpoint, self._delivery = token, units, checkpoint, delivery

    def check(self) -> None:
        """Keys, evidence, cursor and tallies that every database keeps."""
        self._keys = checked_keys(self._units)
        if (cursor := self._checkpoint.get("cursor")) is not None:
            storable.payload(cursor, "cursor")
        if (tallies := self._checkpoint.get("tallies")) is not None:
            check_tallies(tallies)

    def decide(self, job: Job, now: datetime) -> None:
        """Evidence for each unit, and the checkpoint."""
        job.complete_units(self._token, self._units, now=now, **self._checkpoint)

    def finish(self, append: Append) -> None:
        """The keys, which are unique in the job; the sizes of what was encoded."""
        keys = self._keys
        append.delivery = self._delivery
        append.units = ((keys[0], 0),) if len(keys) == 1 else tuple(zip(keys, range(len(keys)), strict=True))
        for _, _, state in append.events:
            if len(state) > storable.CURSOR_LIMIT:  # seldom
                self._bound(append)
                break

    def _bound(self, append: Append) -> None:
        for key, event in zip(self._keys, append.events, strict=False):  # their events come first
            storable.bounded(event.state, f"evidence of {key}", storable.EVIDENCE_LIMIT)
        bound_checkpoint(append.events[len(self._keys) :])


def checked_keys(units: Sequence[Unit]) -> list[str]:
    """The keys of *units*, each once, with evidence that can be stored."""
    keys: dict[str, None] = {}
    for unit, evidence in units:
        storable.name(unit, "unit")
        storable.payload(evidence, f"evidence of {unit}")
        if unit in keys:
            raise InvalidFieldError("unit", f"{unit!r} twice in one commit", "give each unit a key of its own")
        keys[unit] = None
    return list(keys)


def check_tallies(tallies: Any) -> None:
    """Names and whole numbers."""
    if type(tallies) is not dict:
        raise InvalidFieldError("tallies", f"{type(tallies).__name__} is no object", "give a dictionary of counts")
    storable.payload(tallies, "tallies")
    for what, number in tallies.items():
        storable.name(what, "tally")
        if type(number) is not int:
            raise InvalidFieldError(f"tallies.{what}", f"{number!r} is no whole number", "count in whole numbers")


def bound_checkpoint(events: Sequence[EventRow]) -> None:
    """Every later checkpoint repeats cursor and tallies: they stay small."""
    for event in events:
        storable.bounded(event.state, "checkpoint", storable.CURSOR_LIMIT)
