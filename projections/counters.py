"""How many jobs stand where: status x kind x queue, of each tenant and of all, so that no request counts rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..domain import events as e
from ..domain.status import FINAL
from ..eventstore.view_schema import job_counts
from .view import View, remembered

if TYPE_CHECKING:
    from .view import Change, Folded, Happened, State

#: Under which all tenants are counted together; no tenant has this name.
ALL_TENANTS: Final = ""
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
        return state, _count(state, 1)
    state = remembered(state, happened)
    if status in {None, state["status"]}:
        return state, ()
    made = {**state, "status": status}
    return None if status in FINAL else made, (*_count(state, -1), *_count(made, 1))


def _count(state: State, jobs: int) -> tuple[Change, Change]:
    """Among the tenant's, and among all."""
    key = (state["status"], state["kind"], state["queue"])
    return (
        (job_counts, (state["tenant"], *key), {"jobs": jobs}),
        (job_counts, (ALL_TENANTS, *key), {"jobs": jobs}),
    )


VIEW: Final = View("counters", 1, (job_counts,), EVENTS, fold)
