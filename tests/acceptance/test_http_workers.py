"""Workers in other languages, as documented: they import a file, are killed, and another goes on at the checkpoint."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest

from joblog import Actor, JobLog, LeasePolicy
from tests.acceptance.workers import end
from tests.api.http.client import Client, a_token, serving
from tests.conformance.builders import BOUND
from tests.patience import until

DOCS = Path(__file__).parents[2] / "docs"
UNITS = 6
LINES = [f"line {number}" for number in range(UNITS * 10 - 3)]
LANGUAGES = {"sh": ["sh", str(DOCS / "worker.sh")], "node": ["node", str(DOCS / "worker.mjs")]}


class Import:
    """A service, a file to import, and a job that says so."""

    def __init__(self, log: JobLog, port: int, folder: Path) -> None:
        self.log, self.port = log, port
        self.target = folder / "target"
        self.target.mkdir()
        source = folder / "source.txt"
        source.write_text("\n".join(LINES) + "\n")
        self.client = Client(port, a_token(log, "admin"))
        self.job_id = self.client.submit("lines.import", {"file": str(source), "target": str(self.target)})
        self.token = a_token(log, "workers")

    @contextmanager
    def worker(self, language: str, name: str, slow: str = "") -> Iterator[subprocess.Popen[bytes]]:
        environment = {**os.environ, "JOBLOG_URL": f"http://127.0.0.1:{self.port}", "JOBLOG_TOKEN": self.token}
        environment |= {"WAIT": "8"} | ({"SLOW": slow} if slow else {})
        process = subprocess.Popen(
            [*LANGUAGES[language], name, "--until-idle"], env=environment, start_new_session=True
        )
        try:
            yield process
        finally:
            end(process)

    @property
    def done(self) -> int:
        return int(self.client.good(f"/api/v1/jobs/{self.job_id}")["done"])

    def status(self) -> str:
        return str(self.client.good(f"/api/v1/jobs/{self.job_id}")["status"])

    def imported(self) -> list[str]:
        files = [self.target / str(number) for number in range(UNITS)]
        return [line for file in files for line in file.read_text().splitlines()]


@pytest.fixture
def site(database_url: str, tmp_path: Path) -> Iterator[Import]:
    leases = LeasePolicy(lease=timedelta(seconds=4), heartbeat=timedelta(seconds=1))
    with JobLog.open(database_url, leases=leases) as log, serving(log) as server:
        yield Import(log, server.port, tmp_path)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_worker_in_any_language_imports_a_file_and_survives_a_kill(site: Import, language: str) -> None:
    with site.worker(language, "first", slow="0.3") as first:
        until(lambda: site.done >= 2)
        first.kill()
        first.wait()
    before = site.done
    with site.worker(language, "second") as second:
        until(lambda: site.status() == "completed")
        assert second.wait(30) == 0

    assert site.imported() == LINES
    job = site.client.good(f"/api/v1/jobs/{site.job_id}")
    assert (job["result"], job["reclaims"], job["done"]) == ({"units": UNITS}, 1, UNITS)
    topics = [event.topic for event in site.log.store.read(site.log.job(_uuid(site)).id)]
    assert topics.count("joblog.job.unit-completed") == UNITS
    assert 2 <= before < UNITS


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_worker_in_any_language_stops_at_its_boundary_when_an_operator_asks(site: Import, language: str) -> None:
    with site.worker(language, "only", slow="0.3") as worker:
        until(lambda: site.done >= 1)
        site.log.command("pause", _uuid(site), Actor("ada"))
        until(lambda: site.status() == "paused")
        assert worker.wait(30) == 0
        assert site.log.store.lease(_uuid(site)) is None
    site.log.command("resume", _uuid(site), Actor("ada"))
    with site.worker(language, "again"):
        until(lambda: site.status() == "completed")

    assert site.imported() == LINES


@pytest.mark.parametrize("language", LANGUAGES)
def test_nothing_of_a_worker_outlives_it(site: Import, language: str) -> None:
    """What asked on behind it would take jobs for nobody."""
    with closing(socket.create_server(("127.0.0.1", 0))) as deaf:
        site.port = deaf.getsockname()[1]
        deaf.settimeout(BOUND)
        with site.worker(language, "gone") as worker:
            deaf.accept()[0].close()  # it asks, gets no answer, and asks again
            deaf.close()
            worker.kill()
            worker.wait()
            until(lambda: not is_there(worker.pid))


def is_there(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _uuid(site: Import) -> UUID:
    return UUID(site.job_id)
