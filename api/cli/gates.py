"""`gates`: what passes each provider's gate; closing, opening and limiting one."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click

from ...domain.errors import InvalidFieldError
from ..text import clean, clock_time, counted
from .instants import parse_instant, parse_span
from .output import answer, say
from .session import actor, open_log
from .settings import shared_options
from .terminal import painted, table

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...workers.commands.log import JobLog

_HEAD: Final = ("GATE", "STATE", "SLOTS", "SPACING", "SET BY", "REQUESTS", "JOBS", "TURNS KEPT")


@click.group(name="gates", invoke_without_command=True)
@shared_options()
@click.pass_context
def gates_command(ctx: click.Context) -> None:
    """List, close, open and limit the gates of providers."""
    if ctx.invoked_subcommand is None:
        _list()


@gates_command.command(name="list")
@shared_options()
def list_command() -> None:
    """Show what passes each gate, and until when it is closed."""
    _list()


def _list() -> None:
    from .. import gate_list

    with open_log(reading=True) as log:
        items, now = gate_list.items(log), log.now()
    answer({"items": items}, *table(_HEAD, [_row(one, now) for one in items]))
    if not items:
        say("No gate was ever closed or limited.")


def _row(one: dict[str, Any], now: datetime) -> list[str]:
    return [
        clean(one["gate"]),
        painted(f"‖ closed until {_time(one['closed_until'], now)}", "yellow") if one["closed"] else "● open",
        "any" if one["slots"] is None else f"{one['slots']:,}",
        f"{one['spacing_seconds']:g} s",
        one["set_by"],
        f"{one['requests']:,}",
        f"{one['jobs']:,}",
        f"{one['turns']:,}",
    ]


def _time(instant: str, now: datetime) -> str:
    return clock_time(datetime.fromisoformat(instant), now)


def _controls(function: Callable[..., Any]) -> Callable[..., Any]:
    for add in (
        shared_options(),
        click.option("--reason", default="", help="Why; it is shown in the history."),
        click.option("--request-id", default="", metavar="ID", help="20 to 64 characters; again: the same answer."),
        click.argument("gate"),
    ):
        function = add(function)
    return function


@gates_command.command(name="open")
@_controls
@click.option("--resume", is_flag=True, help="Also start the jobs again that it had paused for more than a day.")
def open_command(*, gate: str, reason: str, request_id: str, resume: bool) -> None:
    """Open a gate, whatever its provider had said; what waits behind it is claimed at once."""
    from ...workers.commands import gating

    with open_log() as log:
        made = gating.open_(log, gate, actor(request_id=request_id, reason=reason), resume=resume)
        document = _document(log, gate) | {"resumed": made.resumed}
    more = f"; {counted(made.resumed, 'job')} resumed" if resume else ""
    answer(document, f"gate {clean(gate)} is open{more}")


@gates_command.command(name="close")
@_controls
@click.option("--for", "span", default="", metavar="SPAN", help="For so long, such as 90s, 5m, 1h30m or 2d.")
@click.option("--until", default="", metavar="INSTANT", help="Until then, such as 2030-01-31T09:00Z.")
def close_command(*, gate: str, reason: str, request_id: str, span: str, until: str) -> None:
    """Let nothing pass a gate for a while; a longer closure stands."""
    from ...workers.commands import gating

    if bool(span) == bool(until):
        raise click.UsageError("give --for or --until")
    with open_log() as log:
        now = log.now()
        instant = now + parse_span(span, "for") if span else parse_instant(until, "until", now)
        gating.close(log, gate, actor(request_id=request_id, reason=reason), instant)
        document = _document(log, gate)
    when = _time(document["closed_until"], now) if document["closed"] else "that has passed"
    answer(document, f"gate {clean(gate)} is closed until {when}")


@gates_command.command(name="set")
@_controls
@click.option("--slots", default="", metavar="N", help='Requests at once; "none" for any number.')
@click.option("--spacing", default="", metavar="SPAN", help="Between two requests, such as 0.12s; 0 for none.")
def set_command(*, gate: str, reason: str, request_id: str, slots: str, spacing: str) -> None:
    """Limit how many requests pass a gate at once, and how far apart; it stands above what the code declares."""
    from ...eventstore.gates import GateRow
    from ...workers.commands import gating
    from ...workers.registry import gate_limits

    if not slots and not spacing:
        raise click.UsageError("give --slots, --spacing or both")
    with open_log() as log:
        [*states] = log.store.gates(gate)
        row = states[0].row if states else GateRow(gate)
        seconds = parse_span(spacing, "spacing").total_seconds() if spacing else row.spacing / 1_000_000
        limits = gate_limits(_slots(slots) if slots else row.slots, seconds)
        gating.limit(log, gate, actor(request_id=request_id, reason=reason), limits)
        document = _document(log, gate)
    at_once = "any number of requests" if document["slots"] is None else counted(document["slots"], "request")
    answer(document, f"gate {clean(gate)} lets {at_once} pass at once, {document['spacing_seconds']:g} s apart")


def _slots(text: str) -> int | None:
    if text != "none" and not text.isdecimal():
        raise InvalidFieldError("slots", f"{text[:40]!r} is no count", 'give a whole number, or "none"')
    return None if text == "none" else int(text)


def _document(log: JobLog, gate: str) -> dict[str, Any]:
    from .. import gate_list

    [found] = gate_list.items(log, gate)
    return found
