"""Losing a lease, and taking back the jobs of dead holders."""

from datetime import timedelta
from uuid import UUID

import pytest

from joblog.domain.errors import InputError, UnitDoneError
from joblog.domain.lease import LeasePolicy
from joblog.eventstore.store import LeaseRow
from joblog.workers.commands.answers import Reclaimed
from joblog.workers.commands.log import JobLog
from tests.clocks import START, MovedClock
from tests.conformance.backends import Backend
from tests.conformance.builders import armed, claim, claimed, submit
from tests.workers.commands.builders import SECOND, fail_unit, future, last, topics, units


def lease_of(log: JobLog, job_id: UUID) -> LeaseRow:
    lease = log.store.lease(job_id)
    assert lease is not None
    return lease


def test_a_lease_ends_at_its_instant_and_not_before(log: JobLog, backend: Backend) -> None:
    """LEA-09, S7, with the boundary."""
    held = claimed(log)
    backend.clock.move(30, micros=-1)
    assert log.expire("reaper") == []
    assert held.complete_units(units("a")) == 3

    backend.clock.move(30)
    assert log.expire("reaper") == [Reclaimed(held.job_id, "w", "expired", "queued", 5)]


def test_a_renewal_moves_the_end_of_all_leases_at_once(log: JobLog, backend: Backend) -> None:
    held = [claimed(log) for _ in range(3)]
    for _ in range(5):
        backend.clock.move(20)
        assert log.renew(held) == []
    assert log.expire("reaper") == []
    assert [topics(log, one.job_id) for one in held] == [["submitted", "claimed"]] * 3


def test_a_renewal_names_the_lost_ones(log: JobLog, backend: Backend) -> None:
    """LEA-06: expired is lost, although nobody else took it; released is lost too."""
    given_back, stolen, kept, expired = (claimed(log) for _ in range(4))
    given_back.release("yield")
    backend.clock.move(29)
    log.renew([stolen, kept])
    backend.clock.move(1)
    log.reclaim(lease_of(log, stolen.job_id), "other")

    assert log.renew([given_back, stolen, kept, expired]) == [given_back, stolen, expired]
    assert log.renew([]) == []
    assert (kept.is_overdue, expired.is_overdue) == (False, True)


def test_a_holder_stops_at_two_thirds_of_a_lease_that_was_not_renewed(log: JobLog, backend: Backend) -> None:
    """LEA-13: counted from before it asked, on its own monotonic clock."""
    held = claimed(log)
    seen = []
    for micros in (20_000_000 - 1, 1):
        backend.clock.move(micros=micros)
        seen.append(held.is_overdue)
    log.renew([held])

    assert [*seen, held.is_overdue] == [False, True, False]


def test_a_slow_renewal_gives_no_more_time_than_was_asked_for(log: JobLog, backend: Backend) -> None:
    """LEA-13: the answer says OK, but came too late."""
    held = claimed(log)

    with armed("renew.after", lambda: backend.clock.move(20)):
        log.renew([held])

    assert held.is_overdue


def test_a_slow_claim_gives_no_more_time_than_was_asked_for(log: JobLog, backend: Backend) -> None:
    submit(log)
    with armed("claim.before_commit", lambda: backend.clock.move(20)):
        [held] = log.claim("w")

    assert held.is_overdue


def test_a_unit_renews_the_lease_once_a_third_of_it_has_gone_by(log: JobLog, backend: Backend) -> None:
    held = claimed(log)
    until = lease_of(log, held.job_id).lease_until
    backend.clock.move(10, micros=-1)
    held.complete_units(units("a"))
    assert lease_of(log, held.job_id).lease_until == until

    backend.clock.move(micros=1)
    held.complete_units(units("b"))
    assert lease_of(log, held.job_id).lease_until == until + 10_000_000
    backend.clock.move(20, micros=-1)
    assert not held.is_overdue


def test_a_unit_that_was_refused_renews_nothing(log: JobLog, backend: Backend) -> None:
    held = claimed(log)
    held.complete_units(units("a"))
    backend.clock.move(15)
    with pytest.raises(UnitDoneError):
        held.complete_units(units("a"))
    backend.clock.move(5)

    assert held.is_overdue


def test_the_lease_policy_of_the_log_is_the_one_that_counts(backend: Backend) -> None:
    log = backend.open(leases=LeasePolicy(timedelta(seconds=6), timedelta(seconds=2)))
    held = claimed(log)
    assert last(log, held.job_id)["lease_until"] == START + 6 * SECOND
    backend.clock.move(4)
    assert held.is_overdue
    backend.clock.move(2)
    assert [one.job_id for one in log.expire("reaper")] == [held.job_id]


@pytest.mark.parametrize("name", ["", "x" * 201, "a\nb"])
def test_whoever_takes_back_has_a_name(log: JobLog, name: str) -> None:
    with pytest.raises(InputError, match="by"):
        log.expire(name)
    with pytest.raises(InputError, match="worker"):
        log.claim(name)


def test_a_job_that_only_newer_code_knows_is_not_claimed(log: JobLog) -> None:
    job_id = submit(log)
    future(log, job_id)

    assert claim(log) == []
    assert log.row(job_id)["status"] == "queued"


def test_a_renewal_measures_the_clock_again(log: JobLog, backend: Backend) -> None:
    """A process whose clock was stepped must not date its events, nor the waits it stores, by an hour's fault."""
    held = claimed(log)
    if backend.kind == "postgres":
        MovedClock.move(backend.clock, -3600)  # the process' alone
    log.renew([held])

    assert log.now() == START
    fail_unit(held, "a")
    assert START < log.job(held.job_id).due_at < START + 2 * SECOND


def test_a_clock_that_is_set_back_holds_up_nothing_that_was_due(log: JobLog, backend: Backend) -> None:
    job_id = submit(log)
    backend.clock.move(-600)

    assert [held.job_id for held in claim(log)] == [job_id]
    assert log.job(job_id).last_attempt_on == START
