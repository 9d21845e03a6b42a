"""Jobs for the tests of the rules: a builder names only what matters."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import orjson

from joblog.domain import events as e
from joblog.domain.job import Actor, Job, fold
from joblog.domain.lease import Token
from joblog.domain.retry import RetryPolicy
from joblog.domain.spec import JobSpec
from joblog.domain.status import Status

STREAM = UUID("8c7d3f4e-2b1a-4c5d-9e8f-0a1b2c3d4e5f")
NOW = datetime(2030, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
LEASE = timedelta(seconds=30)
ADA = Actor("ada", request_id="request-1", address="192.0.2.1", text="because")
NO_TOKEN = Token(1, 99)


def a_spec(**fields: Any) -> JobSpec:
    return JobSpec(**{"kind": "import", "key": "k"} | fields)


def a_job(**fields: Any) -> Job:
    return Job.submit(a_spec(**fields), now=NOW)


def claim(job: Job, *, now: datetime = NOW, epoch: int = 1) -> Token:
    return job.claim("w", epoch=epoch, lease=LEASE, now=now)


def a_claimed_job(**fields: Any) -> tuple[Job, Token]:
    job = a_job(**fields)
    return job, claim(job)


def units(*names: str) -> list[tuple[str, Any]]:
    return [(name, {"sha256": name}) for name in names]


def schedule(job: Job, token: Token, unit: str = "a", *, at: datetime = NOW, now: datetime = NOW) -> None:
    job.schedule_retry(token, unit, category="network", text="reset", next_attempt_at=at, origin="backoff", now=now)


def crash(job: Job, *, counts: bool = True, now: datetime = NOW) -> None:
    job.expire(cause="holder-died", by="bob", now=now, counts=counts)


def in_status(status: Status) -> tuple[Job, Token]:
    """Give a job in *status* with one unit left to do, and the last token it granted."""
    job = a_job()
    if status is Status.QUEUED:
        return job, NO_TOKEN
    token = claim(job)
    if status is Status.WAITING:
        schedule(job, token)
    elif status is Status.PAUSED:
        job.park(token, reason="credential", text="no env:KEY", now=NOW)
    elif status is Status.COMPLETED:
        job.complete(token, now=NOW)
    elif status is Status.FAILED:
        job.fail(token, reason="invalid-input", text="no such file", now=NOW)
    elif status is Status.CANCELLED:
        job.cancel(ADA, now=NOW)
        job.release(token, cause="yield", now=NOW)
    return job, token


def state(job: Job) -> dict[str, Any]:
    """Everything a job is, but for what waits to be saved."""
    return {name: value for name, value in vars(job).items() if name != "_pending_events"}


def frozen(job: Job) -> tuple[dict[str, Any], int]:
    """What a refused command must leave as it is."""
    return state(job), len(job.pending_events)


def topics(job: Job) -> list[str]:
    """What happened, in short."""
    happened: list[Any] = list(job.pending_events)
    return [event.TOPIC.removeprefix("joblog.job.") for event in happened]


def through_json(event: Any) -> Any:
    """The event as it comes back from the log."""
    fields = {k: v for k, v in vars(event).items() if k != "originator_id"}
    again = object.__new__(type(event))
    vars(again).update(orjson.loads(orjson.dumps(fields)), originator_id=event.originator_id)
    for name in ("timestamp", *type(event).INSTANTS):
        if (value := vars(again).get(name)) is not None:
            vars(again)[name] = datetime.fromisoformat(value)
    return again


def replayed(job: Job) -> Job:
    again = fold(None, map(through_json, job.pending_events))
    assert again is not None
    return again


def lives() -> Iterator[Job]:
    """Yield jobs that together have met every event."""
    job, token = a_claimed_job(total=3, tags=("x",), retry=RetryPolicy(retries=2))
    job.freeze_list(token, "rows", count=3, digest="d", now=NOW)
    job.attempt_unit(token, "a", now=NOW)
    job.complete_units(token, units("a"), now=NOW, cursor=1, tallies={"rows": 10})
    job.skip_unit(token, "b", code="invalid-input", text="bad row", now=NOW, cursor=2)
    job.complete_units(token, units("c"), now=NOW, advance=0, tallies={"rows": 20})
    schedule(job, token, "d", at=NOW + SECOND)
    token = claim(job, now=NOW + SECOND)
    job.pause(ADA, now=NOW)
    crash(job)
    job.resume(ADA, now=NOW)
    token = claim(job, now=NOW + HOUR)
    job.complete_units(token, [], advance=1, now=NOW + HOUR)
    job.complete(token, now=NOW + HOUR, result={"rows": 20})
    yield job

    for status in (Status.CANCELLED, Status.FAILED):
        yield in_status(status)[0]

    job, token = a_claimed_job()
    job.release(token, cause="child", now=NOW, due_at=NOW + HOUR)
    job.wake(STREAM, Status.COMPLETED, now=NOW)
    yield job

    job, token = a_claimed_job()
    job.attempt_unit(token, "a", now=NOW)
    job.await_gate(token, "trello", unit="a", now=NOW, due_at=NOW + SECOND)
    yield job

    job, token = a_claimed_job()
    job.park(token, reason="quota", text="provider asked for 2 days", now=NOW, not_before=NOW + 48 * HOUR)
    yield job


def every_event() -> list[e.JobEvent]:
    found: list[Any] = [event for job in lives() for event in job.pending_events]
    return found
