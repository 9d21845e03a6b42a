"""What passes each gate, and what is held there: the same answer for the command line, HTTP and the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from .text import iso

if TYPE_CHECKING:
    from ..eventstore.gates import GateState
    from ..workers.commands.log import JobLog


def items(log: JobLog, gate: str | None = None) -> list[dict[str, Any]]:
    """Every gate that was ever used with limits, closed or set, or one."""
    now = log.store.now()
    return [_item(state, now) for state in log.store.gates(gate)]


def _item(state: GateState, now: int) -> dict[str, Any]:
    row, is_closed = state.row, state.row.closed_until > now
    return {
        "gate": row.gate,
        "closed": is_closed,
        "closed_until": iso(row.closed_until) if is_closed else None,
        "closed_by": row.closed_by if is_closed else None,
        "closed_reason": row.closed_reason if is_closed else None,
        "closed_at": iso(row.closed_at) if is_closed else None,
        "slots": row.slots,
        "spacing_seconds": row.spacing / 1_000_000,
        "set_by": "operator" if row.pinned else "code",
        "requests": state.requests,
        "jobs": state.jobs,
        "turns": state.turns,
    }


def closer(by: str) -> str:
    """Who closed a gate: a job, or an operator by name."""
    try:
        return f"job {UUID(by)}"
    except ValueError:
        return by
