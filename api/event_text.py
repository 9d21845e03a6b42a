"""Documents of events and turning points as lines for people, wherever they were made."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ..domain.errors import UnknownEventError
from ..eventstore.mapper import OrjsonMapper, OrjsonTranscoder
from .sentences import sentence
from .text import clean, clock_time

if TYPE_CHECKING:
    Document = dict[str, Any]


def turn_line(turn: Document, now: datetime) -> str:
    """A turning point."""
    return _timed(turn["time"], turn["text"], now)


def _timed(time: str | None, text: str, now: datetime) -> str:
    when = "" if time is None else clock_time(datetime.fromisoformat(time), now)
    return f"{when:>8}  {text}"


class EventText:
    """Says what events say."""

    def __init__(self) -> None:
        self._mapper = OrjsonMapper(OrjsonTranscoder())

    def event_line(self, event: Document, now: datetime) -> str:
        """An event of a job with its place."""
        return f"{event['position']:>8} {event['version']:>6}  {self._said(event, event['job'], now)}"

    def log_line(self, event: Document, now: datetime) -> str:
        """An event of the whole log: which job or queue, and what happened to it."""
        return f"{event['position']:>8}  {event['stream'][:8]}  {self._said(event, event['stream'], now)}"

    def _said(self, event: Document, stream: str, now: datetime) -> str:
        if "archive" in event:
            return _timed(None, f"{clean(event['topic'])}: in archive {clean(event['archive'])}", now)
        own = {"event_id": event["event_id"], "timestamp": event["time"].replace("Z", "+00:00")}
        own |= {name: event[name] for name in ("class_version",) if name in event}
        state = json.dumps(event["data"] | own).encode()
        try:
            made = self._mapper.decode(UUID(stream), event["version"], event["topic"], state)
        except UnknownEventError:
            return _timed(None, f"{clean(event['topic'])}: written by a newer joblog", now)
        return _timed(event["time"], sentence(made, now), now)
