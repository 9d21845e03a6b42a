"""Jobs over HTTP: submitted once, listed by keyset, read cheaply, commanded once."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

import msgspec
import pytest

from joblog.api import documents
from joblog.api.http import bodies
from joblog.api.http.errors import BodyTooLargeError
from joblog.api.http.server import HttpServer
from joblog.api.http.view_types import RecoveryReport, RecoveryRow
from joblog.domain.spec import JobSpec
from joblog.projections.runner import Runner
from joblog.workers.commands.log import JobLog
from tests.api.http.client import Client, a_key, a_token

JOBS = "/api/v1/jobs"


# -- submit ----------------------------------------------------------------------------------------------------------


def test_a_submitted_job_is_in_the_log_with_its_place_and_its_submitter(admin: Client, log: JobLog) -> None:
    reply = admin.post(JOBS, {"kind": "import", "args": {"staged": "x"}, "tags": ["a"], "priority": 2})

    assert reply.status == 201
    job = log.job(UUID(reply.json["id"]))
    assert (job.kind, job.args, job.owner, job.priority) == ("import", {"staged": "x"}, "ada", 2)
    assert reply.headers["location"] == f"{JOBS}/{job.id}"
    assert reply.headers["etag"] == '"v1"'
    assert reply.json["position"] == log.store.position_of(job.id, 1)


def test_the_same_key_is_the_same_job_and_other_arguments_are_refused(admin: Client, log: JobLog) -> None:
    key = a_key()
    first = admin.post(JOBS, {"kind": "import", "args": 1}, Idempotency_Key=key)
    again = admin.post(JOBS, {"kind": "import", "args": 1}, Idempotency_Key=f'"{key}"')
    other = admin.post(JOBS, {"kind": "import", "args": 2}, Idempotency_Key=key)

    assert (again.status, again.json["id"], again.json["created"]) == (200, first.json["id"], False)
    assert again.headers["idempotency-replayed"] == "true"
    assert (other.status, other.code) == (422, "key-conflict")
    assert log.store.head() == 1


def test_without_a_key_or_with_a_bad_one_nothing_is_written(admin: Client, log: JobLog) -> None:
    missing = admin.request("POST", JOBS, {"kind": "import"})
    short = admin.post(JOBS, {"kind": "import"}, Idempotency_Key="short")

    assert (missing.status, missing.code) == (400, "idempotency-key-missing")
    assert short.code == "invalid-field"
    assert log.store.head() == 0


@pytest.mark.parametrize(
    ("body", "status", "pointer"),
    [
        (b"{", 400, ""),
        (b"[1]", 422, "/body"),
        ({"kind": ""}, 422, "/kind"),
        ({}, 422, "/kind"),
        ({"kind": "import", "nonsense": 1}, 422, "/nonsense"),
        ({"kind": "import", "priority": 10}, 422, "/priority"),
        ({"kind": "import", "priority": "1"}, 422, "/priority"),
        ({"kind": "import", "tags": ["", "a"]}, 422, "/tags/0"),
        ({"kind": "import", "due_at": "tomorrow"}, 422, "/due_at"),
        ({"kind": "import", "due_at": "2030-01-01T00:00:00"}, 422, "/due_at"),
        ({"kind": "import", "args": {"password": "hunter2"}}, 422, "/args/password"),
        (b'{"kind": "import", "args": 1e999}', 400, ""),
        (b'{"kind": "import", "args": ' + b"[" * 70 + b"]" * 70 + b"}", 422, "/body"),
        (b'{"kind": "import", "args": {"n": 36893488147419103232}}', 422, "/args/n"),
    ],
)
def test_a_bad_body_is_refused_with_the_place_of_what_is_wrong(
    on_file: Client, body: object, status: int, pointer: str
) -> None:
    reply = on_file.post(JOBS, body)

    assert reply.status == status, reply
    assert [one["pointer"] for one in reply.json.get("errors", [])] == ([pointer] if pointer else [])
    assert b"hunter2" not in reply.body


def test_an_integral_float_is_an_integer_as_json_schema_says(on_file: Client) -> None:
    assert on_file.post(JOBS, b'{"kind": "import", "priority": 3.0}').status == 201


def test_a_packed_body_is_unpacked_within_its_bound(on_file: Client) -> None:
    good = gzip.compress(json.dumps({"kind": "import", "args": "x" * 1000}).encode())
    bomb = gzip.compress(b" " * 50_000_000)

    assert on_file.post(JOBS, good, Content_Encoding="gzip").status == 201
    assert on_file.post(JOBS, bomb, Content_Encoding="gzip").code == "body-too-large"
    assert on_file.post(JOBS, good[:-9], Content_Encoding="gzip").code == "bad-body"
    assert on_file.post(JOBS, b"garbage", Content_Encoding="gzip").code == "bad-body"
    assert on_file.post(JOBS, good, Content_Encoding="br").code == "media-type"


def test_what_is_no_json_or_too_large_is_refused(on_file: Client) -> None:
    assert on_file.post(JOBS, b"kind=import", Content_Type="application/x-www-form-urlencoded").code == "media-type"
    assert on_file.post(JOBS, b" " * 1_100_000).code == "body-too-large"
    assert on_file.get("/livez").status == 200


def test_many_jobs_are_handed_in_at_once_each_with_its_own_answer(admin: Client, log: JobLog) -> None:
    keys = [a_key() for _ in range(3)]
    jobs = [{"kind": "import", "key": key, "args": n} for n, key in enumerate(keys)]
    jobs.append({"kind": "import", "key": keys[0], "args": "other"})
    jobs.append({"kind": "import", "key": a_key(), "args": {"secret": "abc"}})

    reply = admin.post("/api/v1/batches", {"jobs": jobs})

    assert reply.status == 200
    codes = [item.get("code") for item in reply.json["items"]]
    assert codes == [None, None, None, "key-conflict", "secret-in-input"]
    assert (reply.json["created"], reply.json["refused"], log.store.head()) == (3, 2, 3)


def test_a_client_may_wait_until_the_job_has_ended(admin: Client, log: JobLog) -> None:
    key, body = a_key(), {"kind": "import"}
    in_time = admin.post(JOBS, body, Idempotency_Key=key, Prefer="wait=0")
    assert (in_time.status, in_time.headers["preference-applied"]) == (202, "wait=0")

    [held] = log.claim("w")
    ending = threading.Timer(0.1, lambda: held.complete({"rows": 3}))
    ending.start()
    reply = admin.post(JOBS, body, Idempotency_Key=key, Prefer="wait=20")
    ending.join()

    assert (reply.status, reply.json["status"], reply.json["result"]) == (200, "completed", {"rows": 3})


# -- read ------------------------------------------------------------------------------------------------------------


def test_a_list_is_paged_by_keyset_both_ways_while_jobs_arrive(admin: Client, log: JobLog) -> None:
    ids = [str(log.submit(JobSpec("import", n)).job_id) for n in range(7)][::-1]
    first = admin.good(f"{JOBS}?limit=3")
    log.submit(JobSpec("import", "newer"))

    second = admin.get(f"{JOBS}?limit=3&cursor={first['next']}")
    links = dict(part.split("; ")[::-1] for part in second.headers["link"].split(", "))
    third = admin.good(links['rel="next"'].strip("<>"))
    back = admin.good(links['rel="prev"'].strip("<>"))

    pages = [[item["id"] for item in page["items"]] for page in (first, second.json, third)]
    assert pages == [ids[:3], ids[3:6], ids[6:]]
    assert third["next"] is None
    assert [item["id"] for item in back["items"]] == ids[:3]


def test_a_cursor_is_good_for_its_own_list_alone(on_file: Client) -> None:
    for _ in range(2):
        on_file.submit()
    cursor = on_file.good(f"{JOBS}?limit=1")["next"]

    assert on_file.get(f"{JOBS}?limit=1&status=queued&cursor={cursor}").code == "bad-cursor"
    assert on_file.get(f"{JOBS}?cursor=nonsense").code == "bad-cursor"
    assert on_file.get(f"{JOBS}?limit=201").code == "invalid-field"
    assert on_file.get(f"{JOBS}?limit=1&limit=2").code == "invalid-field"
    assert on_file.get(f"{JOBS}?offset=1").json["errors"][0]["pointer"] == "/offset"


def test_a_list_is_filtered(admin: Client, log: JobLog) -> None:
    log.submit(JobSpec("import", 1, queue="bulk", tenant="red", owner="ada"))
    log.submit(JobSpec("mail", 2, owner="bob"))

    for query in ("kind=mail", "queue=default", "tenant=default", "owner=bob"):
        assert [item["kind"] for item in admin.good(f"{JOBS}?{query}")["items"]] == ["mail"], query
    assert admin.good(f"{JOBS}?status=failed")["items"] == []


def test_a_poll_of_what_has_not_changed_is_not_sent_again(admin: Client, log: JobLog) -> None:
    job_id = admin.submit()
    first = admin.get(f"{JOBS}/{job_id}")
    again = admin.get(f"{JOBS}/{job_id}", If_None_Match=first.headers["etag"])
    listed = admin.get(JOBS)
    listed_again = admin.get(JOBS, If_None_Match=listed.headers["etag"])

    assert (again.status, again.body, listed_again.status) == (304, b"", 304)

    log.claim("w")
    assert admin.get(f"{JOBS}/{job_id}", If_None_Match=first.headers["etag"]).status == 200
    assert admin.get(JOBS, If_None_Match=listed.headers["etag"]).status == 200


def test_a_job_is_told_as_the_command_line_tells_it(admin: Client, log: JobLog) -> None:
    job_id = UUID(admin.submit(args={"n": 1}))
    [held] = log.claim("w")
    held.complete_units([("u:1", {"rows": 2})], cursor={"row": 2}, tallies={"rows": 2})
    shown = documents.job(log, log.row(job_id), now=True)
    assert 0 < shown["lease"].pop("seconds_left") <= 30

    assert admin.good(f"{JOBS}/{job_id}") == json.loads(json.dumps(shown))


def test_a_jobs_life_is_read_in_pages(admin: Client, log: JobLog) -> None:
    job_id = admin.submit()
    [held] = log.claim("w")
    for n in range(5):
        held.complete_units([(f"u:{n}", {"n": n})])
    held.complete("done")
    base = f"{JOBS}/{job_id}"

    events = admin.good(f"{base}/events?limit=7")
    rest = admin.good(f"{base}/events?limit=200&after={events['next']}")
    versions = [one["version"] for one in [*events["items"], *rest["items"]]]
    assert versions == list(range(1, log.job(UUID(job_id)).version + 1))
    assert rest["next"] is None

    units = admin.good(f"{base}/units?limit=3")
    more = admin.good(f"{base}/units?limit=3&after={units['next']}")
    assert [one["evidence"]["n"] for one in [*units["items"], *more["items"]]] == [0, 1, 2, 3, 4]

    [attempt] = admin.good(f"{base}/attempts")["items"]
    assert (attempt["worker"], attempt["ended_by"]) == ("w", "joblog.job.completed")
    assert [turn["topic"] for turn in admin.good(f"{base}/history")["items"]][-1] == "joblog.job.completed"
    assert admin.good(f"{base}/children")["items"] == []


def test_why_a_job_waits_is_told(admin: Client, log: JobLog) -> None:
    job_id = admin.submit(queue="bulk")
    admin.post("/api/v1/queues/bulk/pause", {"reason": "provider is down"})

    why = admin.good(f"{JOBS}/{job_id}/why")

    assert [one["code"] for one in why["reasons"]] == ["queue-paused"]
    assert why["reasons"][0]["evidence"] == [log.store.head()]
    assert "paused" in why["text"]


# -- commands --------------------------------------------------------------------------------------------------------


def test_a_command_is_done_once_and_says_who_from_where_and_why(admin: Client, log: JobLog) -> None:
    job_id, key = admin.submit(), a_key()
    first = admin.post(f"{JOBS}/{job_id}/pause", {"reason": "too early"}, Idempotency_Key=key)
    again = admin.post(f"{JOBS}/{job_id}/pause", {"reason": "too early"}, Idempotency_Key=key)

    assert (first.status, first.json["status"], first.headers["etag"]) == (200, "paused", '"v2"')
    assert (again.json["repeated"], again.headers["idempotency-replayed"]) == (True, "true")
    paused = admin.good(f"{JOBS}/{job_id}/events")["items"][-1]["data"]
    said = (paused["actor"], paused["request_id"], paused["address"], paused["text"])
    assert said == ("ada", key, "127.0.0.1", "too early")
    assert admin.post(f"{JOBS}/{job_id}/cancel", Idempotency_Key=key).code == "request-id-reused"


def test_a_stale_command_is_refused_with_412_and_changes_nothing(admin: Client, log: JobLog) -> None:
    job_id = admin.submit()
    assert admin.post(f"{JOBS}/{job_id}/pause", If_Match='"v1"').status == 200

    stale = admin.post(f"{JOBS}/{job_id}/resume", If_Match='"v1"')

    assert (stale.status, stale.code) == (412, "version-conflict")
    assert admin.post(f"{JOBS}/{job_id}/resume", If_Match="v2").code == "invalid-field"
    assert log.row(UUID(job_id))["status"] == "paused"
    assert admin.post(f"{JOBS}/{job_id}/pause").code == "wrong-state"


def test_cancel_and_retry_go_through(admin: Client, log: JobLog) -> None:
    job_id = admin.submit()
    [held] = log.claim("w")
    held.fail(reason="bad-input", text="row 3")
    assert admin.post(f"{JOBS}/{job_id}/retry").json["status"] == "queued"
    assert admin.post(f"{JOBS}/{job_id}/cancel", {"cleanup": True}).json["status"] == "cancelled"
    assert admin.post(f"{JOBS}/{job_id}/explode").code == "route-not-found"


# -- queues, workers -------------------------------------------------------------------------------------------------


def test_queues_are_listed_paused_limited_and_resumed(admin: Client, log: JobLog) -> None:
    admin.submit(queue="bulk")
    assert admin.post("/api/v1/queues/bulk/pause").json["paused"] is True
    assert log.claim("w", queues=["bulk"]) == []
    assert admin.post("/api/v1/queues/bulk/limit", {"slots": 2}).json["slots"] == 2
    [queue] = admin.good("/api/v1/queues")["items"]
    assert (queue["queue"], queue["paused"], queue["slots"], queue["ready"]) == ("bulk", True, 2, 1)
    assert datetime.fromisoformat(queue["oldest_due_at"]) <= log.now()
    assert admin.post("/api/v1/queues/bulk/resume").json["paused"] is False
    assert len(log.claim("w", queues=["bulk"])) == 1


def test_leases_and_workers_tell_who_works(admin: Client, log: JobLog) -> None:
    ids = {admin.submit() for _ in range(3)}
    log.claim("w1", limit=2)
    log.claim("w2", limit=1)

    leases = admin.good("/api/v1/leases?limit=2")
    workers = admin.good("/api/v1/workers")["items"]

    assert leases["more"] is True
    assert {one["job"] for one in leases["items"]} <= ids
    assert [(one["worker"], one["jobs"]) for one in workers] == [("w1", 2), ("w2", 1)]
    assert all(0 < one["seconds_left"] <= 30 for one in workers)


# -- about the service -----------------------------------------------------------------------------------------------


def test_it_lives_and_is_ready(admin: Client) -> None:
    assert admin.get("/livez").json == {"status": "ok"}
    assert admin.get("/startupz").json == {"status": "ok"}
    assert admin.get("/readyz").json == {"status": "ok"}
    assert admin.get("/readyz?verbose").json["checks"]["schema"] == "ok"


def test_metrics_have_no_ids_and_count_requests(admin: Client, log: JobLog, server: HttpServer) -> None:
    job_id = admin.submit(queue="bulk")
    admin.get(f"{JOBS}/{job_id}")

    text = admin.get("/metrics").body.decode()

    assert f"joblog_log_position {log.store.head()}" in text
    assert 'joblog_oldest_due_age_seconds{queue="bulk"}' in text
    assert 'joblog_http_requests_total{method="GET",route="/api/v1/jobs/{id}",status="200"} 1' in text
    assert job_id not in text
    assert Client(server.port, a_token(log, "metrics")).get("/metrics").status == 200


def test_a_service_that_only_reads_refuses_commands(database_url: str, log: JobLog) -> None:
    from tests.api.http.client import serving

    job_id = log.submit(JobSpec("import")).job_id
    token = a_token(log, "admin")
    with JobLog.open(database_url, read_only=True) as reader, serving(reader, read_only=True) as server:
        client = Client(server.port, token)
        assert client.good(f"{JOBS}/{job_id}")["status"] == "queued"
        assert client.post(f"{JOBS}/{job_id}/pause").code == "read-only"
        assert client.post(JOBS, {"kind": "import"}).code == "read-only"
    assert log.store.head() == 1


def test_the_report_and_the_views_are_read_over_http(admin: Client, log: JobLog) -> None:
    admin.submit()
    [held] = log.claim("w")
    held.fail(reason="bad-input", text="row 3")
    assert admin.good("/api/v1/projections")["items"][0]["events"] == log.store.head()
    Runner(log.store, log.mapper, "me").run()

    report = admin.good("/api/v1/recovery?filter=failed")

    assert msgspec.convert(report, RecoveryReport).items[0].job_id == str(held.job_id)
    assert report["items"][0].keys() == set(RecoveryRow.__struct_fields__)
    assert (report["total"], report["pages"], report["items"][0]["job_id"]) == (1, 1, str(held.job_id))
    assert admin.get("/api/v1/recovery?filter=nonsense").code == "invalid-field"
    assert {one["events"] for one in admin.good("/api/v1/projections")["items"]} == {0}
    assert admin.good("/api/v1/gates")["items"] == []
    assert admin.good("/api/v1/security")["next"] is None


def test_lists_and_jobs_are_read_without_counting_or_skipping_rows(
    admin: Client, log: JobLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(5):
        admin.submit(args=n)
    Runner(log.store, log.mapper, "me").run()
    said: list[str] = []
    read = log.store.sql_rows  # type: ignore[attr-defined]  # a database's

    def listen(sql: str, params: Any = (), **how: Any) -> list[Any]:
        said.append(sql)
        return list(read(sql, params, **how))

    monkeypatch.setattr(log.store, "sql_rows", listen)
    page = admin.good(f"{JOBS}?limit=2&status=queued")
    admin.good(f"{JOBS}?limit=2&status=queued&cursor={page['next']}")
    job_id = page["items"][0]["id"]
    for what in ("", "/events", "/units", "/attempts", "/history", "/why", "/children", "/lease", "?at=5"):
        admin.good(f"{JOBS}/{job_id}{what}")
    for path in (
        f"{JOBS}?at=4&limit=2",
        "/api/v1/schedule?limit=2",
        "/api/v1/feed?limit=2",
        f"/api/v1/log?job={job_id}",
    ):
        admin.good(path)

    lists = [sql.lower() for sql in said if "leases" not in sql]
    assert any("jobs_0" in sql for sql in lists)
    assert not [sql for sql in lists if "count(" in sql or "offset" in sql]


def test_what_stands_behind_a_packed_body_counts_too() -> None:
    """It unpacks to nothing, and would pile up all the same."""
    taken: list[int] = []

    class Content:
        async def iter_any(self) -> AsyncIterator[bytes]:
            yield gzip.compress(b"{}")
            for _ in range(100):
                taken.append(100)
                yield b" " * 100

    class Chunked:
        content_length = None
        headers: ClassVar = {"Content-Encoding": "gzip"}
        content = Content()

    request: Any = Chunked()
    with pytest.raises(BodyTooLargeError):
        asyncio.run(bodies.read(request, limit=1000, seconds=30))
    assert sum(taken) <= 1000
