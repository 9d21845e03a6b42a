"""Making an event from fields that are known to be right.

The library's ``__init__`` looks at each field of each event again (7 µs, not 2); ``test_events`` has its checks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from eventsourcing.domain import DomainEvent

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

E = TypeVar("E", bound=DomainEvent)


def made(event_class: type[E], stream: UUID, version: int, at: datetime, **fields: Any) -> E:
    """An event (or a snapshot) at *version* of *stream*."""
    event = object.__new__(event_class)
    vars(event).update(originator_id=stream, originator_version=version, timestamp=at, **fields)
    return event
