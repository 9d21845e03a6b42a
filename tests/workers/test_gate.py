"""``run.gate``: what the author of an operation sees of gates, with a clock that only the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from joblog.domain.errors import InvalidFieldError, StoreBusyError
from joblog.domain.job import Job
from joblog.domain.retry import RetryPolicy
from joblog.domain.status import Status
from joblog.eventstore.memory_store import MemoryStore
from joblog.workers.errors import RetryLater
from joblog.workers.outbound.retry_after import ResetForm
from joblog.workers.registry import Jobs, Operation
from joblog.workers.run import Run, SyncRun
from joblog.workers.testing import Lab

DAY = 86_400


@dataclass
class Provider:
    """Closed until an instant; says so in the way of HTTP."""

    lab: Lab
    open_at: datetime
    status: int = 429
    served: list[datetime] = field(default_factory=list)

    def request(self) -> tuple[int, dict[str, str]]:
        now = self.lab.clock.now()
        self.served.append(now)
        left = (self.open_at - now).total_seconds()
        return (self.status, {"retry-after": f"{left:.0f}"}) if left > 0 else (200, {})


def asking(provider: Provider, *, is_async: bool, retries: int = 5) -> Operation[Any, Any]:
    jobs = Jobs()
    if is_async:

        @jobs.job("ask", retry=RetryPolicy(retries=retries))
        async def ask(run: Run, args: dict[str, Any]) -> int:
            async def request() -> int:
                async with run.gate("crm") as turn:
                    status, headers = provider.request()
                    await turn.answered(status, headers)
                    return status

            return await run.step("request", request)

        return ask

    @jobs.job("ask", retry=RetryPolicy(retries=retries))
    def ask_in_a_thread(run: SyncRun, args: dict[str, Any]) -> int:
        def request() -> int:
            with run.gate("crm") as turn:
                status, headers = provider.request()
                turn.answered(status, headers)
                return status

        return run.step("request", request)

    return ask_in_a_thread


BOTH = pytest.mark.parametrize("is_async", [True, False], ids=["async", "thread"])


def closed_for(lab: Lab, seconds: float, **more: Any) -> Provider:
    return Provider(lab, lab.clock.now() + timedelta(seconds=seconds), **more)


def topics(lab: Lab, job_id: UUID) -> list[str]:
    return [event.topic.removeprefix("joblog.job.") for event in lab.log.store.read(job_id)]


def run_once(lab: Lab, operation: Operation[Any, Any], job_id: UUID) -> Job:
    """One claim, whatever becomes of it."""
    for held in lab.log.claim("lab", limit=10):
        lab.execute(operation, held)
    return lab.log.job(job_id)


@BOTH
def test_raf_09_a_provider_closed_for_300_s_is_asked_twice(*, is_async: bool) -> None:
    lab = Lab()
    provider = closed_for(lab, 300)
    job = lab.run(asking(provider, is_async=is_async), {})

    assert (job.status, job.result, job.failures) == (Status.COMPLETED, 200, 1)
    assert len(provider.served) == 2
    assert provider.served[1] == provider.open_at


@BOTH
@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_raf_10_the_instant_is_heeded_on_every_retryable_status(status: int, *, is_async: bool) -> None:
    lab = Lab()
    provider = closed_for(lab, 90, status=status)
    job = lab.run(asking(provider, is_async=is_async), {})

    assert (job.status, len(provider.served)) == (Status.COMPLETED, 2)
    assert provider.served[1] == provider.open_at


@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 409, 410, 422, 501])
def test_a_final_status_is_left_to_the_operation(status: int) -> None:
    lab = Lab()
    provider = closed_for(lab, 90, status=status)
    job = lab.run(asking(provider, is_async=True), {})

    assert (job.status, len(provider.served)) == (Status.COMPLETED, 1)


@BOTH
def test_raf_15_another_jobs_first_request_waits_and_that_is_no_attempt(*, is_async: bool) -> None:
    """RTY-12: the second job may not fail once, and does not."""
    lab = Lab()
    provider = closed_for(lab, 300)
    operation = asking(provider, is_async=is_async, retries=1)
    strict = asking(provider, is_async=is_async, retries=0)
    first = operation.submit(lab.log, {}, key="first").job_id
    assert run_once(lab, operation, first).status is Status.WAITING
    second = strict.submit(lab.log, {}, key="second").job_id

    job = run_once(lab, strict, second)
    assert (job.status, job.reason, job.gate, job.unit_attempt) == (Status.WAITING, "gate", "crm", 0)
    assert len(provider.served) == 1
    for _ in range(5):
        lab.clock.advance(50)
        assert run_once(lab, strict, second).status is Status.WAITING
    lab.clock.advance(50)

    assert lab.finish(strict, second).status is Status.COMPLETED
    assert topics(lab, second).count("gate-awaited") == 1
    assert min(provider.served[1:]) >= provider.open_at


@BOTH
def test_more_than_a_day_parks_the_job_and_nothing_but_an_operator_resumes_it(*, is_async: bool) -> None:
    lab = Lab()
    provider = closed_for(lab, 3 * DAY)
    operation = asking(provider, is_async=is_async)
    job = lab.run(operation, {})

    assert (job.status, job.reason, job.gate) == (Status.PAUSED, "provider-waits", "crm")
    assert job.due_at == provider.open_at
    assert f"{provider.open_at:%Y-%m-%d %H:%M:%S}" in job.reason_text
    [state] = lab.store.gates("crm")
    assert state.row.closed_by == str(job.id)
    assert state.row.closed_reason == "429 (delta)"
    lab.clock.advance(8 * DAY)
    assert run_once(lab, operation, job.id).status is Status.PAUSED


def test_a_gate_that_can_not_be_closed_changes_nothing_for_the_job_that_was_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab = Lab()

    def busy(*_: Any, **__: Any) -> int:
        raise StoreBusyError("busy")

    monkeypatch.setattr(MemoryStore, "close_gate", busy)
    provider = closed_for(lab, 300)
    job = lab.run(asking(provider, is_async=True), {})

    assert (job.status, len(provider.served)) == (Status.COMPLETED, 2)
    assert provider.served[1] == provider.open_at


def test_exactly_a_day_is_waited_for() -> None:
    lab = Lab()
    provider = closed_for(lab, DAY)
    job = lab.run(asking(provider, is_async=True), {})

    assert (job.status, len(provider.served)) == (Status.COMPLETED, 2)


def test_an_exhausted_job_is_not_resumed_before_the_providers_instant() -> None:
    lab = Lab()
    provider = closed_for(lab, 600)
    job = lab.run(asking(provider, is_async=True, retries=0), {})

    assert (job.status, job.reason, job.due_at) == (Status.PAUSED, "exhausted-provider", provider.open_at)


def test_a_reset_only_lengthens_the_back_off() -> None:
    """RAF-06."""
    waited = []
    for reset in ("2", "60"):
        lab = Lab()
        jobs = Jobs()

        @jobs.job("ask", retry=RetryPolicy(first_seconds=10, ceiling_seconds=10, jitter=0))
        async def ask(run: Run, args: dict[str, str]) -> int:
            async with run.gate("crm") as turn:
                await turn.answered(429, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": args["reset"]})
            return 0

        operation = jobs.get("ask")
        began = lab.clock.now()
        job_id = operation.submit(lab.log, {"reset": reset}).job_id
        waited.append((run_once(lab, operation, job_id).due_at - began).total_seconds())

    assert waited == [10, 60]


@BOTH
def test_a_turn_is_held_for_one_request_and_given_back(*, is_async: bool) -> None:
    lab = Lab()
    lab.store.set_gate("crm", 1, 0)
    seen: list[int] = []
    jobs = Jobs()
    if is_async:

        @jobs.job("ask")
        async def ask(run: Run, args: dict[str, Any]) -> None:
            for _ in range(3):
                async with run.gate("crm"):
                    seen.append(lab.store.gates("crm")[0].requests)

    else:

        @jobs.job("ask")
        def ask_in_a_thread(run: SyncRun, args: dict[str, Any]) -> None:
            for _ in range(3):
                with run.gate("crm"):
                    seen.append(lab.store.gates("crm")[0].requests)

    job = lab.run(jobs.get("ask"), {})

    assert job.status is Status.COMPLETED
    assert seen == [1, 1, 1]
    assert lab.store.gates("crm")[0].requests == 0


def test_a_slot_is_given_back_when_the_request_fails() -> None:
    lab = Lab()
    lab.store.set_gate("crm", 1, 0)
    jobs = Jobs()

    @jobs.job("ask", retry=RetryPolicy(retries=0))
    async def ask(run: Run, args: dict[str, Any]) -> None:
        try:
            async with run.gate("crm"):
                raise RetryLater("reset", category="network")
        finally:
            assert lab.store.gates("crm")[0].requests == 0

    assert lab.run(ask, {}).reason == "exhausted-network"


@pytest.mark.parametrize("tenant", ["default", "acme"])
@pytest.mark.parametrize("credential", ["", "env:CRM"])
def test_each_tenant_and_credential_passes_its_own_gate(tenant: str, credential: str) -> None:
    lab = Lab()
    lab.store.close_gate("crm", lab.store.now() + 10**9, by="a", reason="")
    names: list[str] = []
    jobs = Jobs()

    @jobs.job("ask")
    async def ask(run: Run, args: dict[str, Any]) -> None:
        async with run.gate("crm", credential=credential) as turn:
            names.append(turn.gate)

    began = lab.clock.now()
    lab.run(ask, {}, tenant=tenant)

    assert names == [f"crm{'/' if credential else ''}{credential}{'' if tenant == 'default' else '@acme'}"]
    assert (lab.clock.now() > began) == (names == ["crm"])


def test_a_job_that_declares_its_gate_is_not_claimed_while_it_is_closed() -> None:
    lab = Lab()
    jobs = Jobs()
    crm = jobs.gate("crm", slots=2, spacing=0.12)

    @jobs.job("ask", gate=crm)
    async def ask(run: Run, args: dict[str, Any]) -> None:
        async with run.gate(crm):
            pass

    lab.store.close_gate("crm", lab.store.now() + 60_000_000, by="a", reason="")
    job_id = ask.submit(lab.log, {}).job_id
    assert lab.log.claim("w") == []
    assert topics(lab, job_id) == ["submitted"]
    assert lab.finish(ask, job_id).status is Status.COMPLETED
    assert topics(lab, job_id).count("claimed") == 1


def test_a_jobs_own_requests_take_turns_in_place() -> None:
    """A gate that the job itself fills must not undo what its other requests do."""
    lab = Lab()
    lab.store.set_gate("crm", 1, 0)
    under_way, most, done = 0, 0, 0
    jobs = Jobs()

    @jobs.job("ask")
    async def ask(run: Run, args: dict[str, Any]) -> int:
        nonlocal under_way, most, done

        async def one() -> None:
            nonlocal under_way, most, done
            async with run.gate("crm"):
                under_way += 1
                most = max(most, under_way)
                await run.sleep(0.01)
                under_way -= 1
                done += 1

        await asyncio.gather(*(one() for _ in range(4)))
        return done

    job = lab.run(ask, {})

    assert (job.result, most, job.attempt) == (4, 1, 1)


@pytest.mark.parametrize("declares", [True, False])
def test_a_crowd_behind_a_closed_gate_costs_at_most_one_wait_each(*, declares: bool) -> None:
    lab = Lab()
    jobs = Jobs()
    served = []

    @jobs.job("ask", gate="crm" if declares else "")
    async def ask(run: Run, args: dict[str, Any]) -> None:
        async with run.gate("crm"):
            served.append(lab.clock.now())

    lab.store.close_gate("crm", lab.store.now() + 3_600_000_000, by="a", reason="")
    ids = [ask.submit(lab.log, {}, key=f"{n}").job_id for n in range(60)]
    for _ in range(10):
        for held in lab.log.claim("w", limit=100):
            lab.execute(ask, held)
        lab.clock.advance(60)

    waits = 0 if declares else len(ids)
    assert served == []
    assert lab.store.head() == len(ids) + 2 * waits  # submitted; claimed and given back at most once
    lab.clock.advance(3600)
    for held in lab.log.claim("w", limit=100):
        lab.execute(ask, held)
    assert len(served) == len(ids)
    assert {lab.log.job(job_id).status for job_id in ids} == {Status.COMPLETED}


REFUSED: dict[str, Callable[[Jobs], Any]] = {
    "a slash": lambda jobs: jobs.gate("crm/a"),
    "twice": lambda jobs: (jobs.gate("crm"), jobs.gate("crm")),
    "no count": lambda jobs: jobs.gate("crm", slots=-1),
    "no span": lambda jobs: jobs.gate("crm", spacing=float("nan")),
    "several, one by one": lambda jobs: jobs.gate("crm", slots=2, one_by_one=True),
    "no form": lambda jobs: jobs.gate("crm", reset_form="guess"),  # type: ignore[arg-type]
    "merged twice": lambda jobs: (jobs.gate("crm"), jobs.merged(_with_crm())),
}


def _with_crm() -> Jobs:
    jobs = Jobs()
    jobs.gate("crm")
    return jobs


@pytest.mark.parametrize("case", REFUSED)
def test_a_gate_that_can_not_be_meant_is_refused(case: str) -> None:
    with pytest.raises(InvalidFieldError):
        REFUSED[case](Jobs())


# -- what is declared of a provider --------------------------------------------------------------------------------


def told(reset_form: ResetForm, reset: str) -> float:
    """How long a job waits that was told so by a provider of this form."""
    jobs = Jobs()
    crm = jobs.gate("crm", reset_form=reset_form)
    lab = Lab(jobs)

    @jobs.job("ask", retry=RetryPolicy(first_seconds=1, ceiling_seconds=1, jitter=0))
    async def ask(run: Run, args: dict[str, Any]) -> None:
        async with run.gate(crm) as turn:
            await turn.answered(429, {"X-RateLimit-Reset": reset})

    job_id = ask.submit(lab.log, {}).job_id
    began = lab.clock.now()
    for held in lab.log.claim("lab"):
        lab.execute(ask, held)
    return (lab.log.job(job_id).due_at - began).total_seconds()


@pytest.mark.parametrize("declared", ["", "delta", "epoch", "epoch-ms", "rfc3339"])
@pytest.mark.parametrize("sent", ["delta", "epoch", "epoch-ms", "rfc3339"])
def test_raf_07_a_provider_declares_how_its_reset_header_is_read(declared: ResetForm, sent: str) -> None:
    now = Lab().clock.now()
    at = now + timedelta(seconds=60)
    forms = {
        "delta": "60",
        "epoch": f"{at.timestamp():.0f}",
        "epoch-ms": f"{at.timestamp() * 1000:.0f}",
        "rfc3339": f"{at:%Y-%m-%dT%H:%M:%SZ}",
    }

    assert told(declared, forms[sent]) == (60 if declared in ("", sent) else 1)


@BOTH
def test_one_by_one_the_spacing_counts_from_the_end_of_a_request(*, is_async: bool) -> None:
    """GAT-02: whatever the way to the provider costs, no two arrive closer."""
    jobs = Jobs()
    crm = jobs.gate("crm", spacing=5.0, one_by_one=True)
    lab = Lab(jobs)
    begun: list[datetime] = []
    ended: list[datetime] = []

    def slow() -> None:
        begun.append(lab.clock.now())
        lab.clock.advance(2)
        ended.append(lab.clock.now())

    if is_async:

        @jobs.job("ask", gate=crm)
        async def ask(run: Run, args: dict[str, Any]) -> None:
            async with run.gate(crm):
                slow()

    else:

        @jobs.job("ask", gate=crm)
        def ask_in_a_thread(run: SyncRun, args: dict[str, Any]) -> None:
            with run.gate(crm):
                slow()

    operation = jobs.get("ask")
    ids = [operation.submit(lab.log, {}, key=f"{n}").job_id for n in range(3)]
    for job_id in ids:
        assert lab.finish(operation, job_id).status is Status.COMPLETED

    assert [later - earlier for earlier, later in zip(ended, begun[1:], strict=False)] == [timedelta(seconds=5)] * 2
