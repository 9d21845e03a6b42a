"""What the tests of the commands say again and again."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson

from joblog.domain.events import CODE_VOCABULARY, UnitCompleted
from joblog.domain.identity import queue_stream
from joblog.domain.job import Actor, Job
from joblog.domain.retry import RetryPolicy
from joblog.eventstore.append import Append, EventRow
from joblog.projections.verify import row_differences, unit_differences
from joblog.workers.commands.held import Held
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend, MemoryBackend, SqlBackend
from tests.conformance.builders import assert_whole, claim, claimed, stored, submit, whole_log

FUTURE = "joblog.job.from-the-future"
ROOT = Path(__file__).parents[3]
SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
#: Waits of exactly 8, 16, 32 s and so on, then nothing is left.
STEEP = RetryPolicy(first_seconds=8, ceiling_seconds=10_000, retries=3, jitter=0)


def an_actor(name: str = "ada", request: str = "") -> Actor:
    """An operator, whose *request* is padded to a request id that is long enough."""
    return Actor(name, f"{request:-<20}" if request else "", address="192.0.2.1", text="because")


def units(*names: str) -> list[tuple[str, Any]]:
    return [(name, {"sha256": name}) for name in names]


def topics(log: JobLog, job_id: UUID) -> list[str]:
    """What happened to the job, in short."""
    return [row.topic.removeprefix("joblog.job.") for row in log.store.read(job_id)]


def events(log: JobLog, job_id: UUID) -> list[Any]:
    return log.mapper.decode_all(job_id, log.store.read(job_id))


def last(log: JobLog, job_id: UUID) -> dict[str, Any]:
    """What the newest event of the job says."""
    said: dict[str, Any] = vars(events(log, job_id)[-1])
    return said


def status(log: JobLog, job_id: UUID) -> tuple[str, str]:
    """Status and reason, which row and replay must agree on."""
    row, job = log.row(job_id), log.job(job_id)
    assert (row["status"], row["reason"]) == (job.status, job.reason)
    return str(row["status"]), str(row["reason"])


def claim_again(log: JobLog, job_id: UUID, worker: str = "w") -> Held:
    """Promote what is due and claim; the job must be among it."""
    log.promote()
    return {held.job_id: held for held in claim(log, worker)}[job_id]


def fail_unit(held: Held, unit: str = "a", **more: Any) -> int:
    return held.schedule_retry(unit, category="network", text="reset", **more)


def assert_sound(log: JobLog) -> None:
    """Positions and versions without gaps, rows equal to the fold, unit results equal to their events."""
    assert_whole(log.store)
    assert list(row_differences(log.store, log.mapper)) == []
    for job_id in {event.stream_id for event in whole_log(log.store) if event.topic == UnitCompleted.TOPIC}:
        assert list(unit_differences(log.store, log.mapper, job_id)) == []


def forget_unit(backend: Backend, job_id: UUID, unit: str) -> None:
    """Lose the stored result of one unit, as no part of joblog ever does."""
    if isinstance(backend, MemoryBackend):
        del backend.store.tables.units[job_id, unit]
    else:
        assert isinstance(backend, SqlBackend)
        backend.run("DELETE FROM unit_results WHERE job_id = ? AND unit = ?", backend.to_id(job_id), unit)


def in_status(log: JobLog, name: str) -> UUID:
    """Bring a new job into the status *name*; ``running`` may be ``running, to pause`` or ``running, to cancel``."""
    if name == "queued":
        return submit(log)
    held = claimed(log)
    ends: dict[str, Callable[[], object]] = {
        "running": lambda: None,
        "running, to pause": lambda: log.command("pause", held.job_id, an_actor()),
        "running, to cancel": lambda: log.command("cancel", held.job_id, an_actor()),
        "waiting": lambda: fail_unit(held),
        "paused": lambda: held.park(reason="quota", text="none left"),
        "failed": lambda: held.fail(reason="invalid-input", text="no such file"),
        "completed": held.complete,
        "cancelled": lambda: (log.command("cancel", held.job_id, an_actor()), held.release("yield")),
    }
    ends[name]()
    return held.job_id


def future(log: JobLog, job_id: UUID) -> None:
    """Append an event of newer code to a job, as that code would."""
    version = log.row(job_id)["version"]
    rows = [EventRow(version + 1, FUTURE, orjson.dumps({"event_id": f"{job_id}.{version}"}))]
    row = {"version": version + 1, "vocabulary": CODE_VOCABULARY + 1}
    stored(log.writer.append(Append(job_id, version, rows, f"{job_id}.{version}", row=row)))


def die(log: JobLog, backend: Backend, by: str = "reaper") -> None:
    """Let every lease run out and take the jobs back."""
    backend.clock.move(31)
    log.expire(by)


def replayed(held: Held) -> Job:
    job = held._job
    assert job is not None
    return job


def statuses(log: JobLog, jobs: list[UUID]) -> list[str]:
    return [log.row(job)["status"] for job in jobs]


def told(log: JobLog) -> list[str]:
    """What the stream of the default queue says, in order."""
    return [row.topic.removeprefix("joblog.queue.") for row in log.store.read(queue_stream("default"))]
