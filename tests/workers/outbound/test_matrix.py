"""TST-08 to TST-17, the outer half of the matrix: every kind that goes out against everything that a peer may do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from joblog.domain import withheld
from joblog.domain.job import Actor, Job
from joblog.domain.status import Status
from joblog.workers.commands import claiming
from joblog.workers.executor import Execution
from joblog.workers.operations import builtin
from tests.clocks import MovedClock
from tests.conformance.backends import SqliteBackend
from tests.workers.operations.receiver import SECRETS
from tests.workers.outbound.matrix import CANARY, COLUMNS, LATEST, LONG, RETRY, ROWS, SHORT, STAYING, WAITS, Row
from tests.workers.outbound.test_canary import contents, forms

FIRST = timedelta(seconds=RETRY.first_seconds)
DAY = 86_400


class Fixed:
    def __init__(self, value: float) -> None:
        self.value = value

    def random(self) -> float:
        return self.value


class Site:
    """A row of the matrix at work: a log, a moved clock, an imaginary worker and the peer."""

    def __init__(self, row: Row, folder: Path) -> None:
        self.row = row
        self.backend = SqliteBackend(f"sqlite:///{folder / 'joblog.db'}", MovedClock())
        self.log = self.backend.open()

    def work(self) -> None:
        with ThreadPoolExecutor(2) as pool:
            while True:
                self.log.promote()
                held = claiming.claim(self.log, "w", queues=["default"], limit=10)
                if not held:
                    return
                for one in held:
                    asyncio.run(Execution(self.log, one, self.row.jobs, pool, pool).run())

    def tried(self, name: str, behaviour: Any) -> tuple[Job, int]:
        """A new job, once, against a peer that behaves so; and how many requests that were."""
        before, self.row.at.now = self.row.at.asked, behaviour
        self.row.submit(self.log, name)
        self.work()
        return self.job(name), self.row.at.asked - before

    def job(self, name: str) -> Job:
        return self.row.job(self.log, name)

    def good(self) -> None:
        self.row.at.now = self.row.at.good

    def move_to(self, job: Job) -> None:
        self.backend.clock.move((job.due_at - self.log.now()).total_seconds())


@pytest.fixture(params=ROWS)
def site(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    kind = ROWS[request.param]
    with kind.peer().serving() as peer:
        made = Site(kind(peer, monkeypatch), tmp_path)
        yield made
        made.backend.close()
    withheld.forget()


def retried(site: Site, cell: dict[str, Any]) -> None:
    """One request; then the back-off, stored; then it goes well."""
    for name, behaviour in cell.items():
        job, requests = site.tried(name, behaviour)
        assert (job.status, requests) == (Status.WAITING, 1), name
        assert FIRST <= job.due_at - site.log.now() <= LATEST, name
        site.good()
        site.move_to(job)
        site.work()
        assert site.job(name).status is Status.COMPLETED, name


def timed_out(site: Site, cell: dict[str, Any]) -> None:
    """As ``retried``, by the deadline; how far a request came until then is the machine's."""
    for name, behaviour in cell.items():
        site.row.hurry(SHORT)
        job, requests = site.tried(name, behaviour)
        assert (job.status, job.reason, requests <= 1) == (Status.WAITING, "network", True), name
        site.row.hurry(LONG)
        site.good()
        site.move_to(job)
        site.work()
        assert site.job(name).status is Status.COMPLETED, name


def refused(site: Site, cell: dict[str, Any]) -> None:
    """One request, and never another."""
    for name, behaviour in cell.items():
        job, requests = site.tried(name, behaviour)
        assert requests == 1, name
        assert job.status in {Status.COMPLETED, Status.FAILED, Status.PAUSED}, name
        assert job.tallies.get("sent", 0) == job.tallies.get("accepted", 0) == 0, name  # BND-06
    before = site.row.at.asked
    site.backend.clock.move(DAY)
    site.work()
    assert site.row.at.asked == before


def told_to_wait(site: Site, cell: dict[str, Any]) -> None:
    """A Retry-After that is one is kept to the second; any other counts as none."""
    for name, behaviour in cell.items():
        before, asked = site.log.now(), site.row.at.asked
        site.good()
        job, _ = site.tried(f"w{name}", behaviour) if WAITS.get(name) != 0 else (None, 0)
        if job is None:  # at once: it would be asked again and again
            continue
        wait, requests = job.due_at - before, site.row.at.asked - asked
        assert requests == 1, name
        if (seconds := WAITS.get(name)) is not None:
            assert wait == timedelta(seconds=seconds), name
        else:
            assert FIRST <= wait <= LATEST, name


def jittered(site: Site, cell: dict[str, Any]) -> None:
    [(name, behaviour)] = cell.items()
    waits = []
    for number, value in enumerate((0.0, 0.5, 1 - 2**-53)):
        site.log.random = Fixed(value)
        job, _ = site.tried(f"{name}-{number}", behaviour)
        waits.append(job.due_at - site.log.now())

    assert waits[0] == FIRST
    assert waits[0] < waits[1] < waits[2] <= LATEST


def exhausted(site: Site, cell: dict[str, Any]) -> None:
    """RTY-04, EXH-01, EXH-06: whatever the causes, they share one counter; the work is kept."""
    first, *others = cell.values()
    job, requests = site.tried("one", first)
    for behaviour in others:
        site.row.at.now = behaviour
        site.move_to(job)
        site.work()
        job, requests = site.job("one"), requests + 1
    assert (job.status, site.row.at.asked) == (Status.PAUSED, RETRY.retries + 1)
    assert job.reason.startswith("exhausted-")
    site.backend.clock.move(DAY)
    site.work()
    assert site.row.at.asked == requests == RETRY.retries + 1

    site.good()
    site.log.command("retry", job.id, Actor("ada"))
    site.work()
    assert site.job("one").status is Status.COMPLETED


def restarted(site: Site, cell: dict[str, Any]) -> None:
    [(name, behaviour)] = cell.items()
    job, requests = site.tried(name, behaviour)
    for _ in range(10):
        site.log = site.backend.reopen(site.log)
        site.backend.clock.move(FIRST.total_seconds() / 11)
        site.work()
        assert (site.job(name).due_at, site.row.at.asked) == (job.due_at, requests)  # neither early nor drawn again
    site.good()
    site.move_to(job)
    site.work()
    assert (site.job(name).status, site.row.at.asked) == (Status.COMPLETED, requests + 1)


def kept_secret(site: Site, cell: dict[str, Any]) -> None:
    for name, behaviour in cell.items():
        site.tried(name, behaviour)
    stored = contents(site.log, site.backend.url)
    for secret in (CANARY, SECRETS["HOOK_SECRET_1"]):
        for form, needle in forms(secret).items():
            if site.row.kind != "mail.send":  # which knows neither, and is told one by its peer alone
                assert needle not in stored, form


def not_kept(site: Site, cell: dict[str, Any]) -> None:
    for name, behaviour in cell.items():
        _, requests = site.tried(name, behaviour)
        assert requests == 1, name
    assert b"r3sp0nse" not in contents(site.log, site.backend.url)


CHECKS: dict[str, Callable[[Site, dict[str, Any]], None]] = {
    "TST-08": timed_out,
    "TST-09": retried,
    "TST-10": retried,
    "TST-11": refused,
    "TST-12": told_to_wait,
    "TST-13": jittered,
    "TST-14": exhausted,
    "TST-15": restarted,
    "TST-16": kept_secret,
    "TST-17": not_kept,
}


@pytest.mark.parametrize("column", COLUMNS)
def test_a_cell(site: Site, column: str) -> None:
    CHECKS[column](site, site.row.cells[column])


def test_no_cell_is_empty() -> None:
    assert {(kind, column) for kind, row in ROWS.items() for column in COLUMNS if not row.cells.get(column)} == set()
    assert CHECKS.keys() == set(COLUMNS)


def test_every_kind_that_comes_with_joblog_has_its_row_or_stays_inside() -> None:
    assert set(builtin().kinds()) == (ROWS.keys() - {"call"}) | STAYING
