"""CRW-01…14: a worker killed with SIGKILL in each window, on both databases; another goes on."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path

import pytest

from joblog import Actor
from joblog.domain.status import Status
from tests.acceptance import workers
from tests.acceptance.app import UNITS
from tests.acceptance.conftest import Site, made_site
from tests.patience import until

EVERY_STEP = [f"s{number}" for number in range(UNITS)]

#: window -> (kind, fail point, n-th passing, units whose effect may happen twice)
WINDOWS = {
    "CRW-01 before the claim commits": ("steps", "claim.before_commit", 1, 0),
    "CRW-02 after the claim, before the checkpoint is read": ("steps", "worker.claimed", 1, 0),
    "CRW-02 after the replay": ("steps", "worker.replayed", 1, 0),
    "CRW-04 before the side effect": ("steps", "unit.before_effect", 3, 0),
    "CRW-05 after the side effect, before its evidence": ("steps", "unit.after_effect", 3, 1),
    "CRW-05 in a thread": ("steps-sync", "unit.after_effect", 3, 1),
    "CRW-07 after the checkpoint": ("steps", "unit.recorded", 3, 0),
    "CRW-10 before completed": ("steps", "job.before_completed", 1, 0),
    "CRW-12 after completed": ("steps", "job.completed", 1, 0),
}


@pytest.mark.parametrize("window", WINDOWS)
def test_another_worker_goes_on_where_the_dead_one_stopped(site: Site, window: str) -> None:
    kind, point, nth, twice = WINDOWS[window]
    job_id = site.submit(kind)

    assert workers.dies(site.url, point, nth)
    job = site.finish(job_id)

    assert (job.status, job.result, job.done) == (Status.COMPLETED, UNITS, UNITS)
    count = Counter(site.effects())
    assert set(count) == set(EVERY_STEP)
    assert sorted(count.values()) == [1] * (UNITS - twice) + [2] * twice


def test_crw_03_an_attempt_is_spent_even_if_its_process_dies_in_it(site: Site) -> None:
    job_id = site.submit("steps")
    assert workers.dies(site.url, "unit.after_effect", 2)  # an ordinary death: the next attempt is recorded first

    assert workers.dies(site.url, "unit.attempted", 1)
    assert site.log.job(job_id).unit_attempt == 1
    job = site.finish(job_id)

    assert job.status is Status.COMPLETED
    assert site.topics(job_id).count("unit-attempted") == 2


@pytest.mark.parametrize("point", ["atomic.rows_written", "atomic.before_commit", "atomic.committed"])
def test_crw_06_rows_and_checkpoint_are_one_commit(site: Site, point: str) -> None:
    job_id = site.submit("rows")

    assert workers.dies(site.url, point, 3)
    job = site.finish(job_id)

    assert (job.status, job.result) == (Status.COMPLETED, UNITS * 10)
    assert site.target() == list(range(UNITS * 10))


@pytest.mark.parametrize("point", ["marks.before_commit", "marks.after_commit", "unit.recorded"])
def test_crw_06_rows_in_another_database_are_written_once(site: Site, point: str) -> None:
    job_id = site.submit("elsewhere")

    assert workers.dies(site.url, point, 3)
    job = site.finish(job_id)

    assert (job.status, job.result, job.done) == (Status.COMPLETED, UNITS * 10, UNITS)
    assert site.target(elsewhere=True) == list(range(UNITS * 10))


def test_crw_08_a_stored_retry_is_neither_lost_nor_early(site: Site) -> None:
    job_id = site.submit("flaky")

    assert workers.dies(site.url, "retry.stored", 1)
    waiting = site.log.job(job_id)
    assert waiting.status is Status.WAITING
    job = site.finish(job_id)

    assert (job.status, job.failures) == (Status.COMPLETED, 1)
    again = next(e for e in reversed(site.log.store.read(job_id)) if e.topic.endswith("claimed"))
    claimed = site.log.mapper.decode(job_id, *again).timestamp
    assert claimed >= waiting.due_at


def test_crw_09_before_the_retry_is_stored_the_attempt_is_repeated_once(site: Site) -> None:
    job_id = site.submit("flaky")

    assert workers.dies(site.url, "retry.classified", 1)
    job = site.finish(job_id)

    assert job.status is Status.COMPLETED
    assert Counter(site.effects()) == {"s0": 1, "try": 1}


@pytest.mark.parametrize("point", ["list.stored", "list.frozen", "unit.after_effect"])
def test_a_list_of_items_never_moves(site: Site, point: str) -> None:
    job_id = site.submit("items")

    assert workers.dies(site.url, point, 1)
    job = site.finish(job_id)

    assert (job.status, job.result) == (Status.COMPLETED, 3)
    wanted = {f"f{number}-{phase}" for number in range(3) for phase in ("copied", "removed")}
    assert set(site.effects()) == wanted


def test_crw_13_a_reclaim_is_recorded_once_with_who_died(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKER_LEASE", "600")
    job_id = site.submit("steps")
    assert workers.dies(site.url, "unit.after_effect", 2)

    site.finish(job_id)

    expired = [
        site.log.mapper.decode(job_id, *e) for e in site.log.store.read(job_id) if e.topic.endswith("lease-expired")
    ]
    [one] = expired
    assert one.cause == "holder-died"  # proven by its presence file: nobody waited for the lease
    assert one.worker != one.reclaimed_by


def test_crw_14_a_cancel_asked_of_a_dead_holder_is_honoured_before_any_unit(site: Site) -> None:
    job_id = site.submit("steps")
    assert workers.dies(site.url, "unit.recorded", 2)
    site.log.command("cancel", job_id, Actor("ada"))

    job = site.finish(job_id)

    assert (job.status, job.done) == (Status.CANCELLED, 2)
    assert site.effects() == ["s0", "s1"]


def test_crw_04_half_an_effect_is_made_whole(site: Site) -> None:
    job_id = site.submit("halves")
    with workers.running(site.url) as worker:  # its unit kills it between the halves
        assert worker.wait(60) == -signal.SIGKILL

    job = site.finish(job_id)

    assert (job.status, job.crashes, job.reclaims) == (Status.COMPLETED, 0, 1)
    assert (site.folder / "effects.whole").read_text(encoding="utf-8") == "first,second"


@pytest.mark.parametrize("point", ["job.before_completed", "job.completed"])
def test_crw_11_the_end_of_a_job_and_what_follows_from_it_are_one_commit(site: Site, point: str) -> None:
    """Nothing is left to clean up behind `completed`: a parent that waits for its child is due by the same commit."""
    parent = site.submit("parent")
    # The child keeps the one slot until its worker dies: the parent can't go on in it meanwhile.
    with workers.running(site.url, point, "1", WORKER_SLOTS="1") as worker:
        until(lambda: site.status(parent) == "waiting")
        Path(site.args["gate"]).touch()
        assert worker.wait(60) == -signal.SIGKILL
    assert site.topics(parent)[-1] == ("woken" if point == "job.completed" else "lease-released")

    job = site.finish(parent)

    assert (job.status, job.result) == (Status.COMPLETED, 7)
    assert site.effects() == ["c0", "after"]


def test_crw_15_a_torn_tail_is_ignored(sqlite_url: str, tmp_path: Path) -> None:
    """Killed in the middle of an append, and half a frame left behind the last whole one."""
    with made_site(sqlite_url, tmp_path) as site:
        job_id = site.submit("steps")
    assert workers.dies(sqlite_url, "append.events_inserted", 4)
    wal = tmp_path / "joblog.db-wal"
    whole = wal.read_bytes()
    assert whole
    wal.write_bytes(whole + whole[-4120:-2000])

    with made_site(sqlite_url, tmp_path) as site:
        before = site.topics(job_id)
        job = site.finish(job_id)
        assert (job.status, job.done) == (Status.COMPLETED, UNITS)
        assert site.topics(job_id)[: len(before)] == before
        assert 0 < before.count("unit-completed") < UNITS


@pytest.mark.parametrize("point", ["expire.before", "expire.after"])
def test_crw_13_a_taker_that_dies_in_its_takeover_leaves_it_to_the_next(site: Site, point: str) -> None:
    job_id = site.submit("steps")
    assert workers.dies(site.url, "unit.recorded", 2)
    assert workers.dies(site.url, point)

    job = site.finish(job_id)

    assert (job.status, job.reclaims) == (Status.COMPLETED, 1)
    assert site.topics(job_id).count("lease-expired") == 1
    assert site.effects() == EVERY_STEP


def test_crw_14_a_pause_asked_of_a_dead_holder_is_honoured_before_any_unit(site: Site) -> None:
    job_id = site.submit("steps")
    assert workers.dies(site.url, "unit.recorded", 2)
    site.log.command("pause", job_id, Actor("ada"))
    assert site.finish(job_id).status is Status.PAUSED
    assert site.effects() == EVERY_STEP[:2]

    site.log.command("resume", job_id, Actor("ada"))
    assert site.finish(job_id).status is Status.COMPLETED
    assert site.effects() == EVERY_STEP
