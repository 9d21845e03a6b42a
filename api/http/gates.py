"""Gates of providers: what passes them, and what operators do to them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from msgspec import UNSET

from ...domain.errors import InvalidFieldError
from ...workers.commands import gating
from .. import documents
from .route import Answer

if TYPE_CHECKING:
    from datetime import datetime

    from .route import Call


def list_gates(call: Call) -> Answer:
    """What passes each provider's gate, and until when it is closed."""
    return Answer(documents.gates(call.log))


def open_gate(call: Call) -> Answer:
    """Open a gate, whatever its provider had said; `resume` starts again the jobs that it had paused for more than a day."""
    log, name, body = call.log, call.request.match_info["gate"], call.body
    made = gating.open_(log, name, call.actor(body.reason), resume=body.resume, may=call.may)
    return Answer(documents.gate(log, name) | {"resumed": made.resumed})


def close_gate(call: Call) -> Answer:
    """Let nothing pass a gate for a while; a longer closure stands."""
    log, name, body = call.log, call.request.match_info["gate"], call.body
    gating.close(log, name, call.actor(body.reason), _until(call), may=call.may)
    return Answer(documents.gate(log, name))


def _until(call: Call) -> datetime:
    body = call.body
    if (body.until is None) == (body.seconds is None):
        raise InvalidFieldError("until", "both or neither of until and seconds", "give one of them")
    if body.until is None:
        return call.log.now() + timedelta(seconds=body.seconds)
    until: datetime = body.until
    if until.tzinfo is None:
        raise InvalidFieldError("until", "without a zone", "give RFC 3339 with Z or an offset")
    return until


def limit_gate(call: Call) -> Answer:
    """How many requests pass at once, and how far apart; what is left out stays, and the code's own word no longer counts."""
    log, name, body = call.log, call.request.match_info["gate"], call.body
    pairs = (("slots", body.slots), ("spacing_seconds", body.spacing_seconds))
    given = {field: value for field, value in pairs if value is not UNSET}
    if not given:
        raise InvalidFieldError("slots", "nothing is given", "give slots, spacing_seconds or both")
    gating.limit(log, name, call.actor(body.reason), gating.with_limits(log, name, given), may=call.may)
    return Answer(documents.gate(log, name))
