"""A worker that has the main thread leaves what it began with out of the search for cycles, and gives it back at its end."""

import gc
import threading

import pytest

from joblog import JobLog, Jobs, Run, Worker, WorkerSettings
from joblog.eventstore.memory_store import MemoryStore
from tests.patience import BOUND


def left_out(*, in_thread: bool) -> int:
    """How many objects are left out while a job runs."""
    jobs, seen = Jobs(), list[int]()
    with JobLog(MemoryStore()) as log:
        worker = Worker(log, jobs, WorkerSettings("w"))

        @jobs.job("look")
        async def look(run: Run, args: int) -> None:
            seen.append(gc.get_freeze_count())
            worker.stop()

        log.submit(jobs.spec("look", 1))
        if in_thread:
            thread = threading.Thread(target=worker.run)
            thread.start()
            thread.join(BOUND)
        else:
            worker.run()
    return seen[0]


def test_only_the_main_thread_speaks_for_its_process() -> None:
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("tests run beside the main thread here")

    assert left_out(in_thread=False) > 0
    assert gc.get_freeze_count() == 0
    assert left_out(in_thread=True) == 0
