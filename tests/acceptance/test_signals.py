"""C19, SHD-01…04: a signal in every state of a worker drains it within its grace; nothing counts as a failure or a crash."""

from __future__ import annotations

import signal
from itertools import cycle
from typing import Final

import pytest

from tests.acceptance import workers
from tests.acceptance.app import UNITS
from tests.acceptance.conftest import Site
from tests.patience import until

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
#: Where the signal comes -> the kind of job that leads there, and the passing; the worker rig has all other points.
STATES: Final = {
    "startup.present": ("steps", 1),
    "claim.after_commit": ("steps", 1),
    "unit.before_effect": ("steps", 2),
    "unit.after_effect": ("steps-sync", 2),
    "marks.after_commit": ("elsewhere", 2),
    "retry.stored": ("flaky", 1),
    "job.before_completed": ("steps", 1),
}


@pytest.mark.parametrize(("state", "number"), list(zip(STATES, cycle(SIGNALS), strict=False)), ids=str)
def test_a_signal_in_any_state_gives_the_job_back_in_order(site: Site, state: str, number: signal.Signals) -> None:
    kind, nth = STATES[state]
    job_id = site.submit(kind)

    with workers.joblog_worker(site.url, JOBLOG_TEST_ARMED=f"{state}:{nth}:{number.name}") as worker:
        assert worker.wait(60) == 128 + number

    row = site.log.row(job_id)
    assert not site.is_held(job_id)
    assert row["status"] in {"queued", "waiting", "completed"}
    assert (row["reclaims"], row["crashes"]) == (0, 0)
    assert row["failures"] == (1 if kind == "flaky" else 0)


def test_two_signals_at_once_while_it_drains(site: Site) -> None:
    job_id = site.submit("slow")
    with workers.joblog_worker(site.url) as worker:
        until(lambda: site.effects() == ["waiting"])
        worker.send_signal(signal.SIGINT)
        workers.said(worker, "stopping: units go on")
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 130

    assert not site.is_held(job_id)
    assert site.log.row(job_id)["crashes"] == 0


def test_nohup_is_respected(site: Site) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # inherited by the child
    try:
        with workers.joblog_worker(site.url) as worker:
            workers.said(worker, "stop it with")
            worker.send_signal(signal.SIGHUP)
            job_id = site.submit("steps")
            until(lambda: site.status(job_id) == "completed")
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(60) == 143
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("kind", ["blocked", "blocked-thread", "blocked-process"])
def test_shd_02_a_unit_of_ten_minutes_keeps_nobody_past_the_grace(site: Site, kind: str) -> None:
    job_id = site.submit(kind)
    with workers.joblog_worker(site.url, "--grace", "1s") as worker:
        until(lambda: site.effects() == ["blocked"])
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 143

    row = site.log.row(job_id)
    assert (row["status"], row["done"], row["crashes"]) == ("queued", 0, 0)  # abandoned before its checkpoint
    assert not site.is_held(job_id)


def test_shd_04_the_second_signal_ends_a_worker_whose_loop_is_blocked(site: Site) -> None:
    job_id, head = site.submit("blocked"), site.log.store.head()
    with workers.joblog_worker(site.url, "--grace", "10m") as worker:
        until(lambda: site.effects() == ["blocked"])
        worker.send_signal(signal.SIGTERM)
        workers.said(worker, "stopping: units go on")
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 143

    assert site.topics(job_id) == ["submitted", "claimed", "lease-released"]
    assert site.log.store.head() == head + 2


def test_shd_03_a_worker_that_waits_in_a_slot_wakes_at_once(site: Site) -> None:
    job_id = site.submit("napping")
    with workers.joblog_worker(site.url) as worker:
        until(lambda: site.log.row(job_id)["done"] == 1)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) == 143

    assert site.status(job_id) == "queued"
    assert site.effects() == ["s0"]


def test_shd_06_what_is_submitted_during_a_shutdown_is_there(site: Site) -> None:
    held = site.submit("slow")
    with workers.joblog_worker(site.url) as worker:
        until(lambda: site.effects() == ["waiting"])
        worker.send_signal(signal.SIGTERM)
        workers.said(worker, "stopping: units go on")
        later = site.submit("steps")
        (site.folder / "gate").touch()
        assert worker.wait(60) == 143

    assert site.topics(later) == ["submitted"]  # durably stored, and claimed by nobody who stops
    assert site.finish(later).done == UNITS
    assert site.log.job(held).crashes == 0
