"""Which jobs a claim may take, and what it writes (LEA-01, LEA-02, LEA-16, EVT-01)."""

from datetime import timedelta

import pytest

from joblog.domain.errors import GenerationChangedError, InputError
from joblog.domain.lease import Token
from joblog.eventstore.store import ClaimQuery
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import (
    ADA,
    LEASE,
    Beside,
    a_spec,
    armed,
    assert_whole,
    claim,
    claimed,
    ids,
    once,
    set_queue,
    submit,
    submit_newer,
    whole_log,
)


def test_a_claim_is_an_event_at_the_next_version(log: JobLog) -> None:
    job_id = submit(log)

    [held] = claim(log, "ada")

    event = whole_log(log.store)[-1]
    assert (event.stream_id, event.version, event.topic) == (job_id, 2, "joblog.job.claimed")
    assert (held.token, held.attempt, held.crashes, held.kind) == (Token(1, 1), 1, 0, "import")
    row = log.row(job_id)
    assert (row["version"], row["status"], row["worker"], row["token"], row["ready"]) == (2, "running", "ada", 1, 0)
    assert log.job(job_id).lease is not None


def test_a_claim_leases_from_the_stores_clock(backend: Backend, log: JobLog) -> None:
    held = claimed(log)

    lease = log.store.lease(held.job_id)

    assert lease is not None
    assert (lease.token, lease.worker) == (held.token, "w")
    assert lease.lease_until == log.store.lease_now() + LEASE * 1_000_000
    assert log.job(held.job_id).lease.until == backend.clock.now() + timedelta(seconds=LEASE)  # type: ignore[union-attr]


def test_a_claim_of_nothing_writes_nothing(log: JobLog) -> None:
    assert claim(log) == []
    assert log.store.head() == 0


def test_a_claim_takes_no_more_than_asked_for(log: JobLog) -> None:
    jobs = [submit(log) for _ in range(5)]

    assert len(claim(log, limit=2)) == 2
    assert len(claim(log, limit=1)) == 1
    assert claim(log, limit=0) == []
    assert len(claim(log, limit=100)) == 2
    assert {log.row(job)["status"] for job in jobs} == {"running"}
    assert_whole(log.store)


def test_what_is_claimed_is_not_claimed_again(log: JobLog) -> None:
    """LEA-16: the second finds nothing, and spends nothing."""
    held = claimed(log)
    before = log.row(held.job_id)

    assert claim(log, "other") == []
    assert log.row(held.job_id) == before


@pytest.mark.parametrize(("micros", "is_due"), [(-1, False), (0, True), (1, True)])
def test_a_job_is_due_at_its_instant(backend: Backend, log: JobLog, micros: int, is_due: bool) -> None:
    """S11: to the microsecond, by the store's clock."""
    instant = backend.clock.now() + timedelta(seconds=60, microseconds=123_457)
    job_id = submit(log, due_at=instant)
    backend.clock.move(60, micros=123_457 + micros)
    log.promote()

    assert ids(claim(log)) == ([job_id] if is_due else [])


def test_a_job_is_due_as_soon_as_it_is_submitted(backend: Backend, log: JobLog) -> None:
    for micros in (0, 1, 333_333, 123_457, 999_999):
        backend.clock.move(micros=micros)
        job_id = submit(log)
        assert ids(claim(log)) == [job_id]


def test_a_future_job_is_claimable_only_once_promoted_and_due(backend: Backend, log: JobLog) -> None:
    at = backend.clock.now() + timedelta(minutes=1)
    job_id = submit(log, due_at=at)

    assert log.promote() == (0, at)
    backend.clock.move(60)
    assert claim(log) == []
    assert log.promote() == (1, None)
    assert log.promote() == (0, None)
    assert ids(claim(log)) == [job_id]


def test_promotion_takes_the_oldest_first_and_says_what_is_next(backend: Backend, log: JobLog) -> None:
    start = backend.clock.now()
    jobs = [submit(log, due_at=start + timedelta(minutes=n)) for n in (3, 1, 2, 9)]
    backend.clock.move(5 * 60)

    assert log.promote(limit=2) == (2, start + timedelta(minutes=3))
    assert set(ids(claim(log))) == {jobs[1], jobs[2]}
    assert log.promote(limit=2) == (1, start + timedelta(minutes=9))


def test_a_waiting_job_is_promoted_like_a_queued_one(backend: Backend, log: JobLog) -> None:
    held = claimed(log)
    at = backend.clock.now() + timedelta(seconds=7)
    held.schedule_retry("a", category="network", text="", next_attempt_at=at)
    backend.clock.move(7)

    assert log.promote() == (1, None)
    assert ids(claim(log)) == [held.job_id]


@pytest.mark.parametrize("end", ["paused", "completed", "failed", "cancelled"])
def test_a_job_that_is_not_claimable_is_neither_promoted_nor_claimed(backend: Backend, log: JobLog, end: str) -> None:
    held = claimed(log)
    if end == "paused":
        held.park(reason="quota", text="", not_before=backend.clock.now() + timedelta(seconds=5))
    elif end == "completed":
        held.complete()
    elif end == "failed":
        held.fail(reason="bad", text="")
    else:
        log.command("cancel", held.job_id, ADA)
        held.release("yield")
    backend.clock.move(3600)

    assert log.row(held.job_id)["status"] == end
    assert log.promote() == (0, None)
    assert claim(log) == []


def test_only_the_queues_asked_for_are_claimed(log: JobLog) -> None:
    mine, other = submit(log, queue="mine"), submit(log, queue="other")

    assert ids(claim(log, queues=["mine", "mine", "none"])) == [mine]
    assert ids(claim(log, queues=["other"])) == [other]
    assert claim(log, queues=[]) == []


def test_only_the_kinds_asked_for_are_claimed(log: JobLog) -> None:
    jobs = {kind: submit(log, kind=kind) for kind in ("a", "b", "c")}

    assert claim(log, kinds=[]) == []
    assert claim(log, kinds=["none"]) == []
    assert ids(claim(log, kinds=["b", "b", "none"])) == [jobs["b"]]
    assert set(ids(claim(log, kinds=None))) == {jobs["a"], jobs["c"]}


def test_jobs_that_need_newer_code_are_left(log: JobLog) -> None:
    """S18."""
    newer, mine = submit_newer(log), submit(log)

    assert ids(claim(log)) == [mine]
    assert claim(log) == []
    assert log.row(newer)["status"] == "queued"


@pytest.mark.parametrize("limit", [1, 2, 10])
def test_jobs_that_need_newer_code_starve_nobody(log: JobLog, limit: int) -> None:
    """However many tenants have only such jobs, and whoever's turn it is."""
    for tenant in "abc":
        submit_newer(log, tenant=tenant)
    mine = {submit(log, tenant=tenant) for tenant in "cd"}

    claimed_now = [job for _ in range(2) for job in ids(claim(log, limit=limit))]

    assert set(claimed_now) == mine


@pytest.mark.parametrize("limit", [1, 3])
def test_jobs_that_are_left_aside_starve_nobody(backend: Backend, log: JobLog, limit: int) -> None:
    """Suspects run alone: the claim of a busy worker passes over them, and over rows that are ready too early."""
    suspect, early = submit(log, tenant="a"), submit(log, tenant="b")
    backend.spoil(suspect, crashes=2)
    backend.spoil(early, due_at=2**60)
    mine = submit(log, tenant="c")

    assert ids(claim(log, limit=limit, max_crashes=1)) == [mine]
    assert ids(claim(log, limit=limit, max_crashes=1)) == []


def test_a_tenant_takes_the_place_of_those_who_have_nothing_to_claim(log: JobLog) -> None:
    for tenant in "abc":
        submit_newer(log, tenant=tenant)
    mine = [submit(log, tenant="d") for _ in range(8)]

    assert set(ids(claim(log, limit=8))) == set(mine)


def test_a_paused_queue_gives_no_jobs(log: JobLog) -> None:
    """CTL-05: present and future ones."""
    set_queue(log, "q", paused=True)
    job_id = submit(log, queue="q")

    assert claim(log, queues=["q"]) == []
    set_queue(log, "q")
    assert ids(claim(log, queues=["q"])) == [job_id]


def test_a_queue_runs_no_more_jobs_than_its_slots(log: JobLog) -> None:
    set_queue(log, "q", slots=2)
    for _ in range(4):
        submit(log, queue="q")

    first = claim(log, queues=["q"])
    assert len(first) == 2
    assert claim(log, queues=["q"]) == []
    first[0].complete()
    assert len(claim(log, queues=["q"], limit=1)) == 1
    assert claim(log, queues=["q"]) == []


def test_a_queue_without_slots_runs_nothing(log: JobLog) -> None:
    set_queue(log, "q", slots=0)
    submit(log, queue="q")

    assert claim(log, queues=["q"]) == []


@pytest.mark.parametrize(("seconds", "is_open"), [(-1, True), (0, True), (1, False)])
def test_a_gate_is_closed_until_its_instant(backend: Backend, log: JobLog, seconds: int, is_open: bool) -> None:
    log.store.set_gate("g", None, log.store.now() + (60 + seconds) * 1_000_000)
    job_id, other = submit(log, gate="g"), submit(log)
    backend.clock.move(60)

    assert set(ids(claim(log))) == ({job_id, other} if is_open else {other})


def test_a_gate_lets_in_no_more_jobs_than_its_slots(log: JobLog) -> None:
    log.store.set_gate("g", 2, 0)
    for queue in ("p", "q", "p"):
        submit(log, gate="g", queue=queue)
    free = submit(log, queue="q")

    first = claim(log, queues=["p", "q"])
    assert len(first) == 3
    assert free in ids(first)
    assert claim(log, queues=["p", "q"]) == []
    next(held for held in first if held.job_id != free).release("shutdown")
    assert len(claim(log, queues=["p", "q"])) == 1


def test_a_gate_that_was_never_declared_is_open(log: JobLog) -> None:
    submit(log, gate="new")

    assert len(claim(log)) == 1


@pytest.mark.parametrize("what", ["queue", "gate"])
def test_two_claims_at_once_keep_to_the_slots(backend: Backend, log: JobLog, what: str) -> None:
    log.store.set_gate("g", 1, 0)
    set_queue(log, "q", slots=1)
    for _ in range(4):
        submit(log, **({"gate": "g"} if what == "gate" else {"queue": "q"}))
    other = backend.open()
    beside = Beside(lambda: claim(other, queues=["default", "q"], limit=1))

    with armed("claim.selected", beside):
        mine = claim(log, queues=["default", "q"], limit=1)

    assert len(mine) + len(beside.result()) == 1


def test_a_claim_for_another_generation_is_refused(backend: Backend, log: JobLog) -> None:
    submit(log)
    backend.switch_generation()
    query = ClaimQuery(("default",), 1, 1)

    with pytest.raises(GenerationChangedError):
        log.store.claim(query, lambda rows, _: [log._new_appends([a_spec()])[0] for _ in rows], 0, log.writer.seen)

    assert log.store.head() == 1


def test_a_claim_that_fails_before_its_commit_has_no_effect(log: JobLog) -> None:
    """LEA-16."""
    job_id = submit(log)

    with armed("claim.before_commit", once(RuntimeError("killed"))), pytest.raises(RuntimeError):
        claim(log)

    assert (log.row(job_id)["attempt"], log.store.lease(job_id), log.store.head()) == (0, None, 1)
    assert ids(claim(log)) == [job_id]


def test_a_worker_needs_a_name_that_can_be_kept(log: JobLog) -> None:
    for name in ("", "a\x00b", "x" * 201, "\ud800"):
        with pytest.raises(InputError):
            log.claim(name)


def test_the_outlook_tells_what_there_is_to_do(backend: Backend, log: JobLog) -> None:
    nothing = log.store.outlook(["default"], "w")
    assert (nothing.ready, nothing.next_due, nothing.next_end, nothing.others) == (False, None, None, 0)
    submit(log, due_at=backend.clock.now() + timedelta(seconds=5))
    submit(log)

    assert log.store.outlook(["default"], "w")[:3] == (True, 5.0, None)
    claim(log, presence="here")
    backend.clock.move(6)

    assert log.store.outlook(["default"], "here") == (False, -1.0, LEASE - 6.0, 0, False, 0)
    assert log.store.outlook(["none"], "other").others == 1


@pytest.mark.parametrize("status", ["queued", "waiting"])
def test_a_suspect_is_found_whatever_it_waited_for(backend: Backend, log: JobLog, status: str) -> None:
    job_id = submit(log)
    backend.spoil(job_id, status=status, crashes=2)

    assert log.store.outlook(["default"]).crashes == 2
    assert log.store.outlook(["other", "default"]).crashes == 2
    assert log.store.outlook(["other"]).crashes == 0
