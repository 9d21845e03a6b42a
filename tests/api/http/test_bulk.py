"""One command to many jobs over HTTP: a job that goes on after a crash, reaches what was there before it, and each once."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from joblog.api.http import auth
from joblog.api.http.server import HttpServer
from joblog.domain.job import Actor
from joblog.domain.spec import JobSpec
from joblog.domain.status import Status
from joblog.projections.runner import Runner
from joblog.workers.commands.log import JobLog
from joblog.workers.operations import bulk
from tests.api.http.client import Client, a_key, a_token, serving
from tests.api.http.waiting import ended

BULK = "/api/v1/bulk"


def submit(log: JobLog, count: int, **more: Any) -> list[UUID]:
    fields = {"kind": "import", "queue": "bulk"} | more
    made = log.submit_many(JobSpec(args=n, **fields) for n in range(count))
    return [one.job_id for one in made]  # type: ignore[union-attr]


def statuses(log: JobLog, ids: list[UUID]) -> set[str]:
    return {row["status"] for row in log.store.jobs(ids).values()}


def test_all_of_a_filter_are_commanded_by_a_job_that_tells_how_many(admin: Client, log: JobLog) -> None:
    some, others = submit(log, 7), submit(log, 3, queue="other")

    reply = admin.post(BULK, {"command": "pause", "filter": {"queue": "bulk"}, "reason": "provider is down"})

    assert (reply.status, reply.json["kind"], reply.json["created"]) == (202, "joblog.bulk", True)
    assert reply.headers["location"] == f"/api/v1/jobs/{reply.json['id']}"
    job = ended(log, reply.json["id"])
    assert (job.status, job.result) == (Status.COMPLETED, {"jobs": 7, "done": 7, "refused": 0})
    assert (statuses(log, some), statuses(log, others)) == ({"paused"}, {"queued"})
    event = admin.good(f"/api/v1/jobs/{some[0]}/events")["items"][-1]["data"]
    assert (event["actor"], event["text"], event["address"]) == ("ada", "provider is down", "127.0.0.1")


def test_the_same_key_is_the_same_command_and_another_body_is_refused(admin: Client, log: JobLog) -> None:
    submit(log, 2)
    key, body = a_key(), {"command": "pause", "filter": {"queue": "bulk"}}
    first = admin.post(BULK, body, Idempotency_Key=key)
    again = admin.post(BULK, body, Idempotency_Key=key)
    other = admin.post(BULK, {**body, "command": "cancel"}, Idempotency_Key=key)

    assert (again.status, again.json["id"], again.json["created"]) == (202, first.json["id"], False)
    assert again.headers["idempotency-replayed"] == "true"
    assert (other.status, other.code) == (422, "key-conflict")


def test_named_jobs_are_commanded_and_those_that_do_not_fit_are_left(admin: Client, log: JobLog) -> None:
    ids = submit(log, 3)
    log.command("cancel", ids[0], Actor("bob"))

    reply = admin.post(BULK, {"command": "cancel", "ids": [str(one) for one in ids]})

    assert ended(log, reply.json["id"]).result == {"jobs": 2, "done": 2, "refused": 0}
    assert statuses(log, ids) == {"cancelled"}


def test_a_dry_run_tells_how_many_and_does_nothing(admin: Client, log: JobLog) -> None:
    ids = submit(log, 12) + submit(log, 2, kind="other")
    Runner(log.store, log.mapper, "me").run()
    head = log.store.head()

    by_queue = admin.post(BULK, {"command": "cancel", "filter": {"queue": "bulk"}, "dry_run": True})
    by_owner = admin.post(BULK, {"command": "cancel", "filter": {"kind": "other", "owner": ""}, "dry_run": True})
    by_ids = admin.post(BULK, {"command": "resume", "ids": [str(one) for one in ids], "dry_run": True})

    assert by_queue.status == 200
    assert by_queue.json["total"] == {"value": 14, "relation": "eq"}
    assert len(by_queue.json["examples"]) == 10
    assert by_owner.code == "invalid-field"  # an empty name is none
    assert by_ids.json["total"] == {"value": 0, "relation": "eq"}
    assert log.store.head() == head


def test_nothing_is_done_if_there_are_more_than_expected(admin: Client, log: JobLog) -> None:
    ids = submit(log, 5)

    reply = admin.post(BULK, {"command": "cancel", "filter": {"queue": "bulk"}, "expect": {"max": 4}})

    assert ended(log, reply.json["id"]).status is Status.FAILED
    assert statuses(log, ids) == {"queued"}


@pytest.mark.parametrize("body", [{}, {"filter": {}, "ids": ["00000000-0000-5000-8000-000000000000"]}])
def test_filter_or_ids_are_said(on_file: Client, body: dict[str, Any]) -> None:
    assert on_file.post(BULK, {"command": "pause", **body}).code == "invalid-field"


def test_only_its_own_path_hands_it_in(on_file: Client) -> None:
    """Else who may submit could command every tenant's jobs."""
    body = {"kind": "joblog.bulk", "args": {"command": "cancel", "actor": "me"}, "queue": "joblog"}

    assert on_file.post("/api/v1/jobs", body).code == "invalid-field"
    batch = on_file.post("/api/v1/batches", {"jobs": [{**body, "key": a_key()}]})
    assert batch.json["items"][0]["code"] == "invalid-field"


def test_who_is_bound_reaches_their_own_jobs_alone(log: JobLog, server: HttpServer) -> None:
    red, blue = submit(log, 3, tenant="red"), submit(log, 3, tenant="blue")
    client = Client(server.port, a_token(log, "jobs:read", "jobs:control", tenant="red"))

    assert client.post(BULK, {"command": "cancel", "filter": {"tenant": "blue"}}).code == "invalid-field"
    bodies: list[dict[str, Any]] = [{"filter": {}}, {"ids": [str(one) for one in blue]}]
    for body in bodies:
        reply = client.post(BULK, {"command": "cancel", **body})
        assert ended(log, reply.json["id"]).status is Status.COMPLETED
        assert client.get(reply.headers["location"]).status == 200

    assert (statuses(log, red), statuses(log, blue)) == ({"cancelled"}, {"queued"})


def test_later_jobs_and_other_chores_are_left_alone(sqlite_log: JobLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """CTL-03: jobs that arrive between the command and its look at the table are not those that were meant."""
    log, looked = sqlite_log, bulk.matching
    before, after = submit(log, 2), []

    def late(*args: Any, **more: Any) -> Any:
        after.extend(submit(log, 2, tenant="late"))
        return looked(*args, **more)

    monkeypatch.setattr(bulk, "matching", late)
    with serving(log) as server:
        client = Client(server.port, a_token(log, "admin"))
        reply = client.post(BULK, {"command": "pause", "filter": {}})
        assert ended(log, reply.json["id"]).result == {"jobs": 2, "done": 2, "refused": 0}

    assert (statuses(log, before), statuses(log, after)) == ({"paused"}, {"queued"})


def test_a_withdrawn_right_stops_it_before_the_next_job(sqlite_log: JobLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """CTL-07."""
    log, ids = sqlite_log, submit(sqlite_log, 3)
    command = log.command
    seen: list[UUID] = []

    def demoted(action: str, job_id: UUID, actor: Actor, **more: Any) -> Any:
        if seen:
            auth.revoke(log, "demoted")
        seen.append(job_id)
        return command(action, job_id, actor, **more)

    monkeypatch.setattr(log, "command", demoted)
    with serving(log) as server:
        client = Client(server.port, a_token(log, "jobs:control", name="demoted"))
        reply = client.post(BULK, {"command": "pause", "filter": {"queue": "bulk"}})
        job = ended(log, reply.json["id"])

    assert (job.status, job.reason) == (Status.FAILED, "right-withdrawn")
    assert [row["status"] for row in log.store.jobs(ids).values()].count("paused") == 1


def test_the_next_service_goes_on_where_one_was_stopped(sqlite_log: JobLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped between two pages: each job is commanded once, and the counts are those of all."""
    log, command = sqlite_log, bulk._command
    ids = submit(log, 5)
    monkeypatch.setattr(bulk, "PAGE", 2)
    with serving(log) as first:

        def stopped(*args: Any) -> Any:
            made = command(*args)
            worker: Any = first.service.chores._worker
            worker.stop()
            [(execution, _)] = worker._running.values()
            execution.control.wait(30)
            assert execution.control.stop
            return made

        monkeypatch.setattr(bulk, "_command", stopped)
        client = Client(first.port, a_token(log, "admin"))
        job_id = client.post(BULK, {"command": "pause", "filter": {"queue": "bulk"}}).json["id"]
        first.service.chores._thread.join()  # type: ignore[union-attr]
    assert log.job(UUID(job_id)).status is Status.QUEUED
    assert 0 < [row["status"] for row in log.store.jobs(ids).values()].count("paused") < 5
    monkeypatch.setattr(bulk, "_command", command)

    with serving(log):
        assert ended(log, job_id).result == {"jobs": 5, "done": 5, "refused": 0}

    assert statuses(log, ids) == {"paused"}
    assert {log.job(one).version for one in ids} == {2}
