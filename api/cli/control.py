"""`pause`, `resume`, `cancel`, `retry`: what operators do to jobs, each once per request id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ...domain.errors import InvalidFieldError, JobLogError
from ..text import clean, counted
from .door import Asked, Door, open_door
from .exits import Exit, exit_of
from .output import answer, say
from .settings import shared_options

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_DONE = {"pause": "paused", "resume": "resumed", "cancel": "cancelled", "retry": "retried"}


def _command(action: str, about: str) -> click.Command:
    """The command for one action; they differ in their name alone."""

    def call(
        *, ids: tuple[str, ...], queue: str, every: bool, skipped: bool = False, unit: str = "", **options: Any
    ) -> Exit:
        if skipped or unit:
            return _skipped(ids, unit, queue=queue, every=every, **options)
        if every != bool(queue) or bool(ids) == every:
            raise click.UsageError("give job ids, or --queue NAME with --all")
        with open_door() as door:
            return _whole_queue(door, action, queue, **options) if queue else _jobs(door, action, ids, **options)

    function: Callable[..., Exit] = call
    for add in reversed(_parameters(action)):
        function = add(function)
    function.__doc__ = about
    return click.command(name=action)(function)


def _parameters(action: str) -> list[Callable[[Any], Any]]:
    cleanup = [click.option("--cleanup", is_flag=True, help="Also remove what the job created, where it knows how.")]
    skipped = [
        click.option(
            "--skipped", is_flag=True, help="The units that an ended job passed over, each as a job of its own."
        ),
        click.option("--unit", default="", metavar="KEY", help="Only this one of them."),
    ]
    return [
        click.argument("ids", nargs=-1, metavar="[ID]..."),
        click.option("--queue", default="", metavar="NAME", help="All jobs that this queue has now; with --all."),
        click.option("--all", "every", is_flag=True, help="Really all of them; later ones are left alone."),
        click.option("--reason", default="", help="Why; it is shown in the history."),
        click.option("--request-id", default="", metavar="ID", help="20 to 64 characters; again: the same answer."),
        click.option("--if-version", type=int, metavar="N", help="Only if the job is still at this version."),
        *(cleanup if action == "cancel" else []),
        *(skipped if action == "retry" else []),
        shared_options(),
    ]


def _whole_queue(
    door: Door, action: str, queue: str, *, reason: str, request_id: str, if_version: int | None, cleanup: bool = False
) -> Exit:
    if if_version is not None or cleanup:
        raise click.UsageError("--if-version and --cleanup are for single jobs")
    made = door.command_jobs(action, queue, Asked(request_id, reason))
    lines = [f"{counted(made['done'], 'job')} of queue {clean(queue)} {_DONE[action]}, {made['refused']} had moved on"]
    if made["superseded"]:
        lines.append("a newer command for this queue stands; the rest was left to it")
    answer(made, *lines)
    return Exit.CONFLICT if made["superseded"] else Exit.DONE


def _skipped(ids: tuple[str, ...], unit: str, *, queue: str, every: bool, **options: Any) -> Exit:
    """Retry what a job passed over: a submit, so the same again is the same."""
    if queue or every or len(ids) != 1 or options["request_id"] or options["if_version"] is not None:
        raise click.UsageError("--skipped and --unit go with one job id and nothing else")
    with open_door() as door:
        made = door.retry_skipped(door.find(ids[0]), unit)
    lines = [f"job {one['id']} {'retries it' if one['created'] else 'retries it already'}" for one in made["items"]]
    answer(made, *lines)
    return Exit.DONE


def _jobs(door: Door, action: str, ids: Sequence[str], **options: Any) -> Exit:
    if len(ids) == 1:
        made = _one(door, action, ids[0], **options)
        answer(made, _line(action, made))
        return Exit.DONE
    if options["request_id"] or options["if_version"] is not None:
        raise InvalidFieldError("request_id", "one id or version for several jobs", "command them one by one")
    results: list[dict[str, Any]] = []
    ends: set[Exit] = set()
    for text in ids:
        try:
            made = _one(door, action, text, **options)
        except JobLogError as error:
            ends.add(exit_of(error))
            made = {"id": text, "error": str(error), "code": error.code}
            say(f"error: {clean(str(error))}\ncode: {error.code}")
        else:
            ends.add(Exit.DONE)
        results.append(made)
    done = [made for made in results if "error" not in made]
    answer(
        {"action": action, "done": len(done), "refused": len(results) - len(done), "items": results},
        *(_line(action, made) for made in done),
    )
    return ends.pop() if len(ends) == 1 else Exit.PARTLY


def _one(
    door: Door, action: str, text: str, *, reason: str, request_id: str, if_version: int | None, cleanup: bool = False
) -> dict[str, Any]:
    asked = Asked(request_id, reason)
    return door.command(action, door.find(text), asked, if_version=if_version, cleanup=cleanup)


def _line(action: str, made: dict[str, Any]) -> str:
    again = " (answered before)" if made["repeated"] else ""
    if made["wish"]:
        return f"job {made['id']} is asked to {action}; it stops at its next boundary{again}"
    return f"job {made['id']} is {made['status']}{again}"


pause_command = _command("pause", "Hold jobs; a running one stops at its next boundary.")
resume_command = _command("resume", "Let paused or failed jobs go on.")
cancel_command = _command("cancel", "Withdraw jobs; a running one ends at its next boundary.")
retry_command = _command("retry", "Start a fresh attempt cycle of failed or paused jobs, now.")
