"""Handing jobs in, and what operators do to jobs and queues."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ...domain.errors import InvalidFieldError, JobLogError
from ...domain.spec import JobSpec
from ...eventstore.clock import pause_soon
from ...workers import redo
from .. import documents
from .chores import check_kind
from .route import Answer, etag

if TYPE_CHECKING:
    from ...eventstore.store import JobRow
    from ...workers.commands.answers import Submitted
    from .route import Call
    from .types import NewJob

_WAIT: Final = re.compile(r"\bwait=(\d{1,4})\b")
_LOOK_SECONDS: Final = 0.1  #: between two looks at a job that is waited for
_STANDING: Final = frozenset({"completed", "failed", "cancelled", "paused"})


def spec_of(call: Call, body: NewJob, key: str) -> JobSpec:
    """The job that a body describes; a kind that is registered here is checked against its declared type."""
    who = call.principal
    check_kind(body.kind)
    if who.tenant and body.tenant not in {None, who.tenant}:
        raise InvalidFieldError("tenant", "not the token's own", f"leave it out, or give {who.tenant!r}")
    if who.owner and body.owner not in {None, who.owner}:
        raise InvalidFieldError("owner", "not the token's own", "leave it out")
    tenant = who.tenant or body.tenant or "default"
    owner = who.owner or (who.name if body.owner is None else body.owner)
    if body.due_at is not None and body.due_at.tzinfo is None:
        raise InvalidFieldError("due_at", "without a zone", "give RFC 3339 with Z or an offset")
    tags = tuple(body.tags)
    jobs = call.service.jobs
    if body.kind in jobs.kinds():
        made = jobs.spec(
            body.kind,
            body.args,
            key=key,
            tenant=tenant,
            owner=owner,
            queue=body.queue,
            priority=body.priority,
            due_at=body.due_at,
            tags=tags,
        )
        return replace(made, exclusive_key=body.exclusive_key) if body.exclusive_key else made
    return JobSpec(
        body.kind,
        body.args,
        key=key,
        tenant=tenant,
        owner=owner,
        queue=body.queue or "default",
        priority=5 if body.priority is None else body.priority,
        due_at=body.due_at,
        exclusive_key=body.exclusive_key,
        tags=tags,
        total=body.total,
    )


async def submit_job(call: Call) -> Answer:
    """Hand in a job.  The Idempotency-Key is its key: the same again is the same job, other args are refused."""
    spec = spec_of(call, call.body, call.key)
    [made] = await call.log.submit_soon([spec], call.service.ask)
    if isinstance(made, JobLogError):
        raise made
    headers = {"Location": f"/api/v1/jobs/{made.job_id}"}
    if not made.created:
        headers["Idempotency-Replayed"] = "true"
    if (seconds := _wished(call)) is not None:
        row = await _stands(call, made, seconds)
        headers["Preference-Applied"] = f"wait={seconds:g}"
        if row["status"] not in _STANDING:
            return Answer(documents.submitted(spec, made), 202, headers)
        if not row.get("in_outbox"):
            headers["ETag"] = etag(row["version"])
        return Answer(await call.service.ask(documents.job, call.log, row), 200, headers)
    if made.created:
        headers["ETag"] = etag(1)
    return Answer(documents.submitted(spec, made), 201 if made.created else 200, headers)


def _wished(call: Call) -> float | None:
    """The seconds of ``Prefer: wait=N``, as far as they are granted."""
    found = _WAIT.search(call.request.headers.get("Prefer", ""))
    return None if found is None else min(float(found[1]), call.service.limits.wait_seconds)


async def _stands(call: Call, made: Submitted, seconds: float) -> JobRow:
    """The job's row once it ended or paused, or the time is over."""
    clock, feed = call.log.clock, call.service.feed
    until = clock.monotonic() + seconds
    while True:
        row = await call.service.ask(call.log.row, made.job_id)
        left = until - clock.monotonic()
        if row["status"] in _STANDING or left <= 0 or feed.stopped.is_set():
            return row
        await feed.changed(min(left, 1.0))
        await pause_soon(_LOOK_SECONDS)


async def submit_jobs(call: Call) -> Answer:
    """Hand in many jobs, each with its own key and its own answer; they travel in as few commits as possible."""
    specs: list[Any] = []
    for body in call.body.jobs:
        try:
            specs.append(spec_of(call, body, body.key))
        except JobLogError as error:
            specs.append(error)
    good = [spec for spec in specs if isinstance(spec, JobSpec)]
    answers = iter(await call.log.submit_soon(good, call.service.ask) if good else [])
    items: list[dict[str, Any]] = []
    created = 0
    for spec in specs:
        made = next(answers) if isinstance(spec, JobSpec) else spec
        if isinstance(made, JobLogError):
            items.append({"code": made.code, "error": str(made)})
        else:
            created += made.created
            items.append(documents.submitted(spec, made))
    refused = sum("error" in item for item in items)
    return Answer({"items": items, "created": created, "refused": refused})


# -- operators -------------------------------------------------------------------------------------------------------


def command_job(call: Call) -> Answer:
    """Pause, resume, cancel or retry a job, once per Idempotency-Key; If-Match refuses if it has moved on."""
    row, action = call.row(), call.request.match_info["action"]
    more = {"cleanup": True} if action == "cancel" and call.body.cleanup else {}
    made = call.log.command(
        action,
        row["id"],
        call.actor(call.body.reason),
        tenant=row["tenant"],
        if_version=call.if_version,
        may=call.may,
        **more,
    )
    headers = {"ETag": etag(made.version)} | ({"Idempotency-Replayed": "true"} if made.repeated else {})
    return Answer(documents.commanded(action, made), headers=headers)


def retry_skipped(call: Call) -> Answer:
    """Retry what an ended job has passed over, each unit in a job of its own; the same again is the same jobs."""
    row = call.row()
    return Answer(documents.retried(row["id"], redo.retry_skipped(call.log, row["id"], call.body.unit)))


def command_queue(call: Call) -> Answer:
    """Pause, resume or limit a queue; a pause holds future jobs too."""
    action, name = call.request.match_info["action"], call.request.match_info["name"]
    more = {"slots": call.body.slots} if action == "limit" else {}
    return Answer(call.log.control_queue(name, action, call.actor(call.body.reason), may=call.may, **more))
