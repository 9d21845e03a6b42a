"""The order of a claim: priority with ageing, tenants in turn, the oldest due first, then the id (LEA-19)."""

from datetime import timedelta
from uuid import UUID

import pytest

from joblog.eventstore.claim_order import AGEING_MICROS
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import claim, ids, set_queue, submit

MINUTE = AGEING_MICROS // 1_000_000


def one_by_one(log: JobLog, count: int) -> list[UUID]:
    return [ids(claim(log, limit=1))[0] for _ in range(count)]


@pytest.mark.parametrize("limit", [1, 10])
def test_the_most_urgent_is_claimed_first(log: JobLog, limit: int) -> None:
    jobs = {priority: submit(log, priority=priority) for priority in (5, 0, 9, 3)}
    order = [jobs[priority] for priority in (0, 3, 5, 9)]

    assert (one_by_one(log, 4) if limit == 1 else ids(claim(log, limit=limit))) == order


@pytest.mark.parametrize("limit", [1, 10])
def test_the_oldest_due_is_claimed_first(backend: Backend, log: JobLog, limit: int) -> None:
    start = backend.clock.now()
    jobs = {n: submit(log, due_at=start + timedelta(microseconds=n)) for n in (2, 1, 3)}
    backend.clock.move(1)
    log.promote()

    assert (one_by_one(log, 3) if limit == 1 else ids(claim(log, limit=limit))) == [jobs[1], jobs[2], jobs[3]]


def test_of_jobs_due_together_the_smaller_id_is_claimed_first(log: JobLog) -> None:
    jobs = [submit(log) for _ in range(6)]

    assert ids(claim(log)) == sorted(jobs, key=lambda job: job.bytes)


def test_a_priority_gains_a_level_for_each_minute_it_waits(backend: Backend, log: JobLog) -> None:
    low = submit(log, priority=5)
    backend.clock.move(2 * MINUTE, micros=-1)
    equal = submit(log, priority=4)
    assert ids(claim(log, limit=1)) == [low]  # level 4 by now, and older
    submit(log, priority=9)
    urgent = submit(log, priority=3)

    assert ids(claim(log, limit=2)) == [urgent, equal]


def test_nothing_starves_behind_a_stream_of_urgent_jobs(backend: Backend, log: JobLog) -> None:
    low = submit(log, priority=9)
    served: list[UUID] = []
    while low not in served and len(served) < 20:
        submit(log, priority=0)
        [held] = claim(log, limit=1)
        held.complete()
        served.append(held.job_id)
        backend.clock.move(MINUTE)

    assert len(served) == 10


@pytest.mark.parametrize("limit", [1, 2, 12])
def test_tenants_take_turns(backend: Backend, log: JobLog, limit: int) -> None:
    for tenant, count in (("a", 8), ("b", 2), ("c", 2)):
        for _ in range(count):
            submit(log, tenant=tenant)
            backend.clock.move(1)

    served = [held for _ in range(12 // limit) for held in claim(log, limit=limit)]

    assert len(served) == 12
    assert [log.job(job).tenant for job in ids(served)[:6]] == ["a", "b", "c"] * 2


def test_the_turn_goes_on_behind_the_tenant_that_was_served_last(log: JobLog) -> None:
    for tenant in "abc":
        for _ in range(3):
            submit(log, tenant=tenant)

    tenants = [log.job(job).tenant for limit in (2, 2, 2) for job in ids(claim(log, limit=limit))]

    assert tenants == ["a", "b", "c", "a", "b", "c"]


def test_one_tenants_backlog_does_not_outrank_others(backend: Backend, log: JobLog) -> None:
    """The age is that of the level, not of each job."""
    for _ in range(5):
        submit(log, tenant="old")
    backend.clock.move(30 * MINUTE)
    newer = submit(log, tenant="new")

    assert newer in ids(claim(log, limit=2))


def test_the_last_tenant_of_all_is_served(log: JobLog) -> None:
    """Whatever its name; the turn comes round behind it."""
    names = ["a", "z", "é", "\uffff", "\U0010ffff", "\U0010ffff\U0010ffff"]
    jobs = {tenant: submit(log, tenant=tenant) for tenant in names}

    assert one_by_one(log, len(names)) == [jobs[name] for name in names]


def test_names_are_told_apart_and_ordered_bytewise(log: JobLog) -> None:
    names = ["A", "B", "a", "b", "ä", "Z", "a ", "a_", "a%", "a\u0301", "á"]
    jobs = {tenant: submit(log, tenant=tenant) for tenant in names}

    assert ids(claim(log)) == [jobs[name] for name in sorted(names)]


def test_queues_kinds_and_gates_share_one_order(log: JobLog) -> None:
    jobs = [
        submit(log, priority=n, queue=queue, kind=kind, gate=gate)
        for n, (queue, kind, gate) in enumerate([("q", "b", "g"), ("p", "a", ""), ("q", "a", "h"), ("p", "b", "g")])
    ]

    assert ids(claim(log, queues=["p", "q"])) == jobs


def test_a_held_job_does_not_block_others(log: JobLog) -> None:
    """LEA-19: behind a paused queue, a closed gate and a held key wait the oldest and most urgent."""
    set_queue(log, "held", paused=True)
    log.store.set_gate("closed", None, log.store.now() + 10**12)
    for fields in ({"queue": "held"}, {"gate": "closed"}):
        for _ in range(10):
            submit(log, priority=0, **fields)
    jobs = {submit(log, priority=9) for _ in range(20)}

    assert set(ids(claim(log, queues=["held", "default"], limit=20))) == jobs
