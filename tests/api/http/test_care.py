"""The log as it stood, its verification, its export, what is derived from it, gates and the schedule, over HTTP."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest

from joblog.api import past
from joblog.api.http import chores
from joblog.api.http.server import HttpServer
from joblog.domain.job import Actor
from joblog.domain.spec import JobSpec
from joblog.domain.status import Status
from joblog.projections.runner import Runner
from joblog.projections.transfer.export import export
from joblog.workers.commands import gating
from joblog.workers.commands.log import JobLog
from tests.api.http.client import Client, a_token
from tests.api.http.waiting import ended

JOBS = "/api/v1/jobs"


def fold(log: JobLog) -> None:
    Runner(log.store, log.mapper, "me").run()


# -- the past --------------------------------------------------------------------------------------------------------


def test_jobs_are_shown_as_they_stood(admin: Client, log: JobLog) -> None:
    first, second = (log.submit(JobSpec("import", n, tags=("a",))).job_id for n in range(2))
    [held, _] = log.claim("w", limit=2)
    before = log.store.head()
    held.complete({"rows": 1})
    log.command("cancel", second if held.job_id == first else first, Actor("ada"))
    fold(log)

    then = admin.get(f"{JOBS}?at={before}")
    now = admin.good(f"{JOBS}?at={log.store.head()}")

    assert {item["id"]: item["status"] for item in then.json["items"]} == dict.fromkeys(
        (str(first), str(second)), "running"
    )
    assert (then.json["position"], then.json["items"][0]["worker"], then.json["items"][0]["tags"]) == (
        before,
        "w",
        ["a"],
    )
    assert (then.json["items"][0]["done"], then.json["items"][0]["version"]) == (None, None)  # not known of the past
    assert "immutable" in then.headers["cache-control"]
    assert admin.good(f"{JOBS}?at={before}&status=completed")["items"] == []
    assert {item["status"] for item in now["items"]} == {"completed", "running"}  # a wish is no state
    assert admin.good(f"{JOBS}/{first}?at=1")["status"] == "queued"
    assert admin.get(f"{JOBS}/{second}?at=1").code == "job-not-found"


def test_the_past_is_paged(admin: Client, log: JobLog) -> None:
    ids = [str(log.submit(JobSpec("import", n)).job_id) for n in range(7)][::-1]
    fold(log)
    log.submit(JobSpec("import", "later"))
    page = admin.get(f"{JOBS}?at=7&limit=3")
    seen = [item["id"] for item in page.json["items"]]
    while "link" in page.headers:
        page = admin.get(page.headers["link"].partition(">")[0].removeprefix("<"))
        seen += [item["id"] for item in page.json["items"]]

    assert seen == ids
    cursor = admin.good(f"{JOBS}?at=7&limit=3")["next"]
    assert admin.get(f"{JOBS}?at=6&cursor={cursor}").code == "bad-cursor"


def test_what_is_rare_in_the_past_is_looked_for_within_a_bound(
    admin: Client, log: JobLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page may be short, or empty, and goes on all the same; a kind that never was has no pages."""
    rare = log.submit(JobSpec("import")).job_id
    log.command("pause", rare, Actor("ada"))
    log.submit_many(JobSpec("import", n) for n in range(30))
    fold(log)
    monkeypatch.setattr(past, "_FIRST_LOOK", 3)
    monkeypatch.setattr(past, "_LONGEST_LOOK", 10)
    pages = [admin.good(f"{JOBS}?at=32&status=paused")]
    while pages[-1]["next"]:
        pages.append(admin.good(f"{JOBS}?at=32&status=paused&cursor={pages[-1]['next']}"))

    assert [len(page["items"]) for page in pages] == [0, 0, 0, 1]
    assert admin.good(f"{JOBS}?at=32&kind=never")["next"] is None


def test_an_instant_means_the_last_change_up_to_then(admin: Client, log: JobLog) -> None:
    log.submit(JobSpec("import"))
    fold(log)
    now = log.now()

    def at(when: datetime) -> str:
        return when.isoformat().replace("+00:00", "Z")

    assert admin.good(f"{JOBS}?at={at(now - timedelta(days=1))}")["position"] == 0
    assert admin.get(f"{JOBS}?at={at(now + timedelta(days=1))}").code == "invalid-field"
    assert admin.get(f"{JOBS}?at=2").code == "invalid-field"
    assert admin.get(f"{JOBS}?at=yesterday").code == "invalid-field"
    log.submit(JobSpec("import"))
    assert admin.get(f"{JOBS}?at=2").code == "view-behind"
    assert admin.get(f"{JOBS}?at={at(log.now())}").code == "view-behind"  # of then, the view knows nothing yet
    assert admin.good(f"{JOBS}?at={at(now)}")["position"] == 1


def test_who_is_bound_sees_their_own_past_alone(log: JobLog, server: HttpServer) -> None:
    mine = log.submit(JobSpec("import", 1, tenant="red", owner="bob")).job_id
    theirs = [log.submit(JobSpec("import", n, tenant="red", owner="ada")).job_id for n in range(30)]
    log.submit(JobSpec("import", 1, tenant="blue"))
    fold(log)
    bob = Client(server.port, a_token(log, "jobs:read", tenant="red", owner="bob"))
    red = Client(server.port, a_token(log, "jobs:read", tenant="red"))

    assert [item["id"] for item in bob.good(f"{JOBS}?at=32&limit=5")["items"]] == [str(mine)]
    assert len(red.good(f"{JOBS}?at=32&limit=100")["items"]) == 31
    assert bob.get(f"{JOBS}/{theirs[0]}?at=32").code == "job-not-found"
    assert bob.good(f"{JOBS}?at=32&owner=ada")["items"] == []
    first = red.good(f"{JOBS}?at=20&owner=ada&limit=12")
    second = red.good(f"{JOBS}?at=20&owner=ada&limit=12&cursor={first['next']}")
    seen = [item["id"] for page in (first, second) for item in page["items"]]
    assert seen == [str(one) for one in theirs[:19]][::-1]
    assert red.good(f"{JOBS}?at=20&owner=ada&status=paused")["items"] == []


# -- ids -------------------------------------------------------------------------------------------------------------


def test_jobs_are_found_by_how_their_id_begins(log: JobLog, server: HttpServer) -> None:
    job_id = str(log.submit(JobSpec("import", tenant="red")).job_id)
    red, blue = (Client(server.port, a_token(log, "jobs:read", tenant=name)) for name in ("red", "blue"))

    assert [item["id"] for item in red.good(f"{JOBS}?id={job_id[:9]}")["items"]] == [job_id]
    assert blue.good(f"{JOBS}?id={job_id[:9]}")["items"] == []
    assert blue.get(f"{JOBS}?after={job_id}").code == "job-not-found"
    assert red.get(f"{JOBS}?id=abc").code == "invalid-field"


def test_children_go_by_pages(admin: Client, log: JobLog) -> None:
    parent = log.submit(JobSpec("import")).job_id
    made = {str(log.submit(JobSpec("import", key=str(n), parent_id=parent)).job_id) for n in range(5)}
    page = admin.good(f"{JOBS}/{parent}/children?limit=2")
    seen = [item["id"] for item in page["items"]]
    while page["next"]:
        page = admin.good(f"{JOBS}/{parent}/children?limit=2&after={page['next']}")
        seen += [item["id"] for item in page["items"]]

    assert (len(seen), set(seen)) == (5, made)


# -- gates -----------------------------------------------------------------------------------------------------------


def test_a_gate_is_closed_limited_and_opened(admin: Client, log: JobLog) -> None:
    gate = "/api/v1/gates/default/crm/env:TOKEN"

    limited = admin.post(f"{gate}/limit", {"slots": 4}).json
    spaced = admin.post(f"{gate}/limit", {"spacing_seconds": 0.5}).json
    closed = admin.post(f"{gate}/close", {"seconds": 60, "reason": "they asked"}).json

    assert (limited["gate"], limited["slots"], limited["set_by"]) == ("default/crm/env:TOKEN", 4, "operator")
    assert (spaced["slots"], spaced["spacing_seconds"]) == (4, 0.5)
    assert (closed["closed"], closed["closed_by"], closed["closed_reason"]) == (True, "ada", "they asked")
    assert admin.good("/api/v1/gates")["items"] == [closed]
    opened = admin.post(f"{gate}/open", {"resume": True}).json
    assert (opened["closed"], opened["resumed"]) == (False, 0)
    assert admin.post("/api/v1/gates/none/open").code == "gate-not-found"
    assert admin.post(f"{gate}/limit", {}).code == "invalid-field"
    assert admin.post(f"{gate}/close", {}).code == "invalid-field"
    assert admin.post(f"{gate}/close", {"until": "2000-01-01T00:00:00Z"}).code == "invalid-field"
    assert admin.post(f"{gate}/close", {"until": "2100-01-01T00:00:00"}).code == "invalid-field"


def test_opening_a_gate_resumes_what_its_long_closure_had_paused(admin: Client, log: JobLog) -> None:
    parked, other = (log.submit(JobSpec("import", n, gate="crm")).job_id for n in range(2))
    gating.close(log, "crm", Actor("crm"), log.now() + timedelta(days=2))
    log.command("pause", other, Actor("ada"))
    gating.open_(log, "crm", Actor("ada"))
    [held] = log.claim("w")
    held.park(reason=gating.PROVIDER_WAITS, text="429", not_before=log.now() + timedelta(days=2))

    assert admin.post("/api/v1/gates/crm/open", {"resume": True}).json["resumed"] == 1
    rows = log.store.jobs([parked, other])
    assert (rows[parked]["status"], rows[other]["status"]) == ("queued", "paused")


# -- the schedule ----------------------------------------------------------------------------------------------------


def test_what_is_due_comes_first_and_goes_by_pages_also_within_one_instant(admin: Client, log: JobLog) -> None:
    late = log.submit(JobSpec("import", due_at=log.now() + timedelta(days=1), queue="slow")).job_id
    log.submit_many(JobSpec("import", n) for n in range(7))  # all due at once
    fold(log)
    page = admin.good("/api/v1/schedule?limit=3")
    seen = list(page["items"])
    while page["next"]:
        page = admin.good(f"/api/v1/schedule?limit=3&cursor={page['next']}")
        seen += page["items"]

    assert (len(seen), len({one["job"] for one in seen}), seen[-1]["job"]) == (8, 8, str(late))
    assert [one["job"] for one in admin.good("/api/v1/schedule?queue=slow")["items"]] == [str(late)]


# -- verify, rebuild, compare ----------------------------------------------------------------------------------------


def test_a_short_log_is_verified_at_once_and_a_long_one_by_a_job(
    admin: Client, log: JobLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = log.submit(JobSpec("import")).job_id
    log.submit(JobSpec("import"))

    whole = admin.post("/api/v1/verify")
    part = admin.post("/api/v1/verify", {"first": 2, "last": 2})
    one = admin.post("/api/v1/verify", {"job": str(job_id)})

    assert [reply.status for reply in (whole, part, one)] == [200, 200, 200]
    assert [(reply.json["checked"], reply.json["findings"]) for reply in (whole, part, one)] == [(2, 0), (1, 0), (1, 0)]
    assert admin.post("/api/v1/verify", {"first": 3}).code == "invalid-field"
    monkeypatch.setattr(chores, "AT_ONCE", 1)
    later = admin.post("/api/v1/verify")
    assert (later.status, later.json["kind"]) == (202, "joblog.verify")
    job = ended(log, later.json["id"])
    assert job.status is Status.COMPLETED
    assert job.result["findings"] == 0
    assert job.result["checked"] >= 3


def test_what_was_changed_is_found(on_file: Client, sqlite_log: JobLog) -> None:
    sqlite_log.submit(JobSpec("import"))
    on_file.post("/api/v1/verify")
    on_file.get("/api/v1/export")  # has the tree made
    with sqlite_log.store.writing("claim") as cursor:  # type: ignore[attr-defined]
        cursor.execute("DROP TRIGGER events_no_update")
        cursor.execute("UPDATE events SET topic = 'joblog.job.failed' WHERE position = 1")

    found = on_file.post("/api/v1/verify").json

    assert (found["findings"], found["items"][0]["kind"]) == (1, "changed")


def test_a_projection_is_rebuilt_and_compared_by_jobs(admin: Client, log: JobLog) -> None:
    log.submit(JobSpec("import"))
    fold(log)

    rebuilt = admin.post("/api/v1/projections/counters/rebuild")
    assert (rebuilt.status, rebuilt.json["kind"]) == (202, "joblog.rebuild")
    assert ended(log, rebuilt.json["id"]).result["generation"] == 1
    with log.store.writing("claim") as cursor:  # type: ignore[attr-defined]
        cursor.execute("DELETE FROM job_counts WHERE kind = 'import'")
    compared = ended(log, admin.post("/api/v1/projections/counters/diff").json["id"])
    assert compared.status is Status.COMPLETED, compared.errors
    assert compared.result["differences"] == 2  # of the tenant, and of all
    assert compared.result["items"][0]["stored"] is None
    jobs = ended(log, admin.post("/api/v1/projections/jobs/rebuild").json["id"])
    assert (jobs.result["name"], jobs.result["generation"]) == ("jobs", 1)
    assert admin.post("/api/v1/projections/none/diff").code == "route-not-found"


def test_they_go_one_at_a_time(admin: Client, log: JobLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes a processor; two would take the service's."""
    monkeypatch.setattr(
        chores.Chores, "begin", lambda _: None
    )  # nobody works them off: they stay as they were handed in
    monkeypatch.setattr(chores, "AT_ONCE", 0)
    log.submit(JobSpec("import"))
    paths = ("verify", "projections/counters/rebuild", "projections/jobs/diff")
    ids = [UUID(admin.post(f"/api/v1/{path}").json["id"]) for path in paths]
    other = UUID(admin.post("/api/v1/bulk", {"command": "pause", "filter": {"kind": "none"}}).json["id"])

    held = log.claim("w", queues=["joblog"], limit=9)
    assert len([one for one in held if one.job_id in ids]) == 1
    assert other in {one.job_id for one in held}


# -- export ----------------------------------------------------------------------------------------------------------


def test_the_export_has_the_bytes_and_the_manifest_of_the_command_line(
    admin: Client, log: JobLog, tmp_path: Path
) -> None:
    log.submit_many(JobSpec("import", n) for n in range(2500))  # three chunks
    for first, last in ((1, 2500), (7, 2003)):
        file = tmp_path / f"{first}" / "log.ndjson"
        file.parent.mkdir()
        made = export(log.store, file, first=first, last=last)

        lines = admin.get(f"/api/v1/export?first={first}&last={last}")
        manifest = admin.get(lines.headers["link"].partition(">")[0].removeprefix("<"))

        assert lines.body == file.read_bytes()
        assert manifest.body == file.with_name("log.ndjson.manifest.json").read_bytes()
        assert manifest.json["sha256"] == made.sha256
    assert admin.get("/api/v1/export?first=2501").code == "invalid-field"


def test_an_export_that_breaks_off_is_not_taken_for_whole(
    on_file: Client, sqlite_log: JobLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    from http.client import HTTPException

    from joblog.domain.errors import StoreUnavailableError
    from joblog.projections.transfer.export import Streamed

    sqlite_log.submit_many(JobSpec("import", n) for n in range(1500))
    chunk, calls = Streamed.chunk, []

    def away(streamed: Streamed) -> bytes:
        calls.append(streamed)
        if len(calls) > 1:
            raise StoreUnavailableError("away")
        return chunk(streamed)

    monkeypatch.setattr(Streamed, "chunk", away)
    with pytest.raises((HTTPException, ConnectionError)):
        on_file.get("/api/v1/export")
