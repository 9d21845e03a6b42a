"""GAT-01, GAT-02, GAT-04: three worker processes, one gate, judged by the server that they ask."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise

import pytest

from joblog.domain.status import Status
from tests.acceptance import workers
from tests.acceptance.app import jobs
from tests.acceptance.conftest import Site
from tests.patience import until

JOBS, LIMIT, SPACING = 20, 4, timedelta(seconds=0.12)
HELD = 0.6  #: seconds that an answer takes: spacing alone would let five requests be under way


class Provider(ThreadingHTTPServer):
    """Counts what is under way, from the arrival of a request until just before its answer."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.guard = threading.Lock()
        self.under_way = self.most = 0
        self.seen: list[tuple[datetime, datetime]] = []  #: when it came, when it was let go
        self.ends: list[datetime] = []
        self.held, self.seconds = threading.Event(), HELD


class Handler(BaseHTTPRequestHandler):
    server: Provider

    def do_POST(self) -> None:
        at = datetime.fromisoformat(self.headers["X-Turn"])
        with self.server.guard:
            self.server.seen.append((datetime.now(UTC), at))
            self.server.under_way += 1
            self.server.most = max(self.server.most, self.server.under_way)
        self.server.held.wait(self.server.seconds)
        with self.server.guard:
            self.server.under_way -= 1
            self.server.ends.append(datetime.now(UTC))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_twenty_jobs_in_three_processes_never_exceed_slots_nor_spacing(site: Site, provider: Provider) -> None:
    args = {"port": provider.server_address[1]}
    ids = [site.log.submit(jobs.spec("ask", args, key=f"{n}")).job_id for n in range(JOBS)]
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(workers.working(site.url))
        until(lambda: all(row["status"] == "completed" for row in site.log.store.jobs(ids).values()))
    found = [site.log.job(job_id) for job_id in ids]

    assert [(job.status, job.failures) for job in found] == [(Status.COMPLETED, 0)] * JOBS
    assert len(provider.seen) == JOBS
    assert provider.most <= LIMIT
    turns = sorted(at for _, at in provider.seen)
    assert min(later - earlier for earlier, later in pairwise(turns)) >= SPACING
    assert all(arrived >= at for arrived, at in provider.seen)
    arrivals = sorted(arrived for arrived, _ in provider.seen)
    assert all(arrived >= turns[0] + n * SPACING for n, arrived in enumerate(arrivals))


def test_one_by_one_no_two_requests_arrive_closer_than_the_spacing(site: Site, provider: Provider) -> None:
    """Whatever way a request has to go, and however long its process was kept from sending it."""
    provider.seconds, spacing = 0.01, timedelta(seconds=0.06)
    args = {"port": provider.server_address[1]}
    ids = [site.log.submit(jobs.spec("ask-strictly", args, key=f"{n}")).job_id for n in range(JOBS)]
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(workers.working(site.url))
        until(lambda: all(row["status"] == "completed" for row in site.log.store.jobs(ids).values()))

    assert len(provider.seen) == JOBS
    assert provider.most == 1
    arrivals = sorted(arrived for arrived, _ in provider.seen)
    assert min(later - end for end, later in zip(sorted(provider.ends), arrivals[1:], strict=False)) >= spacing
    assert min(later - earlier for earlier, later in pairwise(arrivals)) >= spacing
