"""How many jobs stand where: status x kind x queue x tenant, so that no request counts rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..domain import events as e
from ..domain.status import FINAL
from ..eventstore.view_schema import job_counts
from .view import Change, View, remembered

if TYPE_CHECKING:
    from .view import Folded, Happened, State

#: Every event that can change a status.
EVENTS: Final = frozenset(e.ALL) - {
    e.ListFrozen,
    e.UnitAttempted,
    e.UnitCompleted,
    e.UnitSkipped,
    e.CheckpointAdvanced,
    e.PauseRequested,
    e.CancelRequested,
}


def fold(state: State | None, happened: Happened) -> Folded:
    """Take the job from where it was counted, count it where it is."""
    event = happened.event
    status = happened.says.get("status")
    if type(event) is e.Submitted:
        state = {"kind": event.kind, "queue": event.queue, "tenant": event.tenant, "status": status}
        return state, (_count(state, 1),)
    state = remembered(state, happened)
    if status in {None, state["status"]}:
        return state, ()
    made = {**state, "status": status}
    return None if status in FINAL else made, (_count(state, -1), _count(made, 1))


def _count(state: State, jobs: int) -> Change:
    key = (state["status"], state["kind"], state["queue"], state["tenant"])
    return Change(job_counts, key, {"jobs": jobs})


VIEW: Final = View("counters", 1, (job_counts,), EVENTS, fold)
