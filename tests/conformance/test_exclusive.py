"""At most one job runs under an exclusive key; whoever waits for it is woken, and hides nobody."""

from typing import Any
from uuid import UUID

import pytest

from joblog.domain.errors import StoreBusyError
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import ADA, LEASE, Beside, armed, claim, ids, submit


def hints(log: JobLog, job_id: UUID) -> tuple[int, int]:
    row = log.row(job_id)
    return row["ready"], row["blocked"]


def crowd(log: JobLog, count: int, **fields: Any) -> list[UUID]:
    """Submit jobs under one key."""
    return [submit(log, f"{n}", exclusive_key="one", **fields) for n in range(count)]


def test_a_second_job_under_the_key_is_blocked(log: JobLog) -> None:
    jobs = crowd(log, 3)

    [held] = claim(log)

    assert held.job_id in jobs
    assert sorted(hints(log, job) for job in jobs) == [(0, 0), (0, 1), (0, 1)]
    assert claim(log) == []


def test_the_oldest_is_woken_at_the_release(backend: Backend, log: JobLog) -> None:
    jobs = []
    for n in range(3):
        jobs.append(submit(log, f"{n}", exclusive_key="one"))
        backend.clock.move(1)
    [held] = claim(log)
    assert held.job_id == jobs[0]

    held.complete()

    assert [hints(log, job) for job in jobs] == [(0, 0), (1, 0), (0, 1)]
    [held] = claim(log)
    assert held.job_id == jobs[1]


@pytest.mark.parametrize("end", ["complete", "fail", "release", "expire", "reclaim"])
def test_every_end_of_a_holder_wakes_the_next(backend: Backend, log: JobLog, end: str) -> None:
    crowd(log, 2)
    [held] = claim(log)
    if end == "complete":
        held.complete()
    elif end == "fail":
        held.fail(reason="bad", text="")
    elif end == "release":
        held.release("wait", due_at=log.now() + log.leases.lease * 9)
    elif end == "expire":
        backend.clock.move(LEASE)
        log.expire("reaper")
    else:
        lease = log.store.lease(held.job_id)
        assert lease is not None
        log.reclaim(lease, "reaper")

    assert len(claim(log)) == 1


def test_a_release_wakes_nobody_of_another_key(log: JobLog) -> None:
    for tenant in ("a", "b"):
        for _ in range(2):
            submit(log, exclusive_key="one", tenant=tenant)
    held = claim(log)
    held[0].complete()

    [newer] = claim(log)

    assert len(held) == 2
    assert log.job(newer.job_id).tenant == log.job(held[0].job_id).tenant


def test_one_tenants_key_is_not_anothers(log: JobLog) -> None:
    for tenant in ("a", "b"):
        submit(log, exclusive_key="one", tenant=tenant)

    assert len(claim(log)) == 2


@pytest.mark.parametrize("limit", [1, 3])
def test_a_crowd_behind_one_key_hides_nobody(backend: Backend, log: JobLog, limit: int) -> None:
    """LEA-19: they are older and of the same lane, and every claim meets them first."""
    crowd(log, 40)
    claim(log, limit=1)
    backend.clock.move(1)
    free = submit(log, "free")

    assert ids(claim(log, limit=limit)) == [free]


@pytest.mark.parametrize("what", ["paused", "cancelled"])
def test_a_woken_job_that_is_held_back_leaves_the_key_to_the_next(log: JobLog, what: str) -> None:
    jobs = crowd(log, 3)
    [held] = claim(log)
    held.complete()
    [woken] = [job for job in jobs if hints(log, job) == (1, 0)]
    log.command({"paused": "pause", "cancelled": "cancel"}[what], woken, ADA)
    [last] = [job for job in jobs if hints(log, job) == (0, 1)]

    assert log.store.outlook(["default"], "w").next_due == 0
    assert log.promote()[0] == 1
    assert ids(claim(log)) == [last]


def test_nobody_is_woken_while_the_key_is_held(log: JobLog) -> None:
    crowd(log, 3)
    claim(log)

    assert log.store.outlook(["default"], "w").next_due is None
    assert log.promote() == (0, None)
    assert claim(log) == []


def test_a_release_while_a_claim_blocks_loses_nobody(backend: Backend, log: JobLog) -> None:
    """The claim has seen the key held; its holder is gone before the claim commits."""
    crowd(log, 1)
    [held] = claim(log)
    waiting = submit(log, exclusive_key="one")
    other = backend.open()
    beside = Beside(held.complete)

    with armed("claim.selected", beside):
        claim(other)
    beside.result()
    log.promote()

    assert ids(claim(log)) == [waiting]


def test_two_claims_at_once_take_one_job_of_a_key(backend: Backend, log: JobLog) -> None:
    for queue in ("p", "q"):
        submit(log, exclusive_key="one", queue=queue)
    other = backend.open()
    beside = Beside(lambda: _claimed_or_busy(other, "q"))

    with armed("claim.selected", beside):
        mine = claim(log, queues=["p"])

    assert len(mine) + len(beside.result()) == 1


def _claimed_or_busy(log: JobLog, queue: str) -> list[Any]:
    try:
        return claim(log, queues=[queue])
    except StoreBusyError:
        return []
