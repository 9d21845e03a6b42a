"""An append as data: what is to be written together, and what must hold for it.

The writer takes many of them into one transaction, and can run each alone if the batch fails; nothing in here is code.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from uuid import UUID

    from ..domain.lease import Token


class EventRow(NamedTuple):
    """One event as stored, without its position."""

    version: int
    topic: str
    state: bytes


class Grant(NamedTuple):
    """A lease row to insert; its end is *micros* after the store's lease clock at the append."""

    token: Token
    worker: str
    micros: int
    queue: str
    gate: str
    exclusive_key: str
    presence: str = ""


class Fence(NamedTuple):
    """The lease under which the append is made: this token, and not expired.

    *renew* > 0 also moves the lease's end so many microseconds ahead; *end* deletes the row.
    """

    token: Token
    renew: int = 0
    end: bool = False


class Takeover(NamedTuple):
    """Ends a lease that is expired by the store's clock under the row's lock, or whose holder is proven dead."""

    token: Token
    proven: bool = False


class Receipt(NamedTuple):
    """The answer to a command, kept under its request id in the same commit."""

    request_id: str
    action: str
    target: str
    actor: str
    answer: str


class Delivery(NamedTuple):
    """What became of a webhook's record (see ``webhooks``); one that was sent sheds its body."""

    seq: int
    state: str
    code: str
    settled_at: int


@dataclass(slots=True)
class Append:
    """Events for the end of one stream, with the rows that change in the same commit.

    The stream must be at ``expected``; ``event_id`` is the id of the first event, by which a second send after an
    unknown outcome recognises the first.  An empty id recognises nothing.
    """

    stream_id: UUID
    expected: int
    events: list[EventRow]
    event_id: str
    row: dict[str, Any] = field(default_factory=dict)  #: changes of the job's row; empty for other streams
    fence: Fence | None = None
    grant: Grant | None = None
    takeover: Takeover | None = None
    units: tuple[tuple[str, int], ...] = ()  #: unit key, index of its event in ``events``
    evidence: int | None = None  #: how many unit results must be stored before a job may complete
    receipt: Receipt | None = None
    queue_row: dict[str, Any] | None = None  #: the queue's row, for a queue's stream
    gate_row: dict[str, Any] | None = None  #: what an operator does to a gate, for a gate's stream (see ``gate_sql``)
    delivery: Delivery | None = None  #: the record whose receipt the events are
    tracking: tuple[str, int] | None = None  #: a follower that moves to this position, if it is not there yet

    @property
    def is_hot(self) -> bool:
        """Whether this is a plain unit commit: fenced, no lease change, only the columns that units move.

        Those that a unit sets to 0 are no part of its hot form, so they must be 0.
        """
        row = self.row
        return (
            row.keys() == HOT
            and self.fence is not None
            and not self.fence.end
            and self.grant is None
            and self.receipt is None
            and self.tracking is None
            and not row["crashes"]
            and not row["unit_attempt"]
        )


#: The columns that a plain unit commit moves.
HOT = frozenset({"version", "updated_at", "done", "unit_attempt", "sequence", "cursor", "crashes"})
#: What it writes into them, but for those that it sets to 0.
HOT_VALUES = itemgetter("version", "updated_at", "done", "sequence", "cursor")


class Stored(NamedTuple):
    """An append that is in the log: the position of its first event."""

    position: int
