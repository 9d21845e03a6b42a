"""What happens to the log itself."""

from __future__ import annotations

from typing import ClassVar, Final

from eventsourcing.domain import AggregateEvent


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


ALL: Final = (EpochRaised,)
