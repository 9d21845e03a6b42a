"""The claimer's thread looks for a job to give way while the loop's thread begins and ends jobs."""

from types import SimpleNamespace
from typing import Any

from joblog import JobLog, Jobs, Worker, WorkerSettings


class Ending:
    """A job that ends just while it is looked at."""

    def __init__(self, running: dict[Any, Any], began: float) -> None:
        self._running, self._began = running, began
        self.asked: list[str] = []
        self.control = SimpleNamespace(ask=self.asked.append)

    @property
    def began(self) -> float:
        self._running.clear()
        return self._began


def test_jobs_that_end_meanwhile_do_not_end_the_worker(sqlite_url: str) -> None:
    with JobLog.open(sqlite_url) as log:
        worker = Worker(log, Jobs(), WorkerSettings("w"))
        running: dict[Any, Any] = worker._running
        now = log.clock.monotonic()
        jobs = [Ending(running, now - began) for began in (100, 200, 150)]
        running.update({object(): (job, None) for job in jobs})

        worker._ask_to_yield()

    assert [job.asked for job in jobs] == [[], ["yield"], []]
