"""How each job stood over time: a row for each span of positions in which status, holder and attempt were the same.

So "as of position" and "as of time" are questions to an index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..domain import events as e
from ..domain.status import FINAL
from ..eventstore.view_schema import OPEN, job_versions
from . import counters
from .view import Change, View, remembered

if TYPE_CHECKING:
    from .view import Folded, Happened, State

_WATCHED: Final = ("status", "worker", "attempt")
_TOLD: Final = (*_WATCHED, "reason")


def fold(state: State | None, happened: Happened) -> Folded:
    """Close the span that stood until this position and begin another."""
    event, position = happened.event, happened.position
    job = event.originator_id
    says = happened.says
    if isinstance(event, e.Submitted):
        state = {name: says[name] for name in (*_TOLD, "kind", "queue", "tenant")}
        begun = state | {"from_position": position, "from_at": happened.at}
        return begun, (_span(job, begun, OPEN, OPEN),)
    state = remembered(state, happened)
    for name in _WATCHED:
        if name in says and says[name] != state[name]:
            break
    else:
        return state, ()
    told: State = {name: says[name] for name in _TOLD if name in says}
    made: State = {**state, **told, "from_position": position, "from_at": happened.at}
    spans = (_span(job, state, position, happened.at), _span(job, made, OPEN, OPEN))
    return None if made["status"] in FINAL else made, spans


def _span(job: object, state: State, to_position: int, to_at: int) -> Change:
    row = {**state, "to_position": to_position, "to_at": to_at}
    return Change(job_versions, (row.pop("from_position"), job), row)


VIEW: Final = View("versions", 1, (job_versions,), counters.EVENTS, fold)
