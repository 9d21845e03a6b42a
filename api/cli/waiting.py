"""Seeing a job through: progress until it ends; with a worker in this process where nobody else would run it."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final

import click

from ...domain.errors import StoreBusyError, StoreUnavailableError
from ..measure import Measuring
from ..text import clean
from .exits import OF_STATUS, Exit
from .logs import start_logging
from .output import emit, say
from .progress import Progress
from .settings import current
from .signals import Stopping
from .watching import verdict

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from ...eventstore.store import JobRow
    from ...workers.commands.log import JobLog
    from ...workers.registry import Jobs
    from ...workers.worker import Worker

_LOOK_SECONDS: Final = 0.1  #: between two looks at the job, at least
_IDLE_SECONDS: Final = 1.0  #: and at most
_HINT_SECONDS: Final = 3.0  #: that a job may stand in line before its reason is told


def see_through(
    log: JobLog,
    job_id: UUID,
    jobs: Jobs,
    *,
    limit: float | None = None,
    document: dict[str, Any] | None = None,
    always_work: bool = False,
) -> Exit:
    """Follow a job to its end, say how it ended, and answer the exit code for that.

    *always_work*: with a worker in this process, whoever else is there.
    """
    start_logging(logging.WARNING)
    needed = always_work or (log.store.dialect == "sqlite" and not _somebody_works(log, job_id))
    with _worker_here(log, job_id, jobs) if needed else nullcontext() as local:
        row = Watch(log, job_id, local).follow(limit)
    end = OF_STATUS.get(row["status"], Exit.JOB_PARKED)
    if local is not None and local.stopping is not None and local.stopping.received is not None:
        say(f"the job is kept: any worker goes on at its checkpoint; see `joblog show {job_id}`")
        end = local.stopping.end if end is Exit.JOB_PARKED and row["status"] != "paused" else end
    from ..shapes import of_row

    if current().as_json:
        emit((document or {"id": str(job_id)}) | {"job": of_row(row)})
    else:
        click.echo(verdict(of_row(row)))
    return end


# -- a worker of our own ---------------------------------------------------------------------------------------------


class LocalWorker:
    """A worker in a thread of this process."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.stopping: Stopping | None = None
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name="joblog-worker")

    def _run(self) -> None:
        try:
            self.worker.run()
        except BaseException as error:  # noqa: BLE001 - it is raised again where somebody reads it
            self.error = error


@contextmanager
def _worker_here(log: JobLog, job_id: UUID, jobs: Jobs) -> Iterator[LocalWorker]:
    from ...workers.worker import Worker, WorkerSettings

    row = log.row(job_id)
    local = LocalWorker(Worker(log, jobs, WorkerSettings(queues=(row["queue"],))))
    say(f"this process works until the job ends, as worker {clean(local.worker.name)}")
    with Stopping(local.worker) as local.stopping:
        local.thread.start()
        try:
            yield local
        finally:
            local.worker.stop()
            local.thread.join()
    if local.error is not None:
        raise local.error


def _somebody_works(log: JobLog, job_id: UUID) -> bool:
    """Whether the job runs under a live lease, or a worker of this log is alive on this machine."""
    from ...workers import presence

    lease = log.store.lease(job_id)
    if lease is not None and lease.lease_until > log.store.lease_now() and lease.boot_id == log.store.boot_id():
        return not (lease.presence and presence.is_dead(lease.presence, log.store.boot_id()))
    return bool(live_workers(log))


def live_workers(log: JobLog) -> int:
    """How many workers of this log and of this account are alive on this machine, by their locked presence files."""
    import fcntl

    from ...workers import presence

    alive = 0
    for path in presence.folder_for(log.store.state().store_id).glob("*.alive"):
        try:
            with path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            alive += 1
        except OSError:  # gone between the two looks
            continue
    return alive


# -- watching --------------------------------------------------------------------------------------------------------


class Watch:
    """Looks at one job until it stands still."""

    def __init__(self, log: JobLog, job_id: UUID, local: LocalWorker | None) -> None:
        self._log, self._job_id, self._local = log, job_id, local
        self._wake = threading.Event()
        self._hint_at = time.monotonic() + _HINT_SECONDS

    def follow(self, limit: float | None) -> JobRow:
        """The job's row once it ended, paused, our worker was stopped, or *limit* seconds are over."""
        ticket = self._log.waker.subscribe(self._wake.set)
        measuring, progress = Measuring(self._log), None
        until = None if limit is None else time.monotonic() + limit
        try:
            while True:
                self._wake.clear()
                row = self._row()
                progress = progress or Progress(clean(row["kind"]))
                progress.update(measuring.of(row), self._note(row))
                self._hint(row, progress)
                if row["status"] in OF_STATUS or self._is_over(until):
                    return row
                self._pause(until)
        finally:
            self._log.waker.unsubscribe(ticket)
            if progress is not None:
                progress.end()

    def _row(self) -> JobRow:
        """The row, however long the database needs to come back."""
        while True:
            try:
                return self._log.row(self._job_id)
            except (StoreBusyError, StoreUnavailableError):
                self._wake.wait(_IDLE_SECONDS)
                self._wake.clear()

    def _is_over(self, until: float | None) -> bool:
        if self._local is not None and not self._local.thread.is_alive():
            return True
        return until is not None and time.monotonic() >= until

    def _pause(self, until: float | None) -> None:
        """Until something was appended, or it is time to look anyway; never busier than ten looks a second."""
        threading.Event().wait(_LOOK_SECONDS)
        left = _IDLE_SECONDS if until is None else min(_IDLE_SECONDS, max(until - time.monotonic(), 0))
        self._wake.wait(left)

    def _hint(self, row: JobRow, progress: Progress) -> None:
        """Say once why nobody takes the job."""
        if row["status"] not in {"queued", "waiting"}:
            self._hint_at = float("inf")
        elif time.monotonic() >= self._hint_at:
            from .. import explain

            self._hint_at = float("inf")
            progress.end()
            say(explain.paragraph(row, explain.reasons(self._log, row)))

    def _note(self, row: JobRow) -> str:
        if row["status"] == "running":
            return ""
        said = f": {row['reason']}" if row["reason"] else ""
        return clean(f"({row['status']}{said})")
