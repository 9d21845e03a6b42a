"""Taking back the jobs of dead holders."""

from uuid import UUID

import pytest

from joblog.domain.errors import JobNotFoundError, LeaseHeldError, LeaseLostError
from joblog.domain.lease import Token
from joblog.eventstore.store import LeaseRow
from joblog.workers.commands import claiming
from joblog.workers.commands.answers import Reclaimed
from joblog.workers.commands.log import JobLog
from tests.clocks import START
from tests.conformance.backends import Backend
from tests.conformance.builders import armed, claim, claimed, ids, once, submit
from tests.workers.commands.builders import an_actor, claim_again, die, future, last, topics, units


def lease_of(log: JobLog, job_id: UUID) -> LeaseRow:
    lease = log.store.lease(job_id)
    assert lease is not None
    return lease


def test_a_takeover_says_who_held_what_since_when(log: JobLog, backend: Backend) -> None:
    held = claimed(log)
    held.attempt_unit("a")
    die(log, backend, "the reaper")

    said = last(log, held.job_id)
    assert (said["worker"], said["token"], said["held_since"], said["unit"]) == ("w", 1, START, "a")
    assert (said["cause"], said["reclaimed_by"], said["crashes"], said["reclaims"]) == ("expired", "the reaper", 1, 1)


def test_an_interrupted_job_goes_on_at_its_checkpoint(log: JobLog, backend: Backend) -> None:
    """STA-12, SCP-02, CRW-02, CRW-07."""
    held = claimed(log)
    held.complete_units(units("a", "b"), cursor="b")
    die(log, backend)

    again = claim_again(log, held.job_id)

    assert (again.token, again.attempt, again.crashes) == (Token(1, 2), 2, 1)
    assert (again.job.cursor, again.job.sequence) == ("b", 2)
    again.complete_units(units("c"))
    again.complete()


def test_nobody_is_taken_back_twice(log: JobLog, backend: Backend) -> None:
    other = backend.open()
    held = claimed(log)
    backend.clock.move(31)
    lease = lease_of(log, held.job_id)
    taken = log.expire("one")

    assert isinstance(other.reclaim(lease, "two"), LeaseLostError)
    assert other.expire("two") == []
    assert len(taken) == 1
    assert topics(log, held.job_id).count("lease-expired") == 1


def test_a_lease_that_was_renewed_meanwhile_is_left_alone(
    log: JobLog, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row under its lock decides, not the list that was read before."""
    held = claimed(log)
    backend.clock.move(30)
    lease = lease_of(log, held.job_id)
    backend.clock.move(-1)
    log.renew([held])
    backend.clock.move(1)

    with monkeypatch.context() as patched:
        patched.setattr(log.store, "expired", lambda _: [lease])
        assert log.expire("reaper") == []

    assert topics(log, held.job_id) == ["submitted", "claimed"]


def test_a_holder_that_is_proven_dead_is_taken_back_at_once(log: JobLog, backend: Backend) -> None:
    held = claimed(log)

    answer = log.reclaim(lease_of(log, held.job_id), "reaper")

    assert answer == Reclaimed(held.job_id, "w", "holder-died", "queued", 3)
    assert log.row(held.job_id)["crashes"] == 1
    assert ids(claim(log)) == [held.job_id]


def test_a_proof_is_good_for_the_grant_it_was_made_for_only(log: JobLog, backend: Backend) -> None:
    held = claimed(log)
    lease = lease_of(log, held.job_id)
    held.release("yield")
    again = claim_again(log, held.job_id)

    assert isinstance(log.reclaim(lease, "reaper"), LeaseLostError)
    assert again.complete_units(units("a")) > 0


def test_a_reclaim_without_proof_waits_for_the_lease(log: JobLog) -> None:
    held = claimed(log)

    answer = claiming.reclaim(log, lease_of(log, held.job_id), "reaper", cause="expired", proven=False, counts=True)

    assert isinstance(answer, LeaseHeldError)


def test_a_reclaim_of_no_job_at_all_is_refused(log: JobLog) -> None:
    lease = LeaseRow(UUID(int=1), Token(1, 1), "w", 0, "", "")

    assert isinstance(log.reclaim(lease, "reaper"), JobNotFoundError)


def test_an_operator_who_comes_between_does_not_stop_a_takeover(log: JobLog, backend: Backend) -> None:
    """CRW-14: the wish is read again, and honoured."""
    held = claimed(log)
    backend.clock.move(31)
    other = backend.open()
    actions = iter(["cancel"])

    def come_between() -> None:
        if action := next(actions, None):
            other.command(action, held.job_id, an_actor())

    with armed("expire.before", come_between):
        [answer] = log.expire("reaper")

    assert answer.status == "cancelled"
    assert topics(log, held.job_id)[2:] == ["cancel-requested", "lease-expired", "cancelled"]


def test_an_answer_lost_in_a_takeover_makes_no_second_one(log: JobLog, backend: Backend) -> None:
    held = claimed(log)
    backend.clock.move(31)

    with armed("append.after_commit", once(backend.lost())):
        [answer] = log.expire("reaper")

    assert answer.position == 3
    assert topics(log, held.job_id) == ["submitted", "claimed", "lease-expired"]


def test_a_completed_job_is_never_taken_back(log: JobLog, backend: Backend) -> None:
    """CRW-12: its lease ends with it, in the same commit."""
    held = claimed(log)
    lease = lease_of(log, held.job_id)
    held.complete()
    backend.clock.move(86_400)

    assert log.store.lease(held.job_id) is None
    assert log.expire("reaper") == []
    assert isinstance(log.reclaim(lease, "reaper"), LeaseLostError)
    assert topics(log, held.job_id) == ["submitted", "claimed", "completed"]


def test_many_dead_holders_are_taken_back_in_turns(log: JobLog, backend: Backend) -> None:
    for _ in range(5):
        submit(log)
    claim(log)
    backend.clock.move(31)

    assert [len(log.expire("reaper", limit=2)) for _ in range(4)] == [2, 2, 1, 0]


def test_jobs_of_newer_code_do_not_stand_in_the_way(log: JobLog, backend: Backend) -> None:
    """S18: they stay for newer code; everybody else's are taken back, however few are asked for at a time."""
    newer = [claimed(log) for _ in range(3)]
    for held in newer:
        future(log, held.job_id)
    backend.clock.move(1)
    mine = claimed(log)
    backend.clock.move(31)

    taken = [one.job_id for _ in range(3) for one in log.expire("reaper", limit=2)]

    assert taken == [mine.job_id]
    assert {log.row(held.job_id)["status"] for held in newer} == {"running"}
