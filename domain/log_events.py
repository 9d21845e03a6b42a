"""What happens to the log itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from eventsourcing.domain import AggregateEvent

from . import identity
from .making import made

if TYPE_CHECKING:
    from datetime import datetime


class LogEvent(AggregateEvent):
    """What all events of the log's own stream carry."""

    VOCABULARY: ClassVar[int] = 1
    event_id: str


class EpochRaised(LogEvent):
    """The log was restored or failed over: every lease and cursor of an older epoch is void."""

    TOPIC = "joblog.log.epoch-raised"

    epoch: int
    actor: str
    reason: str

    @classmethod
    def made(cls, version: int, at: datetime, *, epoch: int, actor: str, reason: str) -> Self:
        """The event, at *version* of the log's own stream."""
        return made(cls, identity.LOG_STREAM, version, at, epoch=epoch, actor=actor, reason=reason)


class Archived(LogEvent):
    """The bodies of finished streams lie in an archive from here on, and not in the log."""

    TOPIC = "joblog.log.archived"

    name: str
    first: int  #: of the range of positions in which they lie
    last: int
    events: int  #: how many
    streams: int
    digest: str  #: SHA-256 of the archive's manifest
    rows: str  #: SHA-256 over what the log keeps of these events: positions, streams, versions and topics
    actor: str

    @classmethod
    def made(cls, version: int, at: datetime, **fields: Any) -> Self:
        """The event, at *version* of the log's own stream."""
        return made(cls, identity.LOG_STREAM, version, at, **fields)


ALL: Final = (EpochRaised, Archived)
