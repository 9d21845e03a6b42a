"""Gates of providers: what passes them, and the buttons that close and open one."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

from ...domain.errors import InvalidFieldError, JobLogError
from ...workers.commands import gating
from .. import gate_list
from ..http import problems
from ..http.route import Answer
from ..instants import parse_instant, parse_span
from .render import page, see_other

if TYPE_CHECKING:
    from datetime import datetime

    from ..http.route import Call
    from .forms import GateForm


def gates_page(call: Call) -> Answer:
    """What passes each provider's gate."""
    return _gates(call, resumed=call.query.resumed)


def _gates(call: Call, *, status: int = 200, refusal: JobLogError | None = None, resumed: int | None = None) -> Answer:
    items = gate_list.items(call.log)
    form = call.body if refusal else None  # nothing that was typed is lost
    return page(call, "gates.html", status=status, gates=items, refusal=refusal, form=form, resumed=resumed)


def command_gate_page(call: Call) -> Answer:
    """What the buttons of a gate do; then the gates again."""
    form, action = call.body, call.request.match_info["action"]
    who = call.actor(form.reason, key=form.key)
    try:
        if action == "close":
            gating.close(call.log, form.gate, who, _until(form, call.log.now()), may=call.may)
            return see_other("/gates")
        made = gating.open_(call.log, form.gate, who, resume=form.resume, may=call.may)
    except JobLogError as refusal:
        return _gates(call, status=problems.status_of(refusal), refusal=refusal)
    return see_other(f"/gates?resumed={made.resumed}" if form.resume and not made.repeated else "/gates")


def _until(form: GateForm, now: datetime) -> datetime:
    """The page says all times in UTC, so it is told them in UTC."""
    if bool(form.span) == bool(form.until):
        raise InvalidFieldError("until", "both or neither of the two", "say for how long, or until when")
    return now + parse_span(form.span, "span") if form.span else parse_instant(form.until, "until", now, zone=UTC)
