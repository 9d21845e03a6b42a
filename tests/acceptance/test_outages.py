"""C7, STU-08: the database is away, at the start or every few seconds; no worker ends, nothing is lost or done twice."""

from __future__ import annotations

import random
import signal
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import UUID

import pytest
import sqlalchemy as sa

from joblog import JobLog
from joblog.domain.errors import StoreError
from tests import postgres_server as servers
from tests.acceptance import workers
from tests.acceptance.app import UNITS
from tests.acceptance.conftest import Site, made_site
from tests.acceptance.run_worker import LEASES
from tests.patience import until

RESTARTS = 5


@pytest.fixture
def server() -> Iterator[servers.Server]:
    """A PostgreSQL of the test's own, with an empty database."""
    with servers.private_server() as private:
        engine = sa.create_engine(private.url(), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(sa.text("CREATE DATABASE jobs TEMPLATE template0"))
        engine.dispose()
        yield private


@pytest.mark.postgres
def test_stu_08_a_worker_that_starts_before_its_server_waits_and_goes_on(
    server: servers.Server, tmp_path: Path
) -> None:
    url = server.url("jobs")
    with made_site(url, tmp_path) as site:
        job_id = site.submit("steps")
    server.stop("immediate")
    with workers.joblog_worker(url) as worker, workers.joblog_worker(url) as impatient:
        for one in (worker, impatient):
            workers.said(one, "waiting for the database")
        impatient.send_signal(signal.SIGTERM)  # also while it waits
        assert impatient.wait(60) == 143
        server.start()
        with JobLog.open(url, leases=LEASES) as log:
            until(lambda: log.row(job_id)["status"] == "completed")
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 143


def test_stu_08_a_locked_file_at_the_start_is_waited_for(sqlite_url: str, tmp_path: Path) -> None:
    with made_site(sqlite_url, tmp_path) as site:
        job_id = site.submit("steps")
        stranger = sqlite3.connect(tmp_path / "joblog.db", isolation_level=None)
        stranger.execute("BEGIN IMMEDIATE")
        with workers.joblog_worker(sqlite_url) as worker:
            workers.said(worker, "nothing can be claimed")
            stranger.execute("ROLLBACK")
            until(lambda: site.status(job_id) == "completed")
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(60) == 143
        stranger.close()


@pytest.mark.postgres
def test_c7_the_server_restarts_every_second_under_load(server: servers.Server, tmp_path: Path) -> None:
    url, rng = server.url("jobs"), random.Random(7)
    with ExitStack() as stack:
        site = stack.enter_context(made_site(url, tmp_path))
        crew = [stack.enter_context(workers.running(url)) for _ in range(2)]
        ids = []
        for number in range(RESTARTS):
            ids += [submitted(site, kind) for kind in ("steps", "steps-sync", "items", "elsewhere", "flaky")]
            workers.pause(rng.uniform(0.2, 1.0))
            server.stop("immediate" if number % 2 else "fast")
            workers.pause(rng.uniform(0.0, 0.5))
            server.start()
        until(lambda: all(status(site, one) == "completed" for one in ids))
        assert [worker.poll() for worker in crew] == [None] * len(crew)

        events = list(site.log.store.log(0, 10_000))
        assert [event.position for event in events] == list(range(1, len(events) + 1))
        for job_id in ids:
            row = site.log.row(job_id)
            units = [topic for topic in site.topics(job_id) if topic == "unit-completed"]
            assert len(units) == row["done"]
        copies = Counter(site.target(elsewhere=True))
        assert copies == dict.fromkeys(range(UNITS * 10), RESTARTS)  # exactly once for each of its jobs


def submitted(site: Site, kind: str) -> UUID:
    """Handed in, however often it takes; under a key, so that it is one job."""
    key = str(site.log.ids.next())
    while True:
        try:
            return site.submit(kind, key=key)
        except StoreError:
            workers.pause(0.1)


def status(site: Site, job_id: UUID) -> str:
    try:
        return site.status(job_id)
    except StoreError:
        return "unknown"
