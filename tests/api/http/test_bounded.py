"""However many jobs there are, what a list or a screen reads is bounded: by plans, rows and pages, not by a clock."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import pytest

from joblog.api import job_list, past
from joblog.domain.job import Actor
from joblog.domain.spec import JobSpec
from joblog.eventstore import inspection
from joblog.eventstore.store import Store
from joblog.projections import queries
from joblog.projections.runner import Runner
from joblog.workers.commands.log import JobLog
from tests.api.http.client import Client, a_token

JOBS = "/api/v1/jobs"
FILTERS = (
    "",
    "status=failed",
    "kind=a",
    "queue=x",
    "tenant=red",
    "owner=ada",
    "kind=a&status=failed",
    "tenant=red&kind=a&queue=x",
    "owner=ada&status=completed",
)
PARTS = ("", "/events", "/units", "/attempts", "/history", "/children", "/why", "/lease")
SCREENS = ("/", "/queues", "/workers", "/gates", "/feed", "/projections", "/security", "/admin")
OTHERS = ("queues", "workers", "leases", "gates", "consumers", "projections", "security", "feed?after=3", "log?after=3")
BIG = "events|jobs_[01]|job_versions|due_jobs|unit_results|recovery_rows|failures|failed_jobs|security_rows"


def fill(log: JobLog, jobs: int = 24) -> list[UUID]:
    """Jobs of two kinds, queues, tenants and owners; every third failed, every fifth was completed."""
    ids = [
        log.submit(
            JobSpec(
                "ab"[n % 2],
                n,
                key=str(n),
                queue="xy"[n // 2 % 2],
                tenant=("red", "blue")[n // 4 % 2],
                owner=("ada", "bob")[n % 3 > 0],
            )
        ).job_id
        for n in range(jobs)
    ]
    for held in log.claim("w", limit=jobs, queues=["x", "y"]):
        number = ids.index(held.job_id)
        if number % 3 == 0:
            held.fail(reason="bad", text="")
        elif number % 5 == 0:
            held.complete({})
        else:
            held.release("yield")
    Runner(log.store, log.mapper, "me").run()
    return ids


class Listener:
    """Hears every statement of a store that reads, with how many rows it gave."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.said: list[tuple[str, Any, int]] = []
        self._read = store.sql_rows  # type: ignore[attr-defined]  # a database's
        monkeypatch.setattr(store, "sql_rows", self)

    def __call__(self, sql: str, params: Any = (), **how: Any) -> list[Any]:
        found: list[Any] = self._read(sql, params, **how)
        self.said.append((sql, params, len(found)))
        return found

    def explain(self, sql: str, params: Any, dialect: str) -> list[str]:
        """Its plan, as it is when tables are large: PostgreSQL's would rather read a small one whole."""
        if dialect == "sqlite":
            return [str(row[3]) for row in self._read(f"EXPLAIN QUERY PLAN {sql}", params)]
        for name in ("seqscan", "sort", "bitmapscan"):
            self._read(f"SELECT set_config('enable_{name}', 'off', false)")
        return [str(row[0]) for row in self._read(f"EXPLAIN {sql}", params)]


def paths(log: JobLog, job_id: UUID) -> list[str]:
    at = log.store.head()
    lists = [f"{JOBS}?{one}{more}" for one in FILTERS for more in ("", f"&at={at}")]
    lists += [one.replace("/api/v1", "") for one in lists]
    one = [f"{JOBS}/{job_id}{part}" for part in PARTS] + [f"{JOBS}/{job_id}?at={at}", f"/jobs/{job_id}"]
    due = [f"/api/v1/schedule{more}" for more in ("", "?queue=x", "?kind=a&status=waiting")]
    return [*lists, *one, *due, *SCREENS, *(f"/api/v1/{one}" for one in OTHERS), "/metrics"]


#: What reads all of something big, or sorts it.
_WHOLE = {
    "sqlite": re.compile(rf"SCAN ({BIG})\b(?! USING)"),
    "postgresql": re.compile(rf"Seq Scan on ({BIG})\b"),
}


def test_no_list_and_no_screen_reads_or_sorts_a_whole_table(
    admin: Client, log: JobLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = fill(log)
    listener = Listener(log.store, monkeypatch)
    for path in paths(log, ids[0]):
        assert admin.get(path).status == 200, path

    dialect, wrong = log.store.dialect, {}
    said = {sql: params for sql, params, _ in listener.said}
    assert len(said) > 40
    for sql, params in said.items():
        plan = listener.explain(sql, params, dialect)
        text = "\n".join(plan)
        is_tail = "FROM unnest" in sql  # of one job's events, those behind its snapshot
        sorts = not is_tail and ("USE TEMP B-TREE" in text or "Sort " in text)
        if _WHOLE[dialect].search(text) or (sorts and re.search(rf"\b({BIG})\b", text)):
            wrong[sql] = text
    assert wrong == {}


def test_a_look_at_the_past_reads_neighbours(log: JobLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through an index of positions each of thousands of spans would be a page of its own."""
    fill(log)
    head = log.store.head()
    listener = Listener(log.store, monkeypatch)
    queries.jobs_as_of(log.store, head, status="failed", kind="a", down_to=1)
    [(sql, params, _)] = listener.said
    plan = "\n".join(listener.explain(sql, params, log.store.dialect))
    assert ("PRIMARY KEY" in plan) or ("job_versions_pkey" in plan), plan


# -- several filters at once -----------------------------------------------------------------------------------------


def links(reply: Any) -> dict[str, str]:
    found = re.findall(r'<([^>]*)>; rel="(\w+)"', reply.headers.get("link", ""))
    return {rel: url for url, rel in found}


def walk(client: Client, path: str, rel: str = "next") -> tuple[list[list[str]], list[str]]:
    """The ids of each page to the end, and the links to the pages."""
    pages: list[list[str]] = []
    urls = [path]
    while urls[-1]:
        reply = client.get(urls[-1])
        assert reply.status == 200, reply
        pages.append([one["id"] for one in reply.json["items"]])
        urls.append(links(reply).get(rel, ""))
    return pages, urls[:-1]


@pytest.mark.parametrize("query", ["kind=a&status=failed", "owner=ada&queue=x", "tenant=red&kind=b&status=queued"])
def test_a_list_under_several_filters_is_walked_whole_both_ways(
    admin: Client, log: JobLog, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    fill(log)
    wanted = dict(one.split("=") for one in query.split("&"))
    everything = list(log.store.find_jobs(limit=100))
    expected = [str(row["id"]) for row in everything if all(row[name] == value for name, value in wanted.items())]
    monkeypatch.setattr(job_list, "_LOOKS", 4)

    pages, urls = walk(admin, f"{JOBS}?limit=2&{query}")
    assert expected
    assert [one for page in pages for one in page] == expected
    assert max(map(len, pages)) <= 2

    back, _ = walk(admin, urls[-1], "prev")
    assert [one for page in back[::-1] for one in page] == expected
    first = links(admin.get(f"{JOBS}?limit=2&{query}"))
    assert "prev" not in first


def test_filters_that_no_job_fits_are_looked_for_so_far_and_no_further(
    admin: Client, log: JobLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.submit_many([JobSpec("ab"[n % 2], n, key=str(n), queue="xyw"[n % 3]) for n in range(120)])
    log.submit(JobSpec("b", queue="z"))
    monkeypatch.setattr(job_list, "_LOOKS", 20)
    listener = Listener(log.store, monkeypatch)

    far = admin.get(f"{JOBS}?kind=a&queue=x&status=queued&limit=25")
    assert 0 < len(far.json["items"]) < 20
    assert far.json["next"] is not None
    monkeypatch.setattr(job_list, "_LOOKS", 2)
    screen = admin.get("/jobs?kind=a&queue=x&status=queued&limit=25").body.decode()
    empty = "None of the newest matches; older ones may." in screen
    assert empty or "older ones are on the next page" in screen
    assert "Nothing matches." not in screen
    assert 'rel="next"' in screen
    monkeypatch.setattr(job_list, "_LOOKS", 20)
    none = admin.get(f"{JOBS}?kind=a&queue=z")
    assert (none.json["items"], none.json["next"]) == ([], None)  # one of the filters was read to its end
    assert max(rows for sql, _, rows in listener.said if " jobs_" in sql) <= 20


def test_jobs_are_never_searched_for_under_two_filters_at_once(
    admin: Client, log: JobLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in the past either, nor for who is bound to a tenant and an owner: an index tells of one of them alone."""
    ids = fill(log)
    at = log.store.head()
    listener = Listener(log.store, monkeypatch)
    for query in ("tenant=red&kind=a&queue=y", "owner=ada&kind=a&status=failed", "owner=bob&tenant=red"):
        assert admin.get(f"{JOBS}?at={at}&{query}").status == 200
    bound = Client(admin.port, a_token(log, "jobs:read", tenant="red", owner="bob"))
    for path in ("/", "/jobs", "/jobs?status=failed", f"/jobs?at={at}", JOBS, "/api/v1/schedule"):
        assert bound.get(path).status == 200
    for sql, _, _ in listener.said:
        where = sql.partition("WHERE")[2]
        asked = {name for name in ("status", "kind", "queue", "tenant", "owner") if f"{name} = " in where}
        assert "jobs_0" not in sql or len(asked) < 2, sql
    assert ids


def test_an_owners_past_is_walked_whole_under_other_filters(
    admin: Client, log: JobLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(log)
    monkeypatch.setattr(past, "_LEAST_WIDTH", 3)
    monkeypatch.setattr(past, "_LOOKS", 1)
    rows = log.store.find_jobs(owner="ada", limit=100)
    expected = [str(row["id"]) for row in rows if row["kind"] == "a" and row["status"] == "failed"]
    pages, _ = walk(admin, f"{JOBS}?at={log.store.head()}&owner=ada&kind=a&status=failed&limit=2")
    assert [one for page in pages for one in page] == expected
    assert expected


def test_the_schedule_is_walked_whole_under_filters(
    admin: Client, log: JobLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(log)
    monkeypatch.setattr(queries, "_LOOKS", 3)
    for query in ("", "queue=x&", "kind=a&", "queue=y&kind=b&status=queued&"):
        wanted = dict(one.split("=") for one in query.split("&") if one)
        everything = queries.schedule(log.store, limit=100)
        expected = [str(one["job_id"]) for one in everything if all(one[k] == v for k, v in wanted.items())]
        found: list[str] = []
        cursor: str | None = ""
        while cursor is not None:
            page = admin.good(f"/api/v1/schedule?{query}limit=2{cursor and f'&cursor={cursor}'}")
            assert len(page["items"]) <= 2
            found += [one["job"] for one in page["items"]]
            cursor = page["next"]
        assert found == expected, query


def test_counts_of_all_are_read_from_as_many_rows_however_many_tenants_there_are(
    admin: Client, log: JobLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.submit_many([JobSpec("a", n, key=str(n), queue="x", tenant=f"tenant-{n}") for n in range(40)])
    Runner(log.store, log.mapper, "me").run()
    assert queries.counters(log.store) == {("queued",): 40}
    assert queries.counters(log.store, tenant="tenant-7") == {("queued",): 1}
    assert len(queries.counters(log.store, by=("tenant",))) == 40

    listener = Listener(log.store, monkeypatch)
    for path in ("/", "/jobs", "/queues", "/metrics", "/jobs?kind=a"):
        assert admin.get(path).status == 200
    said = [(sql, params) for sql, params, _ in listener.said if "job_counts" in sql]
    assert len(said) > 5
    for sql, params in said:
        assert '"tenant" = ' in sql, sql
        assert "" in params


# -- queues ----------------------------------------------------------------------------------------------------------


def test_the_oldest_due_job_of_a_queue_is_found_behind_many_that_are_claimed_before_it(
    admin: Client, log: JobLog
) -> None:
    oldest = log.submit(JobSpec("import", queue="x", priority=9)).job_id
    log.submit_many([JobSpec("import", n, key=str(n), queue="x", priority=0) for n in range(inspection.FEW)])
    log.submit(JobSpec("import", queue="y"))

    def queue() -> Any:
        return next(one for one in admin.good("/api/v1/queues")["items"] if one["queue"] == "x")

    before = queue()
    assert (before["ready"], before["ready_is_exact"]) == (inspection.FEW, False)
    assert before["oldest_due_at"] is not None  # of those that were looked at: nobody follows yet
    Runner(log.store, log.mapper, "me").run()
    assert queue()["oldest_due_at"] == admin.good(f"{JOBS}/{oldest}")["due_at"]

    log.command("cancel", oldest, Actor("ada"))  # the schedule still has it
    assert queue()["oldest_due_at"] > before["oldest_due_at"] or queue() == before
