"""A job whose holders died twice runs alone, and holds up nobody else for that."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import pytest

from joblog import JobLog, Jobs, JobSpec, SyncRun, Worker, WorkerSettings
from joblog.domain.job import CRASH_LIMIT
from joblog.eventstore.memory_store import MemoryStore
from joblog.workers.suspects import BUSY, PASSED_OVER, QUIET, Suspects
from tests.clocks import MovedClock
from tests.patience import BOUND, until

SLOTS = 4


def test_an_idle_worker_takes_one_and_a_busy_one_takes_nothing_for_it() -> None:
    suspects = Suspects(MovedClock())
    assert not suspects.have_a_turn(wait=False, is_idle=True)
    assert suspects.have_a_turn(wait=True, is_idle=True)
    assert suspects.have_a_turn(wait=True, is_idle=False)
    assert suspects.seconds_left == QUIET


def test_a_busy_worker_is_quiet_for_so_long_and_no_longer() -> None:
    clock = MovedClock()
    suspects = Suspects(clock)
    assert suspects.have_a_turn(wait=True, is_idle=False)
    clock.move(QUIET - 1)
    assert suspects.have_a_turn(wait=True, is_idle=False)
    assert suspects.seconds_left == 1
    clock.move(1)
    assert not suspects.have_a_turn(wait=True, is_idle=False)
    assert suspects.seconds_left == BUSY
    clock.move(BUSY)
    assert suspects.have_a_turn(wait=True, is_idle=False)  # and for as long again


def test_quiet_times_do_not_add_up_over_turns() -> None:
    clock = MovedClock()
    suspects = Suspects(clock)
    for _ in range(5):
        assert suspects.have_a_turn(wait=True, is_idle=False)
        clock.move(QUIET - 1)
        assert suspects.have_a_turn(wait=True, is_idle=True)


def test_others_go_on_behind_a_suspect_that_was_passed_over() -> None:
    clock = MovedClock()
    suspects = Suspects(clock)
    suspects.were_passed_over()
    assert not suspects.have_a_turn(wait=True, is_idle=True)
    assert suspects.seconds_left == PASSED_OVER
    clock.move(PASSED_OVER)
    assert suspects.have_a_turn(wait=True, is_idle=True)
    suspects.were_passed_over()
    suspects.are_alone()
    assert suspects.have_a_turn(wait=True, is_idle=True)


class Site:
    """A log in memory with a suspect of the lowest priority, and jobs that run until they are let go."""

    def __init__(self, log: JobLog, clock: MovedClock) -> None:
        self.clock = clock
        self.log, self.jobs, self.go_on = log, Jobs(), threading.Event()
        self.beside: list[int] = []  #: how many ran beside the suspect

        @self.jobs.job("slow")
        def slow(run: SyncRun, args: str) -> None:
            if args == "suspect":
                self.beside.append(self.running() - 1)
            else:
                self.go_on.wait(BOUND)

        self.suspect = self.submit("suspect", priority=9)
        store = log.store
        assert isinstance(store, MemoryStore)
        store.tables.jobs[0][self.suspect]["crashes"] = CRASH_LIMIT - 1

    def submit(self, args: str, priority: int = 5, queue: str = "default") -> UUID:
        return self.log.submit(JobSpec("slow", args, priority=priority, queue=queue)).job_id

    def running(self) -> int:
        return len(self.log.store.find_jobs(status="running", limit=99))

    def has_ended(self, job_id: UUID) -> bool:
        return self.log.row(job_id)["finished_at"] is not None

    @contextmanager
    def working(self) -> Iterator[None]:
        worker = Worker(self.log, self.jobs, WorkerSettings("w", slots=SLOTS))
        thread = threading.Thread(target=worker.run)
        thread.start()
        try:
            yield
        finally:
            self.go_on.set()
            worker.stop()
            thread.join(BOUND)


@pytest.fixture
def site() -> Iterator[Site]:
    clock = MovedClock()  # it stands still: nothing below is cured by waiting
    with JobLog(MemoryStore(clock=clock), clock=clock) as log:
        yield Site(log, clock)


def test_jobs_that_come_first_fill_the_slots_and_it_runs_alone_behind_them(site: Site) -> None:
    others = [site.submit("other") for _ in range(2 * SLOTS)]
    with site.working():
        until(lambda: site.running() == SLOTS)
        site.go_on.set()
        until(lambda: site.has_ended(site.suspect))
    assert all(map(site.has_ended, others))
    assert site.beside == [0]


def test_one_that_comes_first_is_taken_first_and_alone(site: Site) -> None:
    site.clock.move(1)
    for _ in range(2 * SLOTS):
        site.submit("other", priority=9)
    with site.working():
        until(lambda: site.has_ended(site.suspect))
        until(lambda: site.running() == SLOTS)
    assert site.beside == [0]
