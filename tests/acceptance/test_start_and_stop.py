"""STU-* and SHD-*: how workers start after an unclean end, and stop in order, on both databases."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from joblog import Actor
from joblog.domain.events import LeaseExpired
from joblog.domain.status import Status
from joblog.workers.operations import builtin
from joblog.workers.worker import RAMP, RAMP_PAUSE
from tests.acceptance import workers
from tests.acceptance.conftest import Site
from tests.patience import until


def held_by(site: Site, job_id: object) -> str:
    return str(site.log.row(job_id)["worker"])  # type: ignore[arg-type]


def test_stu_01_a_starting_worker_leaves_a_live_one_alone(site: Site) -> None:
    job_id = site.submit("slow")
    with workers.working(site.url):
        until(lambda: site.effects() == ["waiting"])
        holder = held_by(site, job_id)

        with workers.working(site.url):
            other = site.submit("steps")
            until(lambda: site.log.row(other)["status"] == "completed")

        assert held_by(site, job_id) == holder
        Path(site.args["gate"]).touch()
        until(lambda: site.log.row(job_id)["status"] == "completed")
    assert "lease-expired" not in site.topics(job_id)


def test_stu_02_two_replicas_that_start_together_reclaim_a_job_once(site: Site) -> None:
    job_id = site.submit("steps")
    assert workers.dies(site.url, "unit.recorded", 2)

    with workers.working(site.url), workers.working(site.url):
        until(lambda: site.log.row(job_id)["status"] == "completed")

    topics = site.topics(job_id)
    assert topics.count("lease-expired") == 1
    assert topics.index("lease-expired") < len(topics) - 1 - topics[::-1].index("unit-completed")


def test_a_worker_that_is_started_again_under_its_own_name_needs_no_lease_to_end(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKER_NAME", "host-1")
    monkeypatch.setenv("WORKER_LEASE", "600")
    job_id = site.submit("steps")
    assert workers.dies(site.url, "unit.recorded", 2)

    site.finish(job_id)

    events = site.log.mapper.decode_all(job_id, site.log.store.read(job_id))
    [one] = [event for event in events if isinstance(event, LeaseExpired)]
    assert (one.cause, one.worker, one.reclaimed_by) == ("holder-died", "host-1", "host-1")


def test_shd_01_stu_05_sigterm_gives_the_job_back_at_its_boundary(site: Site) -> None:
    job_id = site.submit("slow")
    worker = workers.start(site.url)
    try:
        until(lambda: site.effects() == ["waiting"])
        worker.send_signal(signal.SIGTERM)
        Path(site.args["gate"]).touch()
        assert worker.wait(timeout=30) == 0
    finally:
        workers.end(worker)

    assert site.log.row(job_id)["status"] in {"queued", "completed"}
    job = site.finish(job_id)

    assert job.status is Status.COMPLETED
    assert site.effects() == ["waiting", "after"]  # nothing was done twice
    assert "lease-expired" not in site.topics(job_id)  # a clean stop is no reclaim


def test_shd_03_an_idle_worker_stops_at_once(site: Site) -> None:
    worker = workers.start(site.url)
    try:
        done = site.submit("steps")
        until(lambda: site.log.row(done)["status"] == "completed")
        worker.send_signal(signal.SIGTERM)

        assert worker.wait(timeout=5) == 0
    finally:
        workers.end(worker)


def test_stu_06_a_poison_unit_stops_after_three_deaths(site: Site) -> None:
    job_id = site.submit("poison")
    deaths = 0
    while site.log.row(job_id)["status"] != "paused":
        worker = workers.start(site.url)
        try:
            until(lambda w=worker: w.poll() is not None or site.log.row(job_id)["status"] == "paused")  # type: ignore[misc]
        finally:
            deaths += worker.poll() == -signal.SIGKILL
            workers.end(worker)

    job = site.log.job(job_id)
    assert (job.reason, job.crashes, deaths) == ("poison-unit", 3, 3)
    assert site.effects().count("s0") == 1
    assert site.effects().count("death") == 3


def test_stu_07_killed_while_it_starts_twenty_times(site: Site) -> None:
    job_id = site.submit("steps")
    for point in ["startup.begun", "startup.present"] * 10:
        assert workers.dies(site.url, point)

    job = site.finish(job_id)

    assert (job.status, job.reclaims) == (Status.COMPLETED, 0)


def test_sta_07_a_pause_is_honoured_by_a_running_worker(site: Site) -> None:
    job_id = site.submit("slow")
    with workers.working(site.url):
        until(lambda: site.effects() == ["waiting"])
        site.log.command("pause", job_id, Actor("ada"))
        Path(site.args["gate"]).touch()
        until(lambda: site.log.row(job_id)["status"] == "paused")
        assert site.log.job(job_id).done == 1  # the unit in flight is recorded

        site.log.command("resume", job_id, Actor("ada"))
        until(lambda: site.log.row(job_id)["status"] == "completed")
    assert site.effects() == ["waiting", "after"]


def test_a_stopped_worker_is_fenced_off_and_stops_nobody(site: Site) -> None:
    """SIGSTOP past the lease: another takes over; the zombie, woken, changes nothing."""
    job_id = site.submit("slow")
    zombie = workers.start(site.url)
    try:
        until(lambda: site.effects() == ["waiting"])
        zombie.send_signal(signal.SIGSTOP)
        Path(site.args["gate"]).touch()

        job = site.finish(job_id)
        assert job.status is Status.COMPLETED
        head = len(site.log.store.read(job_id))
        zombie.send_signal(signal.SIGCONT)
        zombie.send_signal(signal.SIGTERM)
        assert zombie.wait(timeout=30) == 0
    finally:
        workers.end(zombie)

    assert len(site.log.store.read(job_id)) == head
    assert site.effects().count("after") == 1


def test_stu_03_many_due_jobs_start_gradually(site: Site) -> None:
    for _ in range(12):
        site.submit("slow")
    with workers.joblog_worker(site.url, "--slots", "10"):
        until(lambda: len(site.log.store.find_jobs(status="running", limit=20)) == 10)

    begun = sorted(site.times(row["id"])[1] for row in site.log.store.find_jobs(status="running", limit=20))
    assert len(set(begun)) >= RAMP
    assert (begun[-1] - begun[0]).total_seconds() >= (RAMP - 1) * RAMP_PAUSE / 2


def test_stu_04_what_is_missing_pauses_with_what_to_do(site: Site) -> None:
    source = site.folder / "numbers.csv"
    args = {"source": str(source), "target": "env:JOBLOG_TEST_TARGET", "table": "numbers"}
    job_id = site.log.submit(builtin().spec("import.file", args, key="numbers")).job_id

    assert site.finish(job_id).status is Status.PAUSED
    assert site.log.row(job_id)["reason"] == "source-missing"
    source.write_text("n\n1\n2\n", encoding="utf-8")
    site.log.command("resume", job_id, Actor("ada"))
    assert site.finish(job_id).status is Status.PAUSED
    row = site.log.row(job_id)
    assert row["reason"] == "credential-missing"
    assert "JOBLOG_TEST_TARGET" in row["reason_text"]

    site.log.command("resume", job_id, Actor("ada"))
    with workers.running(site.url, JOBLOG_TEST_TARGET=site.args["target"]):
        until(lambda: site.status(job_id) == "completed")
    assert site.log.job(job_id).result == {"rows": 2, "rejected": 0}
