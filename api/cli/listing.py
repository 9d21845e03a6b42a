"""`list`: a page of jobs."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click

from ...domain.status import Status
from ..text import clean, clock_time
from .door import open_door
from .output import answer, say
from .settings import current, shared_options
from .terminal import status_text, table

if TYPE_CHECKING:
    from .door import Door

    Document = dict[str, Any]

_HEAD: Final = ("JOB", "STATUS", "KIND", "QUEUE", "DONE", "UPDATED", "REASON")
_LONGEST: Final = 60  #: of a reason in the table: characters
_PAGES: Final = 100  #: that are asked for to fill one


@click.command(name="list")
@click.option("--status", type=click.Choice([status.value for status in Status]), help="Only jobs that stand there.")
@click.option("--kind", help="Only jobs of this kind.")
@click.option("--queue", help="Only jobs of this queue.")
@click.option("--tenant", help="Only jobs of this tenant.")
@click.option("--limit", type=click.IntRange(1, 200), default=25, show_default=True, help="Jobs on a page.")
@click.option("--after", default="", metavar="ID", help="The page behind this job, or behind a cursor.")
@click.option("--at", default="", metavar="WHEN", help="As it stood at a position of the log, or at an instant.")
@shared_options()
def list_command(
    *, status: str | None, kind: str | None, queue: str | None, tenant: str | None, limit: int, after: str, at: str
) -> None:
    """List jobs, newest first."""
    narrow = {"kind": kind, "queue": queue, "tenant": tenant}
    filters = {"status": status, **narrow, "owner": None}
    with open_door(reading=True) as door:
        document, now = _page(door, filters, limit=limit, after=after, at=at), door.now()
    rows = document["items"]
    answer(document, *table(_HEAD, [_cells(row, now) for row in rows]))
    if current().as_json:
        return
    if at:
        say(f"as of position {document['position']:,}")
    is_cut = document["next"] is not None
    following = document["next"] if is_cut and (at or len(rows) < limit) else rows[-1]["id"] if is_cut else None
    _talk(rows, following, filtered=any(filters.values()), first=not after and not at)


def _page(door: Door, filters: dict[str, str | None], *, limit: int, after: str, at: str) -> Document:
    """So many jobs; where filters leave a page with few of them, the next pages are asked for, too."""
    document = door.jobs(filters, limit=limit, after=after, at=at)
    for _ in range(_PAGES):
        left = limit - len(document["items"])
        if not left or document["next"] is None:
            break
        more = door.jobs(filters, limit=left, after=document["next"], at=at)
        document |= {"items": [*document["items"], *more["items"]], "next": more["next"]}
    return document


def _cells(row: dict[str, Any], now: datetime) -> list[str]:
    if row["done"] is None:
        return [
            str(row["id"]),
            status_text(row["status"]),
            clean(row["kind"]),
            clean(row["queue"]),
            "",
            _at(row, now),
            "",
        ]
    done = f"{row['done']:,}" if row["total"] is None else f"{row['done']:,}/{row['total']:,}"
    said = ": ".join(part for part in (row["reason"], row["reason_text"]) if part)
    due = datetime.fromisoformat(row["due_at"])
    if row["status"] == Status.WAITING or (row["status"] == Status.QUEUED and due > now):
        said = f"until {clock_time(due, now)} {said}".rstrip()
    said = f"{row['wish']} asked for" if row["wish"] else said
    short = clean(said) if len(said) <= _LONGEST else clean(said[: _LONGEST - 1]) + "…"
    return [
        str(row["id"]),
        status_text(row["status"], warnings=row["outcome"] == "with-warnings"),
        clean(row["kind"]),
        clean(row["queue"]),
        done,
        _at(row, now),
        short,
    ]


def _at(row: dict[str, Any], now: datetime) -> str:
    return clock_time(datetime.fromisoformat(row["updated_at"]), now)


def _talk(rows: list[dict[str, Any]], following: str | None, *, filtered: bool, first: bool) -> None:
    if following is not None:
        say(f"more: --after {following}")
    elif not rows and filtered:
        say("Nothing matches.")
    elif not rows and first:
        say('No jobs yet. Hand one in:\n  joblog submit import.file --args \'{"source": "people.csv", …}\' --wait')
