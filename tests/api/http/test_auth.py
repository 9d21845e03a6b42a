"""Who may what: every route with every kind of token, tenants apart, secrets nowhere."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import pytest

from joblog.api.http import auth
from joblog.api.http.app import make_app
from joblog.api.http.auth import SCOPES, Proxies
from joblog.api.http.errors import TokenNotFoundError, UnsafeBindError
from joblog.api.http.route import Nothing, Route
from joblog.api.http.routes import ROUTES
from joblog.api.http.server import Bind, HttpServer
from joblog.api.http.service import Service
from joblog.domain.errors import InvalidFieldError
from joblog.domain.job import Actor
from joblog.domain.spec import JobSpec
from joblog.eventstore import tokens
from joblog.eventstore.store import Store
from joblog.workers.commands.log import JobLog
from joblog.workers.registry import Jobs
from tests.api.http.client import Client, Reply, a_key, a_token, serving

CANARY = "canary-7f3a9"
OPEN = [route for route in ROUTES if not route.scope]
GUARDED = [route for route in ROUTES if route.scope]


def title(route: Route) -> str:
    return f"{route.method} {route.path}"


@dataclass
class Site:
    """A service with a foreign tenant's job in it, and one token of each kind."""

    server: HttpServer
    log: JobLog
    job_id: str
    tokens: dict[str, str]

    def ask(self, route: Route, token: str, **more: Any) -> Reply:
        """One request to a route, as good as it can be without knowing more."""
        path = re.sub(r"\{\w+:([a-z-]+)\|[^}]*\}", r"\1", route.path)
        path = path.replace("{id}", self.job_id).replace("{name}", "bulk").replace("{code}", "lease-lost")
        path = re.sub(r"\{[a-z]+(:[^}]*)?\}", "x", path)
        body: Any = BODIES.get(route.name, {}) if route.body is not None else None
        if isinstance(body, dict) and route.path.startswith("/api/v1/claims/"):
            body = {"token": "1.1", "unit": "u", **body} if route.name in WITH_UNIT else {"token": "1.1", **body}
        client, headers = Client(self.server.port, token), {"Idempotency-Key": a_key()} | more
        if route.is_form:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            body = b"" if route.body is Nothing else urlencode({"key": a_key()}).encode()
        return client.request(route.method, path, body, headers)


WITH_UNIT = {"attempt_unit", "advance_claim", "retry_later"}
BODIES: dict[str, dict[str, Any]] = {
    "submit_job": {"kind": "import"},
    "submit_jobs": {"jobs": [{"kind": "import", "key": "a-key-of-the-matrix-0001"}]},
    "move_consumer": {"cursor": "1:1"},
    "bulk_jobs": {"command": "pause", "filter": {}, "dry_run": True},
    "close_gate": {"seconds": 60},
    "limit_gate": {"slots": 1},
    "claim_jobs": {"worker": "w", "queues": ["empty"]},
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    path = tmp_path_factory.mktemp("auth") / "joblog.db"
    with JobLog.open(f"sqlite:///{path}") as log, serving(log) as server:
        spec = JobSpec("import", {"note": CANARY}, key=f"key-{CANARY}", tenant="red", owner=CANARY, queue=f"q-{CANARY}")
        job_id = log.submit(spec).job_id
        [held] = log.claim(f"w-{CANARY}", queues=[spec.queue])
        held.complete_units([(f"u-{CANARY}", {"note": CANARY})], cursor={"at": CANARY})
        log.command("pause", job_id, Actor(CANARY, text=CANARY))
        made = {scope: a_token(log, scope) for scope in SCOPES}
        readers = ("jobs:read", "jobs:write", "jobs:control", "feed:read")
        made["blue"] = a_token(log, *readers, tenant="blue")
        made["red-bob"] = a_token(log, *readers, tenant="red", owner="bob")
        yield Site(server, log, str(job_id), made)


# -- every route, every role -----------------------------------------------------------------------------------------


def test_the_router_has_the_routes_of_the_table_and_no_other(sqlite_log: JobLog) -> None:
    async def routes() -> set[tuple[str, str]]:
        app = make_app(Service(sqlite_log, Jobs()), ROUTES)
        return {
            (route.method, route.resource.canonical)
            for route in app.router.routes()
            if route.resource is not None and route.method != "HEAD"
        }

    import asyncio

    canonical = {(route.method, re.sub(r"\{(\w+)(:[^}]*)?\}", r"{\1}", route.path)) for route in ROUTES}
    assert asyncio.run(routes()) == canonical


@pytest.mark.parametrize("route", GUARDED, ids=title)
def test_nobody_comes_in_without_a_token_that_stands(site: Site, route: Route) -> None:
    known = site.tokens["admin"]
    for token in ("", "nonsense", known[:-1] + ("A" if known[-1] != "A" else "B"), f"jl_{'0' * 16}_{'x' * 43}"):
        reply = site.ask(route, token)
        assert (reply.status, reply.code) == (401, "unauthorized"), (route.path, token)
        assert reply.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("route", GUARDED, ids=title)
@pytest.mark.parametrize("scope", SCOPES)
def test_a_token_opens_the_routes_of_its_scope_and_no_other(site: Site, route: Route, scope: str) -> None:
    reply = site.ask(route, site.tokens[scope])

    if route.path == "/sign-out" and scope in {route.scope, "admin"}:
        assert (reply.status, reply.code) == (401, "unauthorized")  # only a session signs out
    elif scope in {route.scope, "admin"}:
        assert reply.status not in {401, 403}
    else:
        assert (reply.status, reply.code) == (403, "scope-missing")
        assert route.scope in reply.json["detail"]


@pytest.mark.parametrize("route", OPEN, ids=title)
def test_what_is_open_tells_nothing_of_any_job(site: Site, route: Route) -> None:
    reply = site.ask(route, "")

    assert reply.status < 500
    assert CANARY.encode() not in reply.body


@pytest.mark.parametrize("route", GUARDED, ids=title)
@pytest.mark.parametrize("who", ["blue", "red-bob"])
def test_who_is_bound_finds_nothing_of_others_on_any_route(site: Site, route: Route, who: str) -> None:
    before = site.log.row(UUID(site.job_id))["version"]  # of the log as a whole, jobs of other routes make more
    reply = site.ask(route, site.tokens[who])

    assert CANARY.encode() not in reply.body
    assert CANARY not in str(reply.headers)
    if route.path == "/sign-out":
        assert (reply.status, reply.code) == (401, "unauthorized")
    elif "{id}" in route.path and route.scope.startswith("jobs:"):
        assert (reply.status, reply.code) == (404, "job-not-found")
        assert site.log.row(UUID(site.job_id))["version"] == before
    elif route.whole or route.scope not in {"jobs:read", "jobs:write", "jobs:control", "feed:read"}:
        assert reply.status == 403


def test_a_missing_job_and_a_foreign_one_look_the_same(site: Site) -> None:
    client = Client(site.server.port, site.tokens["blue"])
    none = "00000000-0000-5000-8000-000000000000"

    def shown(job_id: str) -> tuple[int, str]:
        reply = client.get(f"/api/v1/jobs/{job_id}")
        return reply.status, reply.body.decode().replace(job_id, "ID").replace(reply.json["request_id"], "R")

    assert shown(site.job_id) == shown(none)


# -- tenants and owners ----------------------------------------------------------------------------------------------


def test_who_is_bound_submits_and_lists_for_themselves_alone(log: JobLog, server: HttpServer) -> None:
    scopes = ("jobs:read", "jobs:write", "feed:read", "jobs:control")
    red = Client(server.port, a_token(log, *scopes, tenant="red"))
    bob = Client(server.port, a_token(log, *scopes, tenant="red", owner="bob"))
    whole = Client(server.port, a_token(log, "admin"))
    for_all, for_bob = red.submit(), bob.submit()
    other = whole.submit(tenant="blue")

    def listed(client: Client, query: str = "") -> set[str]:
        return {item["id"] for item in client.good(f"/api/v1/jobs{query}")["items"]}

    assert listed(red) == {for_all, for_bob}
    assert listed(bob) == {for_bob}
    assert listed(whole) == {for_all, for_bob, other}
    assert listed(red, "?tenant=blue") == set()
    assert listed(bob, "?owner=ada") == set()
    assert red.post("/api/v1/jobs", {"kind": "import", "tenant": "blue"}).code == "invalid-field"
    assert bob.post("/api/v1/jobs", {"kind": "import", "owner": "ada"}).code == "invalid-field"
    followed = red.good("/api/v1/feed")
    assert {item["subject"] for item in followed["items"]} == {for_all, for_bob}
    assert followed["next"] == f"1:{log.store.head()}"
    assert {item["subject"] for item in bob.good("/api/v1/feed")["items"]} == {for_bob}
    assert bob.post(f"/api/v1/jobs/{for_all}/pause").code == "job-not-found"
    assert bob.post(f"/api/v1/jobs/{for_bob}/pause").status == 200


def test_children_of_another_tenant_are_not_listed(log: JobLog, server: HttpServer) -> None:
    parent = log.submit(JobSpec("import", tenant="red")).job_id
    log.submit(JobSpec("import", key="k", tenant="blue", parent_id=parent))
    red = Client(server.port, a_token(log, "jobs:read", tenant="red"))

    assert red.good(f"/api/v1/jobs/{parent}/children")["items"] == []


# -- tokens ----------------------------------------------------------------------------------------------------------


def test_only_the_hash_of_a_secret_is_kept(log: JobLog) -> None:
    secret = a_token(log, "jobs:read", name="ada").split("_", 2)[2]

    [row] = tokens.listed(log.store, "token")

    assert secret not in str(row)
    assert row.name == "ada"


def test_a_revoked_or_expired_token_opens_nothing(log: JobLog, server: HttpServer) -> None:
    good = a_token(log, "jobs:read", name="soon-gone")
    late = a_token(log, "jobs:read", expires_at=log.store.now() - 1)
    assert Client(server.port, late).get("/api/v1/jobs").code == "unauthorized"

    auth.revoke(log, "soon-gone")

    assert Client(server.port, good).get("/api/v1/jobs").code == "unauthorized"
    with pytest.raises(TokenNotFoundError):
        auth.revoke(log, "soon-gone")


def test_a_command_counts_a_right_withdrawn_while_it_was_cached(log: JobLog, server: HttpServer) -> None:
    client = Client(server.port, a_token(log, "jobs:read", "jobs:write", "jobs:control", name="demoted"))
    job_id = client.submit()
    assert client.get(f"/api/v1/jobs/{job_id}").status == 200
    head = log.store.head()

    server.service.auth._known = {k: (p, float("inf")) for k, (p, _) in server.service.auth._known.items()}
    auth.revoke(log, "demoted")

    assert client.post(f"/api/v1/jobs/{job_id}/pause").code == "forbidden"
    assert client.post("/api/v1/jobs", {"kind": "import"}).code == "forbidden"
    assert client.post("/api/v1/batches", {"jobs": [{"kind": "import", "key": a_key()}]}).code == "forbidden"
    assert log.store.head() == head


#: Every command that asks for its right itself, and what it needs: JSON, or the fields of a form.
ASKING: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/api/v1/jobs/{id}/pause", {}),
    ("/api/v1/queues/default/pause", {}),
    ("/api/v1/gates/crm/limit", {"slots": 1}),
    ("/api/v1/gates/crm/close", {"seconds": 60}),
    ("/api/v1/gates/crm/open", {}),
    ("/jobs/{id}/resume", {}),
    ("/queues/default/resume", {}),
    ("/gates/close", {"gate": "crm", "span": "1h"}),
)


@pytest.mark.parametrize("stands", [True, False])
def test_a_command_asks_for_its_right_once_and_right_before_its_effect(
    admin: Client, log: JobLog, monkeypatch: pytest.MonkeyPatch, *, stands: bool
) -> None:
    job_id = admin.submit()
    log.command("pause", UUID(admin.submit(args=2)), Actor("ada"))
    admin.post("/api/v1/gates/crm/limit", {"slots": 2})
    asked: list[tuple[str, str]] = []

    def noted(_: Store, given: Sequence[tuple[str, str]]) -> dict[tuple[str, str], bool]:
        asked.extend(given)
        return dict.fromkeys(given, stands)

    monkeypatch.setattr(tokens, "may_all", noted)
    for path, given in ASKING:
        asked.clear()
        head, is_form = log.store.head(), not path.startswith("/api")
        if is_form:
            body = urlencode({"key": a_key(), **given}).encode()
            headers = {"Content-Type": "application/x-www-form-urlencoded"}
            reply = admin.request("POST", path.format(id=job_id), body, headers)
        else:
            reply = admin.post(path.format(id=job_id), given)
        assert (reply.status in {200, 303}, log.store.head() > head) == (stands, stands), (path, reply)
        assert len(asked) == 1 or not stands, path  # what its state refuses is refused before
    assert len(ASKING) == sum(route.asks for route in ROUTES)


def test_the_use_of_a_token_is_noted(log: JobLog, server: HttpServer) -> None:
    Client(server.port, a_token(log, "jobs:read")).get("/api/v1/jobs")

    [row] = tokens.listed(log.store, "token")

    assert row.used_at is not None


@pytest.mark.parametrize(
    ("scopes", "more"),
    [((), {}), (("nonsense",), {}), (("workers",), {"tenant": "red"}), (("admin",), {"owner": "bob"})],
)
def test_a_token_that_makes_no_sense_is_refused(scopes: tuple[str, ...], more: dict[str, str]) -> None:
    with pytest.raises(InvalidFieldError):
        auth.minted(name="x", scopes=scopes, now=0, **more)


# -- proxies and addresses -------------------------------------------------------------------------------------------


def test_only_a_trusted_peer_names_the_user_and_the_client(sqlite_log: JobLog) -> None:
    named = {
        "X-Forwarded-User": "carol",
        "X-Forwarded-Groups": "staff, joblog:jobs:write,joblog:jobs:control",
        "X-Forwarded-For": "6.6.6.6, 203.0.113.7",
    }
    with serving(sqlite_log) as server:
        assert Client(server.port, headers=named).get("/api/v1/jobs").code == "unauthorized"
    with serving(sqlite_log, proxies=Proxies.of(["127.0.0.0/8"])) as server:
        carol = Client(server.port, headers=named)
        job_id = carol.submit()
        assert carol.post(f"/api/v1/jobs/{job_id}/pause").status == 200
        assert carol.get("/metrics").code == "scope-missing"
        data = carol.good(f"/api/v1/jobs/{job_id}/events")["items"][-1]["data"]
        assert (data["actor"], data["address"]) == ("carol", "203.0.113.7")
        cross = carol.post(f"/api/v1/jobs/{job_id}/resume", Sec_Fetch_Site="cross-site")
        assert (cross.status, cross.code) == (403, "cross-site")
        assert carol.post(f"/api/v1/jobs/{job_id}/resume", Origin="https://evil.example").code == "cross-site"
        assert carol.post(f"/api/v1/jobs/{job_id}/resume", Sec_Fetch_Site="same-origin").status == 200


def test_a_bad_network_of_proxies_is_refused() -> None:
    with pytest.raises(InvalidFieldError):
        Proxies.of(["not-a-network"])


def test_a_public_address_needs_a_token_or_a_proxy(sqlite_log: JobLog) -> None:
    public = Bind("0.0.0.0", 0)  # noqa: S104 - it must be refused
    with pytest.raises(UnsafeBindError, match="can be reached by others"):
        HttpServer(sqlite_log, Jobs(), public)
    a_token(sqlite_log, "admin")
    HttpServer(sqlite_log, Jobs(), public)._socket.close()


def test_a_refused_door_is_told_in_the_services_log_without_the_token(
    on_file: Client, caplog: pytest.LogCaptureFixture
) -> None:
    Client(on_file.port, "jl_secret").get("/api/v1/jobs", X_Request_Id="who-was-that-1")

    assert "request who-was-that-1 from 127.0.0.1 was refused with 401" in caplog.text
    assert "jl_secret" not in caplog.text
