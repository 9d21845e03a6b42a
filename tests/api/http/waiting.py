"""Waiting, with a bound, for what other threads do."""

from threading import Event
from uuid import UUID

from joblog.domain.job import Job
from joblog.domain.status import ENDED
from joblog.workers.commands.log import JobLog


def ended(log: JobLog, job_id: str, seconds: float = 60.0) -> Job:
    """The job, once it has ended."""
    wake = Event()
    ticket = log.waker.subscribe(wake.set)
    try:
        for _ in range(int(seconds / 0.1)):
            job = log.job(UUID(job_id))
            if job.status in ENDED:
                return job
            wake.wait(0.1)
            wake.clear()
    finally:
        log.waker.unsubscribe(ticket)
    raise TimeoutError(f"{job_id} is {job.status} ({job.reason}: {job.reason_text})")
