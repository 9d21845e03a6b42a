"""How each job stood over time: a row for each span of positions in which status, holder and attempt were the same.

So "as of position" and "as of time" are questions to an index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..domain import events as e
from ..domain.status import FINAL, Status
from ..eventstore.view_schema import OPEN, job_versions
from . import counters
from .view import View, remembered

if TYPE_CHECKING:
    from .view import Change, Folded, Happened, State

#: What a job's row says at first, as the job table has it.
_BEGUN: Final = {"status": Status.QUEUED.value, "worker": "", "attempt": 0, "reason": ""}


def fold(state: State | None, happened: Happened) -> Folded:
    """Close the span that stood until this position and begin another."""
    event, position, at = happened.event, happened.position, happened.at
    job = event.originator_id
    if type(event) is e.Submitted:
        begun = _BEGUN | {"kind": event.kind, "queue": event.queue, "tenant": event.tenant}
        begun |= {"from_position": position, "from_at": at}
        return begun, (_opened(job, begun, position),)
    state = remembered(state, happened)
    says = happened.says
    status, worker = says.get("status", state["status"]), says.get("worker", state["worker"])
    attempt = says.get("attempt", state["attempt"])
    if status == state["status"] and worker == state["worker"] and attempt == state["attempt"]:
        return state, ()
    made = {**state, "from_position": position, "from_at": at, "status": status, "worker": worker, "attempt": attempt}
    if "reason" in says:
        made["reason"] = says["reason"]
    closed = {**state, "to_position": position, "to_at": at}
    spans = ((job_versions, (state["from_position"], job), closed), _opened(job, made, position))
    return None if status in FINAL else made, spans


def _opened(job: object, state: State, position: int) -> Change:
    return (job_versions, (position, job), {**state, "to_position": OPEN, "to_at": OPEN})


VIEW: Final = View("versions", 1, (job_versions,), counters.EVENTS, fold)
