"""`show`: a job, and what happened to it."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from ..text import clean, clock_time, counted, span
from .door import open_door
from .output import answer, encoded, say, stream
from .settings import current, shared_options
from .terminal import status_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .door import Document, Door


@click.command(name="show")
@click.argument("job_id", metavar="ID")
@click.option("--events", "every", is_flag=True, help="Every event, not only the turning points.")
@click.option("--at", default="", metavar="WHEN", help="As it stood at a position of the log, or at an instant.")
@shared_options()
def show_command(*, job_id: str, every: bool, at: str) -> None:
    """Show a job and what happened to it."""
    if at and every:
        raise click.UsageError("give --events or --at")
    with open_door(reading=True) as door:
        found = door.find(job_id)
        job = door.job(found, at=at)
        if at:
            then = {name: value for name, value in job.items() if value is not None}
            answer({"job": job}, *(f"{name}: {clean(_short(value))}" for name, value in then.items()))
        elif job["in_outbox"]:
            _show_outbox(job)
        elif current().as_json:
            stream(_document(door, job, every=every), between="")
        else:
            stream(_lines(door, job, every=every))


def _show_outbox(job: Document) -> None:
    answer(
        {"job": job, "history": []},
        f"job {job['id']}  {status_text('queued', width=0)}",
        f"  {clean(job['kind'])}: in the outbox; no worker has moved it into the log yet",
    )


def _document(door: Door, job: Document, *, every: bool) -> Iterator[str]:
    """One document, written piece by piece: a job may have millions of events."""
    yield '{"job": ' + encoded(job)
    yield ', "history": ' + encoded(door.history(job["id"]))
    if every:
        for index, event in enumerate(door.events(job["id"])):
            yield (', "events": [' if index == 0 else ", ") + encoded(event)
        yield "]"
    yield "}"


def _lines(door: Door, job: Document, *, every: bool) -> Iterator[str]:
    from ..event_text import EventText, turn_line

    now = door.now()
    if job["cycle"] is None:
        say(f"note: a newer joblog wrote to job {job['id']}: run a newer joblog to see all of it")
    yield f"job {job['id']}  {status_text(job['status'], warnings=job['outcome'] == 'with-warnings', width=0)}"
    yield from (f"  {name:<10} {value}" for name, value in _facts(job, now))
    yield ""
    if every:
        text = EventText()
        yield f"{'POSITION':>8} {'VERSION':>6}  {'TIME':>8}  EVENT"
        yield from (text.event_line(event, now) for event in door.events(job["id"]))
    else:
        yield from (turn_line(turn, now) for turn in door.history(job["id"]))


def _facts(job: Document, now: datetime) -> Iterator[tuple[str, str]]:
    yield "kind", clean(f"{job['kind']}  (queue {job['queue']}, priority {job['priority']}, tenant {job['tenant']})")
    if job["cycle"] is not None:
        yield "args", clean(_short(job["args"]))
    yield "key", clean(job["key"])
    if job["owner"]:
        yield "owner", clean(job["owner"])
    if job["reason"] or job["reason_text"]:
        yield "reason", clean(": ".join(part for part in (job["reason"], job["reason_text"]) if part))
    total = "" if job["total"] is None else f" of {job['total']:,}"
    skipped = f", {job['skipped']:,} skipped" if job["skipped"] else ""
    yield "units", f"{job['done']:,}{total} done{skipped}"
    if job["tallies"]:
        yield "tallies", clean(", ".join(f"{name} {count:,}" for name, count in job["tallies"].items()))
    if job["status"] == "running":
        yield "worker", clean(job["worker"])
    if job["status"] in {"queued", "waiting"}:
        yield "due", clock_time(datetime.fromisoformat(job["due_at"]), now)
    ended = datetime.fromisoformat(job["finished_at"]) if job["finished_at"] else now
    lived = ended - datetime.fromisoformat(job["created_at"])
    died = f", {counted(job['reclaims'], 'time')} taken back from a dead worker" if job["reclaims"] else ""
    yield "attempts", f"{job['attempt']:,} in {span(lived.total_seconds())}{died}"
    if job["result"] is not None:
        yield "result", clean(_short(job["result"]))


def _short(value: Any, limit: int = 300) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= limit else text[: limit - 1] + "…"
