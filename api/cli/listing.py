"""`list`: a page of jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from ...domain.status import Status
from ..text import clean, clock_time, moment
from .output import answer, say
from .session import find_job, open_log
from .settings import current, shared_options
from .terminal import status_text, table

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from ...eventstore.store import JobRow
    from ...workers.commands.log import JobLog

_HEAD: Final = ("JOB", "STATUS", "KIND", "QUEUE", "DONE", "UPDATED", "REASON")
_LONGEST: Final = 60  #: of a reason in the table: characters


@click.command(name="list")
@click.option("--status", type=click.Choice([status.value for status in Status]), help="Only jobs that stand there.")
@click.option("--kind", help="Only jobs of this kind.")
@click.option("--queue", help="Only jobs of this queue.")
@click.option("--tenant", help="Only jobs of this tenant.")
@click.option("--limit", type=click.IntRange(1, 200), default=25, show_default=True, help="Jobs on a page.")
@click.option("--after", default="", metavar="ID", help="The page behind this job: the last one of the page before.")
@shared_options()
def list_command(
    *, status: str | None, kind: str | None, queue: str | None, tenant: str | None, limit: int, after: str
) -> None:
    """List jobs, newest first."""
    filters: dict[str, Any] = {"status": status, "kind": kind, "queue": queue, "tenant": tenant}
    with open_log(reading=True) as log:
        before = _place(log, after) if after else None
        rows = log.store.find_jobs(**filters, before=before, limit=limit + 1)
        position, now = log.store.head(), log.now()
    more, rows = len(rows) > limit, rows[:limit]
    following = str(rows[-1]["id"]) if more else None
    if current().as_json:
        from ..shapes import of_row

        answer({"items": [of_row(row) for row in rows], "next": following, "position": position})
        return
    answer(None, *table(_HEAD, [_cells(row, now) for row in rows]))
    _talk(rows, following, filtered=any(filters.values()), first=before is None)


def _place(log: JobLog, after: str) -> tuple[int, UUID]:
    row = log.row(find_job(log, after))
    return row["created_at"], row["id"]


def _cells(row: JobRow, now: datetime) -> list[str]:
    done = f"{row['done']:,}" if row["total"] is None else f"{row['done']:,}/{row['total']:,}"
    said = ": ".join(part for part in (row["reason"], row["reason_text"]) if part)
    if row["status"] == Status.WAITING or (row["status"] == Status.QUEUED and moment(row["due_at"]) > now):
        said = f"until {clock_time(moment(row['due_at']), now)} {said}".rstrip()
    said = f"{row['wish']} asked for" if row["wish"] else said
    short = clean(said) if len(said) <= _LONGEST else clean(said[: _LONGEST - 1]) + "…"
    return [
        str(row["id"]),
        status_text(row["status"], warnings=row["outcome"] == "with-warnings"),
        clean(row["kind"]),
        clean(row["queue"]),
        done,
        clock_time(moment(row["updated_at"]), now),
        short,
    ]


def _talk(rows: list[JobRow], following: str | None, *, filtered: bool, first: bool) -> None:
    if following is not None:
        say(f"more: --after {following}")
    elif not rows and filtered:
        say("Nothing matches.")
    elif not rows and first:
        say('No jobs yet. Hand one in:\n  joblog submit import.file --args \'{"source": "people.csv", …}\' --wait')
