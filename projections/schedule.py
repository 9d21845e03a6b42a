"""What is due when: every job that waits for its instant or for a worker, by the instant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..domain import events as e
from ..domain.status import CLAIMABLE, FINAL
from ..eventstore.view_schema import due_jobs
from . import counters
from .view import View, remembered

if TYPE_CHECKING:
    from .view import Folded, Happened, State


def fold(state: State | None, happened: Happened) -> Folded:
    """The job is on the list while it may be claimed once due."""
    event = happened.event
    says = happened.says
    if isinstance(event, e.Submitted):
        state = {name: says[name] for name in ("kind", "queue", "tenant", "priority")}
    state = remembered(state, happened)
    if (status := says.get("status")) is None:
        return state, ()
    row = None
    if status in CLAIMABLE:
        row = {**state, "status": status, "due_at": says["due_at"], "reason": says.get("reason", "")}
    return None if status in FINAL else state, ((due_jobs, (event.originator_id,), row),)


VIEW: Final = View("schedule", 1, (due_jobs,), counters.EVENTS, fold)
