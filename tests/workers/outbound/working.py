"""A worker in a thread, until its jobs are done."""

import threading
from typing import Any

from joblog.workers.commands.log import JobLog
from joblog.workers.registry import Jobs
from joblog.workers.worker import Worker, WorkerSettings

ENDED = {"completed", "failed", "paused"}


def run_all(log: JobLog, jobs: Jobs, ids: dict[str, Any], until: set[str] = ENDED) -> dict[str, str]:
    """What became of each job of *ids*, once all are *until*."""
    worker = Worker(log, jobs, WorkerSettings(slots=4))
    thread = threading.Thread(target=worker.run)
    thread.start()
    changed = threading.Event()
    ticket = log.waker.subscribe(changed.set)
    statuses: dict[str, str] = {}
    for _ in range(600):
        statuses = {kind: str(log.job(job_id).status) for kind, job_id in ids.items()}
        if set(statuses.values()) <= until:
            break
        changed.wait(0.1)
        changed.clear()
    worker.stop()
    thread.join()
    log.waker.unsubscribe(ticket)
    return statuses
