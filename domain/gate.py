"""What operators did to a provider's gate, in a stream of its own; what jobs did stands in theirs."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final

from eventsourcing.domain import AggregateEvent

from . import identity, storable
from .making import made

if TYPE_CHECKING:
    from typing import Self

    from .job import Actor


class GateEvent(AggregateEvent):
    """What all events of a gate carry."""

    VOCABULARY: ClassVar[int] = 1
    INSTANTS: ClassVar[tuple[str, ...]] = ()

    event_id: str
    gate: str
    actor: str
    request_id: str
    text: str

    @classmethod
    def made(cls, gate: str, version: int, at: datetime, actor: Actor, **fields: Any) -> Self:
        """The event, at *version* of the gate's stream."""
        said = {"actor": actor.name, "request_id": actor.request_id, "text": storable.text(actor.text)}
        return made(cls, identity.gate_stream(gate), version, at, gate=gate, **said, **fields)


class GateLimited(GateEvent):
    """An operator set how many requests pass at once, and how far apart; what the code declares no longer counts."""

    TOPIC = "joblog.gate.limited"

    slots: int | None
    spacing: int  #: microseconds


class GateClosed(GateEvent):
    """An operator closed it: nothing passes before ``until``."""

    TOPIC = "joblog.gate.closed"
    INSTANTS = ("until",)

    until: datetime


class GateOpened(GateEvent):
    """An operator opened it, whatever the provider had said."""

    TOPIC = "joblog.gate.opened"


ALL: Final = (GateLimited, GateClosed, GateOpened)
