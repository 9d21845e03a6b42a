"""The state machine of a job, as data: which status may follow which, and why."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Status(StrEnum):
    """Where a job stands."""

    QUEUED = "queued"  #: may be claimed as soon as it is due
    RUNNING = "running"  #: one worker holds its lease
    WAITING = "waiting"  #: holds no lease; becomes claimable at a stored instant or by a child's end
    PAUSED = "paused"  #: needs an operator, a credential or storage; never runs by itself
    COMPLETED = "completed"  #: every unit has evidence (or was skipped, by policy)
    FAILED = "failed"  #: a verdict about the input; an operator may retry it
    CANCELLED = "cancelled"  #: withdrawn at a boundary; final


class Wish(StrEnum):
    """What an operator asked of a running job; honoured at its next boundary."""

    NONE = ""
    PAUSE = "pause"
    CANCEL = "cancel"


#: status -> allowed next status -> the cause (the events that lead there).
TRANSITIONS: Final[dict[Status, dict[Status, str]]] = {
    Status.QUEUED: {
        Status.RUNNING: "claimed: a worker takes the lease of a due job",
        Status.PAUSED: "paused: an operator holds it back",
        Status.CANCELLED: "cancelled: withdrawn before it ran",
    },
    Status.RUNNING: {
        Status.QUEUED: "lease-released (yield, shutdown) or lease-expired: any worker may go on",
        Status.WAITING: "retry-scheduled, gate-awaited, or lease-released (wait): due at a stored instant",
        Status.PAUSED: "paused: exhausted, poison unit, missing credential, or an operator's wish",
        Status.COMPLETED: "completed: checkpoint and evidence cover every unit",
        Status.FAILED: "failed: a verdict about the input",
        Status.CANCELLED: "cancelled: an operator's wish, honoured at the boundary",
    },
    Status.WAITING: {
        Status.RUNNING: "claimed: the stored instant has passed",
        Status.PAUSED: "paused: an operator holds it back",
        Status.CANCELLED: "cancelled: withdrawn while it waited",
    },
    Status.PAUSED: {
        Status.QUEUED: "resumed: the obstacle is gone, or an operator retries",
        Status.CANCELLED: "cancelled: given up by an operator",
    },
    Status.FAILED: {
        Status.QUEUED: "resumed: an operator retries in a fresh attempt cycle",
    },
    Status.COMPLETED: {},
    Status.CANCELLED: {},
}

#: A worker may take these, once due.
CLAIMABLE: Final = frozenset({Status.QUEUED, Status.WAITING})
#: No unit event may follow these (S12).
ENDED: Final = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED})
#: Nothing at all may follow these.
FINAL: Final = frozenset(status for status, following in TRANSITIONS.items() if not following)
