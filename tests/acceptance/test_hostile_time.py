"""C2, C3, C4, C18: stopped, blocked and busy processes, and clocks that are stepped, on both databases."""

from __future__ import annotations

import signal
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from joblog.domain.status import Status
from tests.acceptance import workers
from tests.acceptance.app import UNITS
from tests.acceptance.conftest import Site
from tests.acceptance.run_worker import LEASES
from tests.patience import until

LEASE = LEASES.lease.total_seconds()


def test_c2_a_zombie_in_the_middle_of_its_effect_changes_nothing(site: Site) -> None:
    """It has called outside and is stopped before it can record it; it comes back when another has done all."""
    job_id = site.submit("call")
    with workers.running(site.url, "unit.after_effect", "1", "SIGSTOP") as zombie:
        until(lambda: len(site.effects()) == 1)
        job = site.finish(job_id)
        assert (job.status, job.reclaims) == (Status.COMPLETED, 1)
        before = site.topics(job_id)

        zombie.send_signal(signal.SIGCONT)
        later = site.submit("steps")
        until(lambda: site.status(later) == "completed")  # it goes on with other work
        zombie.send_signal(signal.SIGTERM)
        assert zombie.wait(timeout=30) == 0

    assert site.topics(job_id) == before
    calls = Counter(line for line in site.effects() if line.startswith("call-"))
    assert list(calls.values()) == [2]  # one crash, one call more; a receiver that knows the key sees one
    assert before.count("unit-completed") == 2


def test_c18_a_blocked_loop_and_a_busy_interpreter_keep_their_leases(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKER_LEASE", str(2 * LEASE))  # room for a machine that does other things besides
    for kind in ("blocked", "busy"):
        site.submit(kind, more={"seconds": 6 * LEASE})
    with workers.running(site.url) as holder:
        until(lambda: len(site.effects()) >= 1)
        with workers.working(site.url):  # idle, and would take over what expires
            until(lambda: not site.log.store.find_jobs(status="running", limit=1))
        assert holder.poll() is None

    assert sorted(site.effects()) == ["blocked", "busy"]
    for row in site.log.store.find_jobs(status="completed", limit=10):
        assert (row["reclaims"], row["attempt"]) == (0, 1)


def test_c3_c4_clocks_are_stepped_forwards_and_backwards(site: Site) -> None:
    """By an hour and by ten minutes; on SQLite the wall clock of all, on PostgreSQL that of the workers."""
    wrong = site.folder / "clock"
    step(wrong, 0)
    held = site.submit("slow")
    with ExitStack() as stack:
        stack.enter_context(workers.running(site.url, JOBLOG_TEST_CLOCK=str(wrong)))
        until(lambda: site.effects() == ["waiting"])
        stack.enter_context(workers.running(site.url, JOBLOG_TEST_CLOCK=str(wrong)))

        for seconds in (3600, -600, 0):
            step(wrong, seconds)
            flaky = site.submit("flaky")
            others = [site.submit("steps") for _ in range(3)]
            until(lambda ids=(flaky, *others): all(site.status(one) == "completed" for one in ids))  # type: ignore[misc]
        Path(site.args["gate"]).touch()
        until(lambda: site.status(held) == "completed")

    assert site.log.job(held).reclaims == 0  # no early grant
    assert site.topics(held).count("claimed") == 1
    for row in site.log.store.find_jobs(status="completed", limit=100):
        assert row["done"] in {1, 2, UNITS}
        times = site.times(row["id"])
        assert times == sorted(times)


def step(clock: Path, seconds: int) -> None:
    partial = clock.with_suffix(".new")
    partial.write_text(str(seconds), encoding="ascii")
    partial.replace(clock)
