"""What touches security: refusals of the guard, apart from what a job says of itself (SSR-07)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, Self

from eventsourcing.domain import AggregateEvent

from .making import made

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID


class EgressRefused(AggregateEvent):
    """A destination that requests may not go to.  Each is a stream of its own: they never wait for each other."""

    TOPIC = "joblog.security.egress-refused"
    VOCABULARY: ClassVar[int] = 1

    event_id: str
    category: str
    action: str  #: what was tried: request
    source: str  #: what refused it: guard
    severity: str
    refusal: str  #: which rule: scheme, port, name, address, …
    actor: str  #: the job, where one is known
    detail: str  #: one line, bounded
    missed: int  #: how many before this one were not written, because too many came at once

    @classmethod
    def made(cls, stream: UUID, at: datetime, *, refusal: str, actor: str, detail: str, missed: int) -> Self:
        """The event, first and only one of *stream*."""
        fixed = {"category": "ssrf", "action": "request", "source": "guard", "severity": "warning"}
        return made(cls, stream, 1, at, **fixed, refusal=refusal, actor=actor, detail=detail, missed=missed)


ALL: Final = (EgressRefused,)
