"""What the service says of archives, and of bodies in one that is not at hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from joblog.api.http.server import HttpServer
from joblog.projections.proof.heads import sign
from joblog.projections.proof.notes import Signer
from joblog.workers.commands.archiving import archive
from joblog.workers.commands.log import JobLog
from tests.api.cli.terminal import ADA, claimed, submit, work
from tests.api.http.client import Client, a_token, serving


@pytest.fixture
def job(log: JobLog) -> str:
    """A job that ended, signed for; another one waits."""
    made = submit(log, "done")
    held = claimed(log)
    work(held, 1, 2)
    held.complete({"rows": 10})
    submit(log, "waiting")
    sign(log.store, Signer.generate("test"), None)
    return made


def archived(log: JobLog, folder: Path) -> str:
    made = archive(log, ADA, folder, before=log.store.now() + 1)
    assert made.manifest is not None
    return made.manifest.name


SAME = ("/jobs/{job}", "/jobs/{job}/events", "/jobs/{job}/units", "/jobs/{job}/attempts", "/jobs/{job}/history")
FOLLOWED = ("/feed?limit=7", "/log?limit=7", "/feed?job={job}&limit=7")


def test_archives_are_listed(admin: Client, log: JobLog, job: str, tmp_path: Path) -> None:
    assert admin.good("/api/v1/archives") == {"items": []}
    assert job
    name = archived(log, tmp_path / "archives")

    [one] = admin.good("/api/v1/archives")["items"]

    assert (one["name"], one["first"], one["last"], one["here"]) == (name, 1, 7, True)
    (tmp_path / "archives").rename(tmp_path / "attic")
    assert admin.good("/api/v1/archives")["items"][0]["here"] is False


def test_only_who_may_audit_the_whole_log_sees_them(log: JobLog, server: HttpServer) -> None:
    assert Client(server.port, a_token(log, "jobs:read")).get("/api/v1/archives").status == 403
    assert Client(server.port, a_token(log, "feed:read", tenant="acme")).get("/api/v1/archives").status == 403
    assert Client(server.port, a_token(log, "audit")).get("/api/v1/archives").status == 200


def test_answers_are_the_same_with_the_archive_and_name_it_without(
    admin: Client, log: JobLog, job: str, tmp_path: Path
) -> None:
    paths = [f"/api/v1{path.format(job=job)}" for path in SAME]
    before = [admin.get(path).body for path in paths]
    followed = [admin.good(f"/api/v1{path.format(job=job)}")["items"] for path in FOLLOWED]
    exported = admin.get("/api/v1/export?last=7").body
    name = archived(log, tmp_path / "archives")

    assert [admin.get(path).body for path in paths] == before
    assert [admin.good(f"/api/v1{path.format(job=job)}")["items"] for path in FOLLOWED] == followed
    assert admin.get("/api/v1/export?last=7").body == exported

    (tmp_path / "archives").rename(tmp_path / "attic")
    for path in (*paths, "/api/v1/export?last=7", "/api/v1/export/manifest?last=7"):
        reply = admin.get(path)
        assert (reply.status, reply.code) == (503, "archive-missing"), path
        assert name in reply.json["detail"]
    for path, had in zip(FOLLOWED, followed, strict=True):
        now = admin.good(f"/api/v1{path.format(job=job)}")["items"]
        assert [one["archive"] for one in now] == [name] * len(had)
        assert [one["data"] for one in now] == [None] * len(had)
    verified = admin.post("/api/v1/verify", {})
    assert (verified.json["findings"], verified.json["archived"]) == (0, {name: 7})


def test_streams_go_on_over_what_is_not_at_hand(admin: Client, log: JobLog, job: str, tmp_path: Path) -> None:
    assert job
    name = archived(log, tmp_path / "archives")
    (tmp_path / "archives").rename(tmp_path / "attic")

    with serving(log) as later:
        asking = Client(later.port, admin.token)
        lines = asking.get("/api/v1/feed?after=1:0", Accept="application/x-ndjson").body.splitlines()

    made: list[dict[str, Any]] = [json.loads(line) for line in lines]
    assert [one.get("archive") for one in made] == [name] * 7 + [None] * 3
    assert made[-1] == {"next": f"1:{log.store.head()}"}
    assert [one["sequence"][-1] for one in made[:7]] == list("1234567")


def test_the_page_shows_which_archive_has_it(admin: Client, log: JobLog, job: str, tmp_path: Path) -> None:
    name = archived(log, tmp_path / "archives")
    (tmp_path / "archives").rename(tmp_path / "attic")

    feed, page = admin.get("/feed", Accept="text/html"), admin.get(f"/jobs/{job}", Accept="text/html")

    assert feed.status == 200
    assert f"in archive {name}".encode() in feed.body
    assert page.status == 503
    assert name.encode() in page.body
