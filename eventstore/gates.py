"""What passes a provider's gate, and when: one decision for every store, made under the lock of the gate's row.

A gate has slots (how many requests are under way at once), a spacing (how far apart they are let go) and an instant until
which it is closed.  A slot belongs to a job's lease, so it is free when that lease is: given back, expired, or taken back
from a holder that is proven dead.  All instants are the store's, in microseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from uuid import UUID

    from ..domain.lease import Token

#: A longer closure is not believed: whoever says so closes it again (design 5.1).
LONGEST_CLOSURE: Final = 7 * 86_400 * 1_000_000
#: A turn that nobody took is forgotten after so long.
FORGET_TURNS: Final = 3_600 * 1_000_000
#: A turn missed by more than this is kept anew, behind those of others.
LATE: Final = 1_000_000


class GateLimits(NamedTuple):
    """What the code declares for a gate; an operator's setting stands above it."""

    slots: int | None = None  #: requests at once; None for any number
    spacing: int = 0  #: between the instants at which two are let go


class GateRow(NamedTuple):
    """A gate as it stands in the store."""

    gate: str
    slots: int | None = None
    spacing: int = 0
    pinned: int = 0  #: 1 if an operator set slots and spacing
    closed_until: int = 0
    closed_by: str = ""  #: the job that was told so, or the operator
    closed_reason: str = ""
    closed_at: int = 0
    next_at: int = 0  #: the first instant that is kept for nobody
    last_at: int = 0  #: when the last request was let go

    @property
    def is_free(self) -> bool:
        """Whether it has no limits: then nothing is counted."""
        return self.slots is None and self.spacing == 0

    def with_limits(self, limits: GateLimits | None) -> GateRow:
        """As the code declares it, unless an operator set it."""
        if limits is None or self.pinned:
            return self
        return self._replace(slots=limits.slots, spacing=limits.spacing)


class GateEntry(NamedTuple):
    """A request that wants to pass; *entry* names it, its slot and the turn that is kept for it."""

    gate: str
    entry: str
    job_id: UUID
    token: Token
    limits: GateLimits | None = None


class GateAnswer(NamedTuple):
    """What becomes of it."""

    why: Literal["", "closed", "full", "turn"]  #: empty: it was let go at ``at``
    now: int
    at: int = 0  #: let go then; closed until then; its turn is then; 0 where nobody knows
    counted: bool = False  #: it holds a slot, to be given back
    own: bool = False  #: of a full gate: the job itself holds slots

    @property
    def is_let_go(self) -> bool:
        """Whether the request may go now."""
        return not self.why


class GateState(NamedTuple):
    """A gate for people: its row and what is going on there."""

    row: GateRow
    requests: int  #: under way
    jobs: int  #: running behind it
    turns: int  #: kept for later


class Seen(NamedTuple):
    """What a store found beside the gate's row."""

    used: int  #: slots whose lease stands
    own: int  #: of them, those of the asking job
    turn: int | None  #: the instant that is kept for this entry


def glance(row: GateRow, limits: GateLimits | None, now: int) -> GateAnswer | None:
    """What can be told without a lock: a gate that is closed, or open without limits; None for any other."""
    if row.closed_until > now:
        return GateAnswer("closed", now, row.closed_until)
    if row.is_free and row == row.with_limits(limits):
        return GateAnswer("", now, now)
    return None


def decide(row: GateRow, seen: Seen, now: int) -> tuple[GateRow, GateAnswer, int | None]:
    """Whether a request may go *now*: the row as it is to be, the answer, and the turn to keep for it (None: none)."""
    if row.closed_until > now:
        return row, GateAnswer("closed", now, row.closed_until), seen.turn
    if row.slots is not None and seen.used >= row.slots:
        return row, GateAnswer("full", now, own=seen.own > 0), seen.turn
    counted = row.slots is not None
    if not row.spacing:
        return row._replace(last_at=now), GateAnswer("", now, now, counted=counted), None
    turn, free_at = seen.turn, row.last_at + row.spacing
    if turn is not None and now - turn > max(LATE, row.spacing):
        turn = None
    if turn is None:
        turn = max(now, row.next_at, free_at)
        row = row._replace(next_at=turn + row.spacing)
    # Whoever went late moves the others too: what was let go last decides, whatever was planned.
    at = max(turn, free_at)
    if at > now:
        return row, GateAnswer("turn", now, at), turn
    row = row._replace(last_at=now, next_at=max(row.next_at, now + row.spacing))
    return row, GateAnswer("", now, now, counted=counted), None


def left(row: GateRow, now: int) -> GateRow:
    """The gate whose spacing counts from now: where a request has just ended, or its holder was found dead."""
    return row._replace(last_at=max(row.last_at, now), next_at=max(row.next_at, now + row.spacing))


def closed(row: GateRow, until: int, now: int, *, by: str, reason: str) -> GateRow:
    """The gate closed until then, and never for less than it was."""
    until = min(until, now + LONGEST_CLOSURE)
    if until <= max(row.closed_until, now):
        return row
    return row._replace(closed_until=until, closed_by=by, closed_reason=reason, closed_at=now)
