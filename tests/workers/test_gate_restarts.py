"""RAF-09, NXT-02, GAT-08: a provider closed for 300 s, three workers, ten restarts; on both databases, by a moved clock."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from joblog.domain.events import UnitAttempted
from joblog.domain.status import Status
from joblog.workers.commands.log import JobLog
from joblog.workers.registry import Jobs, Operation
from joblog.workers.run import Run
from joblog.workers.worker import Worker, WorkerSettings
from tests.conformance.backends import Backend
from tests.conformance.builders import BOUND
from tests.conformance.conftest import database, prepared  # noqa: F401 - fixtures
from tests.patience import until

CLOSED_FOR = timedelta(seconds=300)
RESTARTS, WORKERS, JOBS = 10, 3, 10


class Provider:
    """Closed for 300 s from its first request on, and says so."""

    def __init__(self, clock: Any) -> None:
        self._clock, self._guard = clock, threading.Lock()
        self.asked: list[datetime] = []

    def request(self) -> tuple[int, dict[str, str]]:
        with self._guard:
            now = self._clock.now()
            self.asked.append(now)
            left = (self.asked[0] + CLOSED_FOR - now).total_seconds()
        return (429, {"Retry-After": f"{left:.0f}"}) if left > 0 else (200, {})


def asking(jobs: Jobs, provider: Provider, gate: str) -> Operation[Any, Any]:
    @jobs.job("ask", gate=gate)
    async def ask(run: Run, args: dict[str, Any]) -> int:
        async def request() -> int:
            async with run.gate("crm") as turn:
                status, headers = provider.request()
                await turn.answered(status, headers)
                return status

        return await run.step("request", request)

    return ask


@contextmanager
def at_work(backend: Backend, jobs: Jobs) -> Iterator[list[JobLog]]:
    """Three workers, each with its own open log as if in a process of its own, until each has looked around."""
    logs = [backend.open() for _ in range(WORKERS)]
    workers = [Worker(log, jobs, WorkerSettings(name=f"w{n}", poll_seconds=0.02)) for n, log in enumerate(logs)]
    threads = [threading.Thread(target=worker.run) for worker in workers]
    for thread in threads:
        thread.start()
    try:
        for log in logs:
            looked(log)
        yield logs
    finally:
        for worker in workers:
            worker.stop()
        for thread in threads:
            thread.join(BOUND)
        for log in logs:
            log.close()


def looked(log: JobLog, times: int = 3) -> None:
    """Wait until the worker on *log* has looked for work that often."""
    enough, seen, look = threading.Event(), Counter[str](), log.store.outlook

    def outlook(*args: Any) -> Any:
        seen["looks"] += 1
        if seen["looks"] > times:
            enough.set()
        return look(*args)

    log.store.outlook = outlook  # type: ignore[method-assign,assignment]
    assert enough.wait(BOUND), "the worker does not look for work"


def test_no_request_is_early_and_no_attempt_is_burned_beyond_the_first(database: Backend) -> None:  # noqa: F811
    provider, jobs = Provider(database.clock), Jobs()
    declared = asking(jobs, provider, jobs.gate("crm", slots=1))
    with database.open() as log:
        ids = [declared.submit(log, {}, key=f"{n}").job_id for n in range(JOBS)]
        with at_work(database, jobs):
            until(lambda: provider.asked and all(row["status"] != "running" for row in log.store.jobs(ids).values()))
        assert len(provider.asked) == 1
        head = log.store.head()

        for _ in range(RESTARTS):
            database.clock.move(29.9)
            with at_work(database, jobs):
                assert log.store.gates("crm")[0].row.closed_until > log.store.now()
        assert len(provider.asked) == 1
        assert log.store.head() == head  # nobody did anything but look

        database.clock.move(1)
        with at_work(database, jobs):
            until(lambda: all(row["status"] == "completed" for row in log.store.jobs(ids).values()))

        assert sorted(provider.asked)[1] >= provider.asked[0] + CLOSED_FOR
        assert len(provider.asked) == JOBS + 1
        found = log.load(ids).values()
        assert {job.status for job in found} == {Status.COMPLETED}
        assert sorted(job.failures for job in found) == [0] * (JOBS - 1) + [1]
        assert sorted(attempts(log, job_id) for job_id in ids) == [1] * (JOBS - 1) + [2]


def attempts(log: JobLog, job_id: UUID) -> int:
    """How many attempts were spent: one that met a closed gate was given back, and its number is given again."""
    announced = [e for e in log.mapper.decode_all(job_id, log.store.read(job_id)) if isinstance(e, UnitAttempted)]
    return int(announced[-1].attempt)
