"""`queues`: what waits and runs in each, and holding or limiting one."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click

from ...domain.errors import InvalidFieldError
from ..text import clean, span
from .door import Asked, open_door
from .output import answer, say
from .settings import shared_options
from .terminal import painted, table

if TYPE_CHECKING:
    from collections.abc import Callable

_HEAD: Final = ("QUEUE", "STATE", "RUNNING", "LIMIT", "READY", "OLDEST DUE")


@click.group(name="queues", invoke_without_command=True)
@shared_options()
@click.pass_context
def queues_command(ctx: click.Context) -> None:
    """List, pause, resume and limit queues."""
    if ctx.invoked_subcommand is None:
        _list()


@queues_command.command(name="list")
@shared_options()
def list_command() -> None:
    """Show what waits and runs in each queue."""
    _list()


def _list() -> None:
    with open_door(reading=True) as door:
        document, now = door.queues(), door.now()
    items = document["items"]
    rows = [
        [
            clean(one["queue"]),
            painted("‖ paused", "yellow") if one["paused"] else "● open",
            f"{one['running']:,}",
            "none" if one["slots"] is None else f"{one['slots']:,}",
            f"{one['ready']:,}" if one["ready_is_exact"] else f"{one['ready'] - 1:,}+",
            "" if one["oldest_due_at"] is None else f"{_late(one['oldest_due_at'], now)} ago",
        ]
        for one in items
    ]
    answer(document, *table(_HEAD, rows))
    if not items:
        say("No queue holds anything, and none was ever paused or limited.")


def _late(instant: str, now: datetime) -> str:
    return span((now - datetime.fromisoformat(instant)).total_seconds())


def _controls(function: Callable[..., Any]) -> Callable[..., Any]:
    for add in (
        shared_options(),
        click.option("--request-id", default="", metavar="ID", help="20 to 64 characters; again: the same answer."),
        click.argument("queue"),
    ):
        function = add(function)
    return function


@queues_command.command(name="pause")
@_controls
def pause_command(*, queue: str, request_id: str) -> None:
    """Hold a queue: nothing of it is claimed, now or later, until it is resumed."""
    _control("pause", queue, request_id)


@queues_command.command(name="resume")
@_controls
def resume_command(*, queue: str, request_id: str) -> None:
    """Let a queue's jobs be claimed again."""
    _control("resume", queue, request_id)


@queues_command.command(name="limit")
@_controls
@click.argument("slots")
def limit_command(*, queue: str, slots: str, request_id: str) -> None:
    """Let at most SLOTS jobs of a queue run at once, over all processes; "none" lifts the limit."""
    if slots != "none" and not slots.isdecimal():
        raise InvalidFieldError("slots", f"{slots!r} is no count", 'give a whole number, or "none"')
    _control("limit", queue, request_id, slots=None if slots == "none" else int(slots))


def _control(action: str, queue: str, request_id: str, **options: Any) -> None:
    with open_door() as door:
        made = door.command_queue(queue, action, Asked(request_id), **options)
    limit = "any number of its jobs run" if made["slots"] is None else f"at most {made['slots']:,} of its jobs run"
    state = "is paused" if made["paused"] else f"is open, {limit} at once"
    answer(made, f"queue {clean(made['queue'])} {state}")
