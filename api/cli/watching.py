"""Seeing a job through that a service answers for: progress until it ends; somebody else's worker runs it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

import click

from ...domain.errors import StoreBusyError, StoreUnavailableError
from ...eventstore.clock import SystemClock, pause
from ..measure import Measure
from ..shapes import row_part
from ..text import clean, counted, span
from .exits import OF_STATUS, Exit
from .output import emit, say
from .progress import Progress
from .settings import current
from .terminal import status_text

if TYPE_CHECKING:
    from .door import Document, Door

_LOOK_SECONDS: Final = 0.5  #: between two looks at the job
_HINT_SECONDS: Final = 3.0  #: that a job may stand in line before its reason is told


def see_through_from_afar(door: Door, document: Document, *, limit: float | None) -> Exit:
    """Follow a job to its end, say how it ended, and answer the exit code for that."""
    job = _follow(door, document, limit)
    if current().as_json:
        emit(document | {"job": row_part(job)})
    else:
        click.echo(verdict(job))
    return OF_STATUS.get(job["status"], Exit.JOB_PARKED)


def _follow(door: Door, document: Document, limit: float | None) -> Document:
    clock = SystemClock()
    began, progress, is_told = clock.monotonic(), Progress(clean(document["kind"])), False
    try:
        while True:
            try:
                job = door.job(document["id"])
            except (StoreBusyError, StoreUnavailableError):  # a job is not given up because a service restarts
                if limit is not None and clock.monotonic() - began >= limit:
                    raise
                pause(_LOOK_SECONDS)
                continue
            waited = clock.monotonic() - began
            progress.update(Measure((job["done"] or 0) + (job["skipped"] or 0), job["total"], "unit"))
            if job["status"] in OF_STATUS or (limit is not None and waited >= limit):
                return job
            if not is_told and waited >= _HINT_SECONDS and job["status"] in {"queued", "waiting"}:
                is_told = True
                progress.end()
                say(door.why(document["id"])["text"])
            pause(_LOOK_SECONDS if limit is None else min(_LOOK_SECONDS, max(limit - waited, 0.01)))
    finally:
        progress.end()


def verdict(job: Document) -> str:
    """How it ended, for people."""
    took = ""
    if job["finished_at"] and job["started_at"]:
        lasted = datetime.fromisoformat(job["finished_at"]) - datetime.fromisoformat(job["started_at"])
        took = f" in {span(lasted.total_seconds())}"
    said = ": ".join(part for part in (job["reason"], job["reason_text"]) if part)
    status = status_text(job["status"], warnings=job["outcome"] == "with-warnings", width=0)
    return (
        f"job {job['id']} {status}{took}: {counted(job['done'] or 0, 'unit')} done{clean(f' ({said})' if said else '')}"
    )
