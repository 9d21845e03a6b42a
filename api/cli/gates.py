"""`gates`: what passes each provider's gate; closing, opening and limiting one."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click

from ...domain.errors import InvalidFieldError
from ..instants import parse_instant, parse_span
from ..text import clean, clock_time, counted
from .door import Asked, open_door
from .output import answer, say
from .settings import shared_options
from .terminal import painted, table

if TYPE_CHECKING:
    from collections.abc import Callable

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
    with open_door(reading=True) as door:
        document, now = door.gates(), door.now()
    items = document["items"]
    answer(document, *table(_HEAD, [_row(one, now) for one in items]))
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
    with open_door() as door:
        document = door.open_gate(gate, Asked(request_id, reason), resume=resume)
    more = f"; {counted(document['resumed'], 'job')} resumed" if resume else ""
    answer(document, f"gate {clean(gate)} is open{more}")


@gates_command.command(name="close")
@_controls
@click.option("--for", "span", default="", metavar="SPAN", help="For so long, such as 90s, 5m, 1h30m or 2d.")
@click.option("--until", default="", metavar="INSTANT", help="Until then, such as 2030-01-31T09:00Z.")
def close_command(*, gate: str, reason: str, request_id: str, span: str, until: str) -> None:
    """Let nothing pass a gate for a while; a longer closure stands."""
    if bool(span) == bool(until):
        raise click.UsageError("give --for or --until")
    with open_door() as door:
        now = door.now()
        instant = now + parse_span(span, "for") if span else parse_instant(until, "until", now)
        document = door.close_gate(gate, Asked(request_id, reason), instant)
    when = _time(document["closed_until"], now) if document["closed"] else "that has passed"
    answer(document, f"gate {clean(gate)} is closed until {when}")


@gates_command.command(name="set")
@_controls
@click.option("--slots", default="", metavar="N", help='Requests at once; "none" for any number.')
@click.option("--spacing", default="", metavar="SPAN", help="Between two requests, such as 0.12s; 0 for none.")
def set_command(*, gate: str, reason: str, request_id: str, slots: str, spacing: str) -> None:
    """Limit how many requests pass a gate at once, and how far apart; it stands above what the code declares."""
    if not slots and not spacing:
        raise click.UsageError("give --slots, --spacing or both")
    given: dict[str, Any] = {"slots": _slots(slots)} if slots else {}
    if spacing:
        given["spacing_seconds"] = parse_span(spacing, "spacing").total_seconds()
    with open_door() as door:
        document = door.limit_gate(gate, Asked(request_id, reason), given)
    at_once = "any number of requests" if document["slots"] is None else counted(document["slots"], "request")
    answer(document, f"gate {clean(gate)} lets {at_once} pass at once, {document['spacing_seconds']:g} s apart")


def _slots(text: str) -> int | None:
    if text != "none" and not text.isdecimal():
        raise InvalidFieldError("slots", f"{text[:40]!r} is no count", 'give a whole number, or "none"')
    return None if text == "none" else int(text)
