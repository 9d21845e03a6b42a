"""How each job stood over time: a row for each span of positions in which status, holder and attempt were the same.

So "as of position" and "as of time" are questions to an index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..domain import events as e
from ..domain.status import FINAL, Status
from ..eventstore.view_schema import OPEN, job_versions
from . import counters
from .view import Change, View, remembered

if TYPE_CHECKING:
    from .view import Folded, Happened, State

_WATCHED: Final = ("status", "worker", "attempt")
_TOLD: Final = (*_WATCHED, "reason")
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
    for name in _WATCHED:
        if name in says and says[name] != state[name]:
            break
    else:
        return state, ()
    made = {**state, "from_position": position, "from_at": at}
    for name in _TOLD:
        if name in says:
            made[name] = says[name]
    closed = {**state, "to_position": position, "to_at": at}
    spans = (Change(job_versions, (closed.pop("from_position"), job), closed), _opened(job, made, position))
    return None if made["status"] in FINAL else made, spans


def _opened(job: object, state: State, position: int) -> Change:
    row = {**state, "to_position": OPEN, "to_at": OPEN}
    del row["from_position"]
    return Change(job_versions, (position, job), row)


VIEW: Final = View("versions", 1, (job_versions,), counters.EVENTS, fold)
