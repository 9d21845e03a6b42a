"""The page: every screen without JavaScript, its buttons, its doors, and nothing of what it shows obeyed."""

from __future__ import annotations

import re
from datetime import timedelta
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import pytest

from joblog.api.cli.serving import sign_in_text
from joblog.api.http.auth import COOKIE, Auth
from joblog.api.http.server import HttpServer
from joblog.api.web.render import SCREENS
from joblog.domain.job import Actor
from joblog.domain.spec import JobSpec
from joblog.eventstore import tokens
from joblog.projections.runner import Runner
from joblog.workers.commands import gating
from joblog.workers.commands.log import JobLog
from tests.api.http.client import Client, Reply, a_key, a_token, serving
from tests.patience import until

EVIL = "<script>alert(1)</script>\"'&\u202e"
HTML = {"Accept": "text/html,application/xhtml+xml"}
VOID = {"meta", "link", "input", "br"}


class Reader(HTMLParser):
    """Reads a page as strictly as a page can be read: every element is closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.count: dict[str, int] = {}
        self.links: set[str] = set()
        self.ids: list[str] = []
        self.forms: list[str] = []
        self.text = ""
        self.unnamed: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.count[tag] = self.count.get(tag, 0) + 1
        if tag not in VOID:
            self.open.append(tag)
        if tag in {"a", "link"} and given.get("href"):
            self.links.add(str(given["href"]))
        if tag == "script":
            self.links.add(str(given["src"]))
        if given.get("id"):
            self.ids.append(str(given["id"]))
        if tag == "form" and given.get("method") == "post":
            self.forms.append(str(given["action"]))
        if (
            tag in {"input", "select"}
            and given.get("type") != "hidden"
            and "label" not in self.open
            and not given.get("aria-label")
        ):
            self.unnamed.append(tag)
        assert not [name for name in given if name.startswith("on") or name == "style"], "against our own CSP"

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(reply: Reply) -> Reader:
    assert reply.headers["content-type"] == "text/html; charset=utf-8", reply
    reader = Reader()
    reader.feed(reply.body.decode())
    assert reader.open == []
    assert (reader.count["h1"], reader.count["main"], reader.count["title"]) == (1, 1, 1)
    assert len(reader.ids) == len(set(reader.ids))
    assert reader.unnamed == []
    assert "Undefined" not in reader.text
    return reader


def browser(server: HttpServer, log: JobLog) -> Client:
    """Sign in as the link in the terminal does."""
    link = sign_in_text(server, log).partition(f"http://127.0.0.1:{server.port}")[2]
    signed = Client(server.port).get(link, **HTML)
    assert (signed.status, signed.headers["location"]) == (303, "/")
    cookie = signed.headers["set-cookie"]
    assert re.search(r"; Path=/; Secure; HttpOnly; SameSite=Strict", cookie)
    return Client(server.port, headers={"Cookie": cookie.partition(";")[0], **HTML})


def press(client: Client, path: str, form: dict[str, str], site: str = "same-origin") -> Reply:
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": site}
    return client.request("POST", path, urlencode(form).encode(), headers)


def a_form(page: Reply) -> dict[str, str]:
    """What the buttons of a page would send."""
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page.body.decode()))


def fill(log: JobLog) -> UUID:
    """A log in which something of everything has happened, with bad words wherever words are kept."""
    job_id = log.submit(
        JobSpec(EVIL, {"note": EVIL}, key=EVIL, tenant="default", owner=EVIL, queue="evil", tags=(EVIL,), total=9)
    ).job_id
    [held] = log.claim(EVIL, queues=["evil"])
    held.complete_units([(EVIL, {"note": EVIL})], cursor={"at": EVIL}, tallies={EVIL: 1})
    held.fail(reason="bad-input", text=EVIL)
    log.submit(JobSpec("child", key="c", parent_id=job_id))
    log.submit(JobSpec("waits", queue="idle"))
    log.control_queue("held", "pause", Actor(EVIL, text=EVIL))
    log.submit(JobSpec("runs", queue="running", total=3))
    log.claim("host-1", queues=["running"])
    parked = log.submit(JobSpec("parked", queue="p")).job_id
    log.command("pause", parked, Actor(EVIL, text=EVIL))
    return job_id


@pytest.fixture
def site(log: JobLog, server: HttpServer) -> tuple[Client, JobLog, UUID]:
    job_id = fill(log)
    return browser(server, log), log, job_id


def test_who_is_bound_is_told_no_names_of_others(log: JobLog, server: HttpServer) -> None:
    log.submit(JobSpec("kind-of-ada", tenant="red", owner="ada", queue="queue-of-ada"))
    log.submit(JobSpec("kind-of-bob", tenant="red", owner="bob"))
    Runner(log.store, log.mapper, "me").run()
    bob = Client(server.port, a_token(log, "jobs:read", tenant="red", owner="bob"), headers=HTML)
    red = Client(server.port, a_token(log, "jobs:read", tenant="red"), headers=HTML)

    assert "kind-of-ada" in read(red.get("/jobs")).text
    text = read(bob.get("/jobs")).text
    assert "kind-of-bob" in text
    assert "of-ada" not in text
    assert read(red.get("/jobs?tenant=blue")).text.count("kind-of") == 0


def test_every_link_of_every_screen_leads_somewhere_and_every_page_is_whole(
    site: tuple[Client, JobLog, UUID],
) -> None:
    client, log, _ = site
    Runner(log.store, log.mapper, "me").run()
    seen: dict[str, int] = {}
    left = ["/"]
    while left:
        path = left.pop().partition("#")[0]
        if not path or path in seen or path.count("=") > 1:  # one filter at a time: their number is that of all pairs
            continue
        assert path.startswith("/"), "no foreign host"
        reply = client.get(path)
        seen[path] = reply.status
        assert reply.status == 200, (path, reply)
        if reply.headers["content-type"].startswith("text/html") and not path.startswith("/problems/"):
            left += read(reply).links
            assert b"<script>alert" not in reply.body, path
            assert "\u202e" not in reply.body.decode(), path
    assert {"/jobs", "/queues", "/workers", "/gates", "/recovery", "/projections", "/security"} <= seen.keys()
    assert len([path for path in seen if path.startswith("/jobs/")]) >= 5


def test_a_page_says_where_a_job_stands_and_why(site: tuple[Client, JobLog, UUID]) -> None:
    client, _, job_id = site
    text = " ".join(read(client.get(f"/jobs/{job_id}")).text.split())

    assert "✕ failed" in text
    assert "bad-input" in text
    assert "1 of 9" in text
    overview = " ".join(read(client.get("/")).text.split())
    assert "1 job of idle is due and no worker runs any" in overview


def test_empty_screens_say_so_and_how_to_begin(sqlite_log: JobLog) -> None:
    with serving(sqlite_log) as server:
        client = browser(server, sqlite_log)
        assert "No jobs yet." in read(client.get("/jobs")).text
        assert "joblog submit" in read(client.get("/")).text
        assert "Nothing matches." in read(client.get("/jobs?status=failed")).text
        assert read(client.get("/jobs")).count["th"] == 6


def test_counts_and_the_report_follow_the_log(site: tuple[Client, JobLog, UUID]) -> None:
    client, log, _ = site
    assert "behind the log" in read(client.get("/recovery")).text
    Runner(log.store, log.mapper, "me").run()

    overview = " ".join(read(client.get("/")).text.split())
    assert "✕ failed 1" in overview
    assert "behind the log" not in overview
    report = read(client.get("/recovery?filter=failed"))
    assert "1 / 1" in " ".join(report.text.split())


def test_no_screen_counts_or_skips_rows(site: tuple[Client, JobLog, UUID], monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the recovery report does, and the doctor when it is asked."""
    client, log, job_id = site
    Runner(log.store, log.mapper, "me").run()
    said: list[str] = []
    read = log.store.sql_rows  # type: ignore[attr-defined]  # a database's

    def listen(sql: str, params: Any = (), **how: Any) -> list[Any]:
        said.append(sql.lower())
        return list(read(sql, params, **how))

    monkeypatch.setattr(log.store, "sql_rows", listen)
    head = log.store.head()
    more = (
        f"/jobs/{job_id}",
        f"/jobs/{job_id}?at={head}",
        f"/jobs?at={head}&kind=runs",
        "/jobs?kind=runs",
        "/feed?before=9",
    )
    for path in {*(str(one[0]) for one in SCREENS), *more} - {"/recovery"}:
        assert client.get(path).status == 200, path

    assert any("job_versions" in sql for sql in said)
    assert any("job_counts" in sql for sql in said)
    assert not [sql for sql in said if ("count(" in sql and "from leases" not in sql) or "offset" in sql]


def test_a_command_to_many_needs_the_right_and_something_to_command(log: JobLog, server: HttpServer) -> None:
    job_id = log.submit(JobSpec("import")).job_id
    foreign = log.submit(JobSpec("import", tenant="blue")).job_id
    form = {"key": "a-key-of-a-button-00001", "command": "pause", "scope": "rows"}
    client = browser(server, log)
    none = press(client, "/jobs/bulk", form)
    assert (none.status, "no row was ticked" in read(none).text) == (422, True)
    assert press(client, "/jobs/bulk", form | {"job": str(job_id)}, "cross-site").status == 403
    reader = Client(server.port, a_token(log, "jobs:read"), headers=HTML)
    assert press(reader, "/jobs/bulk", form | {"job": str(job_id)}).status == 403
    red = Client(server.port, a_token(log, "jobs:read", "jobs:control", tenant="red"), headers=HTML)
    for ids in (foreign, job_id):
        press(red, "/jobs/bulk", form | {"job": str(ids), "key": f"a-key-for-{ids}"})
    until(lambda: {row["status"] for row in log.store.find_jobs(queue="joblog")} == {"completed"})
    assert [log.row(one)["status"] for one in (job_id, foreign)] == ["queued", "queued"]
    asked = press(red, "/jobs/bulk", form | {"scope": "all"})
    assert read(asked).text.count("0 jobs can take this command") == 1


def test_jobs_are_filtered_and_paged_by_links(site: tuple[Client, JobLog, UUID]) -> None:
    client, log, _ = site
    log.submit_many([JobSpec("many", n) for n in range(30)])
    first = client.get("/jobs?kind=many&status=&queue=")
    following = next(link for link in read(first).links if "cursor=" in link)
    second = client.get(following)
    back = next(link for link in read(second).links if "cursor=" in link)

    assert second.body.decode().count("data-row") == 5
    assert read(client.get(back)).text.count("many") == read(first).text.count("many")


# -- buttons ---------------------------------------------------------------------------------------------------------


def test_a_button_does_its_command_once_however_often_it_is_pressed(log: JobLog, server: HttpServer) -> None:
    job_id = log.submit(JobSpec("import")).job_id
    client = browser(server, log)
    form = a_form(client.get(f"/jobs/{job_id}")) | {"reason": "provider is down"}

    first, again = (press(client, f"/jobs/{job_id}/pause", form) for _ in range(2))

    assert [(one.status, one.headers["location"]) for one in (first, again)] == [(303, f"/jobs/{job_id}")] * 2
    assert [event.topic for event in log.store.read(job_id)] == ["joblog.job.submitted", "joblog.job.paused"]
    assert log.row(job_id)["reason_text"] == "provider is down"


def test_a_stale_button_changes_nothing_and_says_why(log: JobLog, server: HttpServer) -> None:
    job_id = log.submit(JobSpec("import")).job_id
    client = browser(server, log)
    form = a_form(client.get(f"/jobs/{job_id}"))
    log.command("pause", job_id, Actor("somebody"))

    late = press(client, f"/jobs/{job_id}/cancel", form)

    assert (late.status, log.row(job_id)["status"]) == (409, "paused")
    assert "is no longer at version 1" in read(late).text


def test_another_sites_page_can_press_nothing(log: JobLog, server: HttpServer) -> None:
    job_id = log.submit(JobSpec("import")).job_id
    client = browser(server, log)
    form = a_form(client.get(f"/jobs/{job_id}"))

    for site in ("cross-site", "same-site", "none"):
        assert press(client, f"/jobs/{job_id}/cancel", form, site).status == 403
    client.headers["Origin"] = "https://evil.example"
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    body = urlencode(form).encode()
    assert client.request("POST", f"/jobs/{job_id}/cancel", body, headers).status == 403
    del client.headers["Origin"]
    assert client.request("POST", f"/jobs/{job_id}/cancel", body, headers).status == 403
    assert log.row(job_id)["status"] == "queued"


def test_a_queue_is_paused_and_resumed(log: JobLog, server: HttpServer) -> None:
    log.submit(JobSpec("import", queue="a b"))
    client = browser(server, log)

    assert press(client, "/queues/a%20b/pause", a_form(client.get("/queues"))).status == 303
    assert log.store.queue_rows()["a b"]["paused"]
    assert press(client, "/queues/a%20b/resume", a_form(client.get("/queues"))).status == 303
    assert not log.store.queue_rows()["a b"]["paused"]


def test_a_gate_is_closed_and_opened_with_what_it_had_paused(log: JobLog, server: HttpServer) -> None:
    parked = log.submit(JobSpec("import", gate="crm/env:TOKEN")).job_id
    [held] = log.claim("w")
    held.park(reason=gating.PROVIDER_WAITS, text="429", not_before=log.now() + timedelta(days=2))
    client, gate = browser(server, log), {"gate": "crm/env:TOKEN"}

    def pressed(action: str, **fields: str) -> Reply:
        return press(client, f"/gates/{action}", {"key": a_key()} | gate | fields)

    assert pressed("close", span="5m", reason=EVIL).status == 303
    [state] = log.store.gates("crm/env:TOKEN")
    assert state.row.closed_reason.startswith("<script>")
    assert 290_000_000 < state.row.closed_until - log.store.now() <= 300_000_000
    assert pressed("close", until="2999-01-02T03:04").status == 303  # UTC, as all of the page
    assert "closed until 2999-01-02 03:04:00" in " ".join(read(client.get("/gates")).text.split())

    for wrong in ({}, {"span": "5m", "until": "2999-01-02T03:04"}, {"span": "soon"}, {"until": "2000-01-01T00:00"}):
        refused = pressed("close", reason=EVIL, **wrong)
        assert (refused.status, "invalid-field" in read(refused).text) == (422, True), wrong
        assert b"<script>alert" not in refused.body
    opened = pressed("open", resume="true")
    assert (opened.status, opened.headers["location"]) == (303, "/gates?resumed=1")
    assert "1 job resumed" in read(client.get("/gates?resumed=1")).text
    assert log.row(parked)["status"] == "queued"
    gate["gate"] = "none"
    assert "gate-not-found" in read(pressed("open")).text


def test_a_token_is_made_once_however_often_the_button_is_pressed(log: JobLog, server: HttpServer) -> None:
    client = browser(server, log)
    form = {"key": a_key(), "name": "dashboard", "scope": "jobs:read"}
    first, again = (press(client, "/admin/tokens", form) for _ in range(2))
    [secret] = re.findall(r'id="secret">([^<]+)<', first.body.decode())
    assert Client(server.port, secret).get("/api/v1/jobs").status == 200
    assert b'id="secret"' not in again.body
    assert "with the first press" in read(again).text
    [row] = tokens.listed(log.store, "token")
    assert Client(server.port, secret).get("/api/v1/jobs").status == 200
    for _ in range(2):
        assert press(client, f"/admin/tokens/{row.id}/revoke", {"key": a_key()}).status == 303
    assert press(client, "/admin/tokens/none/revoke", {"key": a_key()}).status == 404
    assert press(client, "/admin/tokens", form | {"key": a_key()}).body.count(b'id="secret"') == 1


def test_a_gates_buttons_are_for_who_may_and_pressed_twice_they_are_one_command(
    log: JobLog, server: HttpServer
) -> None:
    client = browser(server, log)
    form = a_form(client.get("/gates")) | {"gate": "crm", "span": "1h"}
    assert press(client, "/gates/close", form, "cross-site").status == 403
    assert [press(client, "/gates/close", form).status for _ in range(2)] == [303, 303]
    topics = [event.topic for event in log.store.log(0, 10)]
    assert topics == ["joblog.gate.closed"]
    reader = Client(server.port, a_token(log, "jobs:read"), headers=HTML)
    assert set(read(reader.get("/gates")).forms) == {"/sign-out"}
    assert {"/gates/close", "/gates/open"} <= set(read(client.get("/gates")).forms)
    assert press(reader, "/gates/open", form).status == 403


def test_who_may_only_read_has_no_buttons(log: JobLog, server: HttpServer) -> None:
    job_id = log.submit(JobSpec("import", tenant="red")).job_id
    reader = Client(server.port, a_token(log, "jobs:read", tenant="red"), headers=HTML)

    page = read(reader.get(f"/jobs/{job_id}"))

    assert page.forms == ["/sign-out"]
    assert read(reader.get("/")).links.isdisjoint({"/queues", "/workers"})
    assert read(reader.get("/queues")).text
    assert reader.get("/queues").status == 403


# -- doors -----------------------------------------------------------------------------------------------------------


def test_a_sign_in_link_works_once(log: JobLog, server: HttpServer) -> None:
    code = Auth(log).sign_in_link("ada")
    assert Client(server.port).request("HEAD", f"/sign-in?code={code}").status in {200, 303, 401}
    second = Auth(log).sign_in_link("ada")
    assert Client(server.port).get(f"/sign-in?code={second}", **HTML).status == 303

    again = Client(server.port).get(f"/sign-in?code={second}", **HTML)

    assert again.status == 401
    assert "opens nothing" in read(again).text


def test_without_a_session_the_page_says_how_to_come_in(log: JobLog, server: HttpServer) -> None:
    nobody = Client(server.port, headers=HTML)
    page = nobody.get("/jobs")

    assert page.status == 401
    assert "joblog up" in read(page).text
    assert nobody.get("/sign-in").status == 200
    assert Client(server.port).get("/jobs").code == "unauthorized"


def test_a_session_is_no_bearer_token_and_ends_with_sign_out(log: JobLog, server: HttpServer) -> None:
    client = browser(server, log)
    secret = client.headers["Cookie"].removeprefix(f"{COOKIE}=")
    assert Client(server.port, secret).get("/api/v1/jobs").code == "unauthorized"
    assert client.get("/api/v1/feed").status == 200

    assert Client(server.port, secret).get("/api/v1/jobs").code == "unauthorized"  # also while the cookie is remembered
    token = a_token(log, "admin")
    assert press(Client(server.port, token), "/sign-out", {}).status == 401
    assert Client(server.port, token).get("/api/v1/jobs").status == 200

    assert press(client, "/sign-out", {}).headers["location"] == "/sign-in"

    assert client.get("/jobs").status == 401


def test_a_job_that_is_not_there_is_a_page_too(log: JobLog, server: HttpServer) -> None:
    page = browser(server, log).get("/jobs/00000000-0000-5000-8000-000000000000")

    assert page.status == 404
    assert "not found" in read(page).text


def test_every_page_is_locked_down(log: JobLog, server: HttpServer) -> None:
    reply = browser(server, log).get("/")
    policy = reply.headers["content-security-policy"]

    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert (reply.headers["x-content-type-options"], reply.headers["referrer-policy"]) == ("nosniff", "no-referrer")
    assert reply.headers["cache-control"] == "no-store"
    styles = next(link for link in read(reply).links if link.endswith(".css"))
    assert "immutable" in Client(server.port).get(styles).headers["cache-control"]
