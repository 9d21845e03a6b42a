"""RAF-05, RAF-14, RAF-15, GAT-07: the client behind a gate, in jobs, against a provider that closes for a while."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest

from joblog.domain.errors import JobLogError, StoreFullError, StoreUnavailableError, UnknownOutcomeError
from joblog.eventstore import failpoint
from joblog.workers.commands.log import JobLog
from joblog.workers.outbound.settings import client_for
from joblog.workers.registry import Jobs
from joblog.workers.run import Run
from tests.workers.outbound import servers
from tests.workers.outbound.servers import Behaviour, always, answer, serving
from tests.workers.outbound.working import run_all


@pytest.fixture
def log(database_url: str) -> Iterator[JobLog]:
    with JobLog.open(database_url) as log:
        yield log


def calling(log: JobLog, environ: dict[str, str], url: str) -> Jobs:
    jobs = Jobs()

    @jobs.job("call")
    async def call(run: Run, args: Any) -> int:
        async def once() -> int:
            async with client_for(log, environ) as client:
                response = await client.request("POST", url, unit_id=run.unit_id, around=lambda: run.gate("crm"))
            return response.status

        return await run.step("call", once)

    return jobs


def ended(log: JobLog, behaviour: Behaviour, *, until: set[str], jobs: int = 1) -> tuple[list[Any], servers.Server]:
    """Jobs one after the other, each until it is *until*."""

    async def scene() -> tuple[list[Any], servers.Server]:
        async with serving(behaviour) as server:
            environ = {"JOBLOG_OUTBOUND_ALLOW": f"127.0.0.1 127.0.0.1 {server.port}"}
            registry = calling(log, environ, server.url)
            ids = []
            for number in range(jobs):
                ids.append(log.submit(registry.spec("call", None)).job_id)
                await asyncio.to_thread(run_all, log, registry, {str(number): ids[-1]}, until)
            return [log.job(one) for one in ids], server

    return servers.run(scene())


def test_an_answer_is_the_result_and_the_unit_is_the_idempotency_key(log: JobLog) -> None:
    [job], server = ended(log, always(answer(201)), until={"completed"})

    assert (job.status, job.result) == ("completed", 201)
    assert len(server.asked) == 1
    assert len(server.asked[0].all("idempotency-key")[0]) == 36


@pytest.mark.parametrize(
    ("error", "standing"),
    [
        (StoreUnavailableError, ("completed", "", 0)),  # waited for
        (UnknownOutcomeError, ("completed", "", 0)),  # looked up
        (StoreFullError, ("waiting", "storage", 1)),
    ],
)
def test_our_own_store_failing_is_no_refusal_by_the_provider(
    log: JobLog, error: type[JobLogError], standing: tuple[str, str, int]
) -> None:
    """RTY-10: whatever its text says, and it had taken the request."""
    refused: list[bool] = []

    def refuse() -> None:
        refused.append(True)
        failpoint.disarm()
        raise error("550 5.1.1 the provider rejects you for good")

    async def accepted(_: servers.Asked, writer: asyncio.StreamWriter) -> None:
        failpoint.arm("append.before_commit", refuse)
        writer.write(answer(201))
        await writer.drain()

    try:
        [job], server = ended(log, accepted, until={"completed", "failed", "paused", "waiting"})
    finally:
        failpoint.disarm()

    assert refused == [True]
    assert (job.status, job.reason, job.failures) == standing
    assert len(server.asked) == 1


def test_a_blocked_attachment_is_a_warning_of_its_unit(log: JobLog) -> None:
    """SSR-14, STA-05: the others are fetched, nothing is contacted for it, and the job does not say that it is plainly done."""
    jobs = Jobs()

    @jobs.job("attachments", on_unit_failure="skip")
    async def attachments(run: Run, args: list[str]) -> None:
        environ = {"JOBLOG_OUTBOUND_ALLOW": f"127.0.0.1 127.0.0.1 {urlsplit(args[0]).port}"}
        async with client_for(log, environ) as client:

            async def fetch(url: str) -> int:
                return len((await client.request("GET", url)).body)

            async for item in run.items("attachments", args):
                await item.once("fetched", fetch, item.value)

    async def scene() -> tuple[Any, servers.Server]:
        async with serving(always(answer(200, b"picture"))) as server:
            urls = [f"{server.url}a.png", "http://169.254.169.254/latest/meta-data/b.png", f"{server.url}c.png"]
            job_id = log.submit(jobs.spec("attachments", urls)).job_id
            await asyncio.to_thread(run_all, log, jobs, {"one": job_id}, {"completed", "failed", "paused"})
            return log.job(job_id), server

    job, server = servers.run(scene())

    assert (job.status, job.outcome, job.skipped) == ("completed", "with-warnings", 1)
    assert [asked.line.split()[1] for asked in server.asked] == ["/a.png", "/c.png"]
    [skipped] = [event for event in log.store.read(job.id) if event.topic == "joblog.job.unit-skipped"]
    assert b"destination-refused" in skipped.state


def test_a_retry_after_is_the_stored_instant_and_closes_the_gate_for_every_job(log: JobLog) -> None:
    busy = answer(429, b"c4n4ry-body" * 1_000, ("Retry-After", "300"))
    (first, second), server = ended(log, always(busy), until={"waiting"}, jobs=2)

    assert (first.status, second.status) == ("waiting", "waiting")
    assert len(server.asked) == 1  # the second did not even ask
    assert first.due_at - first.modified_on > timedelta(seconds=295)
    events = b"".join(event.state for job in (first, second) for event in log.store.read(job.id))
    assert b'"origin":"delta"' in events
    assert events.count(b"c4n4ry-body") <= 20


def test_a_wait_over_a_day_is_parked(log: JobLog) -> None:
    [job], server = ended(log, always(answer(503, b"", ("Retry-After", "90000"))), until={"paused"})

    assert (job.status, len(server.asked)) == ("paused", 1)
    assert job.due_at - job.modified_on > timedelta(hours=24)
