"""`show`: a job, and what happened to it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from ...domain.errors import UnknownEventError
from ..text import clean, clock_time, counted, moment, span
from .output import encoded, say, stream
from .session import find_job, open_log
from .settings import current, shared_options
from .terminal import status_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from ...domain.job import Job
    from ...eventstore.store import JobRow
    from ...workers.commands.log import JobLog


@click.command(name="show")
@click.argument("job_id", metavar="ID")
@click.option("--events", "every", is_flag=True, help="Every event, not only the turning points.")
@shared_options()
def show_command(*, job_id: str, every: bool) -> None:
    """Show a job and what happened to it."""
    with open_log(reading=True) as log:
        found = find_job(log, job_id)
        row = log.row(found)
        if row.get("in_outbox"):
            _show_outbox(row)
            return
        if current().as_json:
            stream(_document(log, found, row, every=every), between="")
        else:
            stream(_lines(log, found, row, every=every))


def _show_outbox(row: JobRow) -> None:
    from ..shapes import of_row

    if current().as_json:
        click.echo(encoded({"job": of_row(row), "history": []}))
        return
    click.echo(f"job {row['id']}  {status_text('queued', width=0)}")
    click.echo(f"  {clean(row['kind'])}: in the outbox; no worker has moved it into the log yet")


def _document(log: JobLog, job_id: UUID, row: JobRow, *, every: bool) -> Iterator[str]:
    """One document, written piece by piece: a job may have millions of events."""
    from .. import history, shapes

    shape = shapes.of_job(row, _replayed(log, job_id), log.store.lease(job_id), log.store)
    yield '{"job": ' + encoded(shape)
    yield ', "history": ' + encoded([turn.document() for turn in history.turns(log, job_id)])
    if every:
        for index, event in enumerate(history.events(log, job_id)):
            yield (', "events": [' if index == 0 else ", ") + encoded(shapes.of_event(event, stream_key="job"))
        yield "]"
    yield "}"


def _lines(log: JobLog, job_id: UUID, row: JobRow, *, every: bool) -> Iterator[str]:
    from .. import history

    job, now = _replayed(log, job_id), log.now()
    yield f"job {job_id}  {status_text(row['status'], warnings=row['outcome'] == 'with-warnings', width=0)}"
    for name, value in _facts(log, row, job):
        yield f"  {name:<10} {value}"
    yield ""
    if every:
        yield f"{'POSITION':>8} {'VERSION':>6}  {'TIME':>8}  EVENT"
        yield from (history.event_line(log, event, now) for event in history.events(log, job_id))
    else:
        yield from (turn.line(now) for turn in history.turns(log, job_id))


def _replayed(log: JobLog, job_id: UUID) -> Job | None:
    """The job as its events tell it; None if newer code wrote some: then there is its row, and the events as stored."""
    try:
        return log.job(job_id)
    except UnknownEventError as error:
        say(f"note: {clean(str(error))}")
        return None


def _facts(log: JobLog, row: JobRow, job: Job | None) -> Iterator[tuple[str, str]]:
    now = log.now()
    yield "kind", clean(f"{row['kind']}  (queue {row['queue']}, priority {row['priority']}, tenant {row['tenant']})")
    if job is not None:
        yield "args", clean(_short(job.args))
    yield "key", clean(row["key"])
    if row["owner"]:
        yield "owner", clean(row["owner"])
    if row["reason"] or row["reason_text"]:
        yield "reason", clean(": ".join(part for part in (row["reason"], row["reason_text"]) if part))
    total = "" if row["total"] is None else f" of {row['total']:,}"
    skipped = f", {row['skipped']:,} skipped" if row["skipped"] else ""
    yield "units", f"{row['done']:,}{total} done{skipped}"
    if job is not None and job.tallies:
        yield "tallies", clean(", ".join(f"{name} {count:,}" for name, count in job.tallies.items()))
    if row["status"] == "running":
        yield "worker", clean(row["worker"])
    if row["status"] in {"queued", "waiting"}:
        yield "due", clock_time(moment(row["due_at"]), now)
    lived = (moment(row["finished_at"]) if row["finished_at"] else now) - moment(row["created_at"])
    died = f", {counted(row['reclaims'], 'time')} taken back from a dead worker" if row["reclaims"] else ""
    yield "attempts", f"{row['attempt']:,} in {span(lived.total_seconds())}{died}"
    if job is not None and job.result is not None:
        yield "result", clean(_short(job.result))


def _short(value: Any, limit: int = 300) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= limit else text[: limit - 1] + "…"
