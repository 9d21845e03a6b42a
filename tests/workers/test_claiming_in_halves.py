"""A worker claims one half of its slots while the other runs: never all at once, and without waiting for a hint."""

import threading
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from joblog import JobLog, Jobs, Run, SyncRun, Worker, WorkerSettings
from joblog.eventstore.memory_store import MemoryStore
from joblog.workers.commands import claiming
from joblog.workers.worker import RAMP
from tests.patience import BOUND, until

SLOTS = 8


def ended(log: JobLog, job_id: UUID) -> bool:
    return log.row(job_id)["finished_at"] is not None


def test_the_other_half_is_claimed_at_once_and_while_the_first_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs, opened, taken = Jobs(), threading.Event(), list[int]()
    plain = claiming.claim

    @jobs.job("quick")
    async def quick(run: Run, args: int) -> None:
        pass

    @jobs.job("slow")
    def slow(run: SyncRun, args: int) -> None:
        opened.wait(BOUND)

    def counted(*args: Any, **more: Any) -> Any:
        held = plain(*args, **more)
        taken.append(len(held))
        return held

    monkeypatch.setattr(claiming, "claim", counted)
    with JobLog(MemoryStore()) as log:
        worker = Worker(log, jobs, WorkerSettings("w", slots=SLOTS, poll_seconds=1000))
        thread = threading.Thread(target=worker.run)
        thread.start()
        try:
            for number in range(RAMP + 1):  # it has started by then
                job_id = log.submit(jobs.spec("quick", number)).job_id
                until(partial(ended, log, job_id))
            log.submit_many([jobs.spec("slow", number) for number in range(SLOTS)])
            until(lambda: len(log.store.find_jobs(status="running", limit=SLOTS)) == SLOTS)
        finally:
            opened.set()
            worker.stop()
            thread.join(BOUND)

    assert taken[-2:] == [SLOTS // 2, SLOTS // 2]
