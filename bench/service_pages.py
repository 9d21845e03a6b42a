"""The server's own time for every screen and list of a seeded log, from its first page to its last."""

from __future__ import annotations

import gc
import http.client
import random
import time
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from joblog.api import cursors
from joblog.api.http.server import Bind, HttpServer
from joblog.projections import queries
from joblog.workers.commands.log import JobLog
from joblog.workers.registry import Jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TIMES = 12  #: requests of each kind
LONG = 100.0  #: milliseconds of one request that are told at once
FILTERS: tuple[dict[str, str], ...] = (
    {},
    {"status": "completed"},
    {"status": "failed"},
    {"status": "queued"},
    {"status": "running"},
    {"kind": "kind-03"},
    {"queue": "queue-04"},
    {"tenant": "tenant-07"},
    {"owner": "owner-123"},
    {"kind": "kind-03", "status": "failed"},
    {"queue": "queue-04", "status": "running"},
    {"tenant": "tenant-07", "kind": "kind-03"},
    {"owner": "owner-123", "status": "failed"},
    {"tenant": "tenant-07", "kind": "kind-04"},  # many of each, none of both
    {"queue": "queue-04", "kind": "kind-04", "status": "queued"},
    {"queue": "queue-05", "status": "waiting"},
    {"kind": "no-such-kind"},
    {"kind": "no-such-kind", "status": "completed"},
)
PARTS = ("", "/events", "/units", "/attempts", "/history", "/children", "/why", "/lease")
SCREENS = ("/", "/jobs", "/queues", "/workers", "/gates", "/recovery", "/feed", "/projections", "/security", "/admin")
OTHERS = ("queues", "workers", "leases", "gates", "consumers", "projections", "security")


def paths(log: JobLog, jobs: int, chance: random.Random) -> Iterator[tuple[str, str]]:
    """Name and path of every request, each at some depth."""
    newest, oldest = _edges(log)
    head = log.store.head()
    some = [row["id"] for row in log.store.find_jobs(limit=200)]
    for _ in range(TIMES):
        depth = chance.random()
        at = int(newest - depth * (newest - oldest))
        position = int(head * (1 - depth))
        for given in FILTERS:
            shown = " ".join(f"{name}={value}" for name, value in given.items()) or "all"
            full = {"status": None, "kind": None, "queue": None, "tenant": None, "owner": None} | given
            place = cursors.encode(cursors.Place(at, some[0]), full)
            yield f"jobs {shown}", _url("/api/v1/jobs", given)
            yield f"jobs {shown}, deep", _url("/api/v1/jobs", {**given, "cursor": place})
            yield f"screen jobs {shown}, deep", _url("/jobs", {**given, "cursor": place})
            yield f"screen jobs {shown}, past", _url("/jobs", {**given, "at": position})
            yield f"jobs {shown}, past", _url("/api/v1/jobs", {**given, "at": position})
            behind = cursors.encode(cursors.Place(position // 2, some[0]), {**full, "at": position})
            yield f"jobs {shown}, past, deep", _url("/api/v1/jobs", {**given, "at": position, "cursor": behind})
        job = chance.choice(some)
        for part in PARTS:
            yield f"job{part}", f"/api/v1/jobs/{job}{part}"
        yield "job, past", f"/api/v1/jobs/{job}?at={head}"
        yield "job by its beginning", f"/api/v1/jobs?id={str(job)[:8]}"
        yield "screen job", f"/jobs/{job}"
        yield "feed", f"/api/v1/feed?after={position}"
        yield "log", f"/api/v1/log?after={position}"
        yield "log of a job", f"/api/v1/log?job={job}"
        yield "schedule", "/api/v1/schedule"
        due = cursors.encode(cursors.Place(at, some[0]), {"status": None, "kind": None, "queue": None, "tenant": None})
        yield "schedule, deep", _url("/api/v1/schedule", {"cursor": due})
        yield "schedule of a queue", "/api/v1/schedule?queue=queue-02&status=waiting"
        for chosen in ("all", "done", "failed"):
            page = int(depth * jobs / 200) + 1
            total = queries.recovery_count(log.store, filter=chosen) if not _ else 10**6
            yield (
                f"recovery {chosen}, turning a page",
                _url("/api/v1/recovery", {"filter": chosen, "page": page, "total": total}),
            )
        yield "recovery searched", "/api/v1/recovery?q=NUMBER"
        yield "recovery searched, nothing found", "/api/v1/recovery?q=nothing+of+the+kind"
        yield "schedule of a kind", "/api/v1/schedule?kind=kind-03&status=waiting"
        yield "metrics", "/metrics"
        for name in OTHERS:
            yield name, f"/api/v1/{name}"
        for path in SCREENS:
            yield f"screen {path}", path


def _edges(log: JobLog) -> tuple[int, int]:
    newest = log.store.find_jobs(limit=1)[0]["created_at"]
    oldest = log.store.find_jobs(limit=1, after=(0, log.store.find_jobs(limit=1)[0]["id"]))[0]["created_at"]
    return newest, oldest


def _url(path: str, given: dict[str, Any]) -> str:
    return f"{path}?{urlencode(given)}" if given else path


class Took(NamedTuple):
    """Milliseconds of one request: until its answer was made; and of this process' processors, the client's part included."""

    wall: float
    cpu: float


def measure(url: str, token: str, jobs: int, say: Callable[[str], None]) -> dict[str, list[Took]]:
    """What each request took, by its name.  On a machine with other work the second figure is the one to look at."""
    found: dict[str, list[Took]] = {}
    with JobLog.open(url) as log:
        server = HttpServer(log, Jobs(), Bind(port=0))
        server.start()
        gc.collect()
        gc.freeze()  # as `joblog serve` does
        took: list[float] = []
        add = server.service.requests.add

        def noted(method: str, path: str, status: int, seconds: float) -> None:
            took.append(seconds * 1000)
            add(method, path, status, seconds)

        server.service.requests.add = noted  # type: ignore[method-assign]
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        headers = {"Authorization": f"Bearer {token}"}
        try:
            for name, path in paths(log, jobs, random.Random(1)):
                began = time.process_time()
                connection.request("GET", path, headers=headers)
                answer = connection.getresponse()
                answer.read()
                if answer.status != 200:
                    raise RuntimeError(f"{path} is answered with {answer.status}")
                until = time.monotonic() + 5
                while not took and time.monotonic() < until:
                    time.sleep(0)  # the answer is out before it is noted
                found.setdefault(name, []).append(Took(took.pop(), (time.process_time() - began) * 1000))
                if found[name][-1].wall > LONG:
                    say(f"{found[name][-1].wall:.0f} ms: {path}")
        finally:
            connection.close()
            server.stop()
    return found
