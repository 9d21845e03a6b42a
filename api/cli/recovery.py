"""`recovery`: the report of what was taken back, tried again, given up, commanded or reported."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click

from ..text import clean, clock_time, counted
from .door import Asked, open_door
from .output import answer, say
from .session import open_log
from .settings import current, shared_options
from .terminal import painted, table

if TYPE_CHECKING:
    from collections.abc import Callable

#: The filters and the columns of the report are the same wherever it is shown; Done comes first.
_FILTERS: Final = ("all", "done", "failed", "deleted")
_HEAD: Final = ("DONE", "DATE", "EVENT", "USER ID", "USER NAME", "IPV4", "IPV6", "DETAIL", "JOB", "KIND", "ATTEMPT")
_LONGEST: Final = 60  #: of a detail in the table: characters


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    for add in reversed(
        [
            click.option("--filter", "chosen", type=click.Choice(_FILTERS), default="all", show_default=True),
            click.option(
                "--search", default="", help="Literally, in event, detail and database; case does not matter."
            ),
            click.option("--page", default="1", help="Which page of ten rows.  [default: 1]"),
        ]
    ):
        function = add(function)
    return function


@click.group(name="recovery", invoke_without_command=True)
@_options
@shared_options()
@click.pass_context
def recovery_command(ctx: click.Context, /, **options: Any) -> None:
    """Show what was taken back, tried again, given up, or reported; take in reports."""
    if ctx.invoked_subcommand is None:
        _list(**options)


@recovery_command.command(name="list")
@_options
@shared_options()
def list_command(**options: Any) -> None:
    """Show a page of the report, newest first."""
    _list(**options)


def _list(*, chosen: str, search: str, page: str) -> None:
    with open_door(reading=True) as door:
        document, now = door.recovery(chosen, search, page), door.now()
    rows, position, head = document["items"], document["position"], document["head"]
    answer(document, *table(_HEAD, [_cells(row, now) for row in rows]))
    if current().as_json:
        return
    if not rows:
        say("Nothing matches." if position or not head else "Nothing was folded yet: see `joblog projections run`.")
    say(f"page {document['page']} of {document['pages']}, {counted(document['total'], 'row')}")
    if position < head:
        say(f"the report is {counted(head - position, 'event')} behind the log")


def _cells(row: dict[str, Any], now: datetime) -> list[str]:
    done = painted("✓ yes", "green") if row["done"] else painted("⚠ no", "red")
    if row["deleted"]:
        done += " 🗑"
    detail = clean(row["detail"])
    detail = detail if len(detail) <= _LONGEST else detail[: _LONGEST - 1] + "…"
    attempt = "" if row["attempt"] is None else str(row["attempt"])
    said = [row[name] for name in ("type", "actor_id", "actor_name", "ipv4", "ipv6")]
    rest = [detail, row["job_id"][:8], clean(row["operation"]), attempt]
    return [done, clock_time(datetime.fromisoformat(row["at"]), now), *(clean(text) for text in said), *rest]


@recovery_command.command(name="import")
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@shared_options()
def import_command(*, files: tuple[str, ...]) -> None:
    """Take in what was appended to recovery-events.jsonl files since the last time; each line once."""
    from ...workers.commands import recovery

    with open_log() as log:
        made = {name: recovery.import_file(log, name) for name in files}
    items = [{"file": name, "taken": one.taken, "skipped": one.skipped} for name, one in made.items()]
    lines = [
        f"{clean(name)}: {counted(one.taken, 'line')} taken in, {one.skipped:,} that say nothing"
        for name, one in made.items()
    ]
    answer({"items": items}, *lines)


@recovery_command.command(name="note")
@click.argument("kind", metavar="TYPE")
@click.option("--detail", default="", help="What happened.")
@click.option("--database", default="", help="What it happened to.")
@click.option("--severity", type=click.Choice(["info", "warning", "error"]), default="info", show_default=True)
@click.option("--failed", is_flag=True, help="It did not succeed.")
@click.option("--deleted", is_flag=True, help="Data was deleted for good.")
@click.option("--request-id", default="", help="The same id again records nothing new.")
@shared_options()
def note_command(
    *, kind: str, detail: str, database: str, severity: str, failed: bool, deleted: bool, request_id: str
) -> None:
    """Record by hand what happened, such as a restore."""
    fields = {"type": kind, "detail": detail, "database": database, "severity": severity, "done": not failed}
    with open_door() as door:
        made = door.note(fields | {"deleted": deleted}, Asked(request_id))
    answer(made, f"noted at position {made['position']:,}")
