"""Losing a lease, and taking back the jobs of dead holders."""

from datetime import timedelta
from uuid import UUID

import pytest

from joblog.domain.errors import InputError, JobNotFoundError, LeaseHeldError, LeaseLostError, UnitDoneError
from joblog.domain.identity import LOG_STREAM
from joblog.domain.job import CRASH_LIMIT
from joblog.domain.lease import LeasePolicy, Token
from joblog.eventstore.store import LeaseRow
from joblog.workers.commands import claiming
from joblog.workers.commands.answers import Reclaimed
from joblog.workers.commands.log import JobLog
from tests.clocks import START
from tests.conformance.backends import Backend
from tests.conformance.builders import armed, claim, claimed, ids, once, submit
from tests.workers.commands.builders import SECOND, an_actor, claim_again, die, future, last, status, topics, units


def lease_of(log: JobLog, job_id: UUID) -> LeaseRow:
    lease = log.store.lease(job_id)
    assert lease is not None
    return lease


def crash(log: JobLog, backend: Backend, job_id: UUID) -> None:
    """Claim the job and die with it."""
    log.promote()
    claim(log)
    die(log, backend)


def test_a_lease_ends_at_its_instant_and_not_before(log: JobLog, backend: Backend) -> None:
    """LEA-09, S7, with the boundary."""
    held = claimed(log)
    backend.clock.move(30, micros=-1)
    assert log.expire("reaper") == []
    assert held.complete_units(units("a")) == 3

    backend.clock.move(30)
    assert log.expire("reaper") == [Reclaimed(held.job_id, "w", "expired", "queued", 5)]


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


def test_the_third_crash_at_one_checkpoint_parks_the_job(log: JobLog, backend: Backend) -> None:
    """L5."""
    job_id = submit(log)
    for count in range(1, CRASH_LIMIT + 1):
        assert log.row(job_id)["status"] == "queued"
        crash(log, backend, job_id)
        assert log.row(job_id)["crashes"] == count

    assert status(log, job_id) == ("paused", "poison-unit")
    assert log.row(job_id)["reason_text"] == "3 holders died at checkpoint 0"
    assert (log.promote()[0], claim(log)) == (0, [])


def test_a_poison_job_is_let_go_on_by_an_operator_only(log: JobLog, backend: Backend) -> None:
    job_id = submit(log)
    for _ in range(CRASH_LIMIT):
        crash(log, backend, job_id)
    log.command("resume", job_id, an_actor())
    crash(log, backend, job_id)

    assert (log.row(job_id)["status"], log.row(job_id)["crashes"]) == ("queued", 1)


def test_crashes_are_counted_anew_from_each_checkpoint(log: JobLog, backend: Backend) -> None:
    job_id = submit(log)
    for name in "abcd":
        log.promote()
        [held] = claim(log)
        held.complete_units(units(name))
        die(log, backend)

    assert (log.row(job_id)["status"], log.row(job_id)["crashes"], log.row(job_id)["reclaims"]) == ("queued", 1, 4)


def test_units_that_finish_out_of_order_do_not_hide_a_poison_unit(log: JobLog, backend: Backend) -> None:
    """The count stays in the row as well, where only a cursor or tallies were told."""
    job_id = submit(log)
    for name in "bcd":
        log.promote()
        [held] = claim(log)
        held.complete_units(units(name), advance=0, tallies={"rows": 1})
        assert log.row(job_id)["crashes"] == log.job(job_id).crashes
        die(log, backend)

    assert status(log, job_id) == ("paused", "poison-unit")


def test_deaths_that_say_nothing_about_the_unit_do_not_count(log: JobLog, backend: Backend) -> None:
    """A reboot of an embedded store's machine; the clock of a server outlives it."""
    job_id = submit(log)
    for _ in range(2 * CRASH_LIMIT):
        log.promote()
        claim(log)
        if log.store.boot_id():
            backend.clock.reboot()
            cause = "reboot"
        else:
            log.raise_epoch(an_actor(), reason="restored")
            cause = "epoch-raised"
        [taken] = log.expire("reaper")
        assert taken.cause == cause

    row = log.row(job_id)
    assert (row["status"], row["crashes"], row["reclaims"]) == ("queued", 0, 2 * CRASH_LIMIT)


@pytest.mark.parametrize("who", ["the one who raised it", "another"])
def test_a_raised_epoch_voids_every_lease_and_counts_no_crash(log: JobLog, backend: Backend, who: str) -> None:
    """S7; also as another process sees it, which has not met the new epoch yet."""
    other = backend.open()
    held = claimed(log)
    assert log.raise_epoch(an_actor(), reason="failed over") == 2
    reaper = log if who == "the one who raised it" else other

    with pytest.raises(LeaseLostError):
        held.complete_units(units("a"))
    [taken] = reaper.expire("reaper")

    assert (taken.cause, taken.status) == ("epoch-raised", "queued")
    assert log.row(held.job_id)["crashes"] == 0
    assert claim_again(reaper, held.job_id).token == Token(2, 2)
    assert (last(log, held.job_id)["epoch"], log.store.state().epoch) == (2, 2)


def test_the_raise_of_an_epoch_is_in_the_log(log: JobLog) -> None:
    assert [log.raise_epoch(an_actor(), reason="restored\0") for _ in range(2)] == [2, 3]

    said = [vars(event) for event in log.mapper.decode_all(LOG_STREAM, log.store.read(LOG_STREAM))]
    assert [(one["epoch"], one["actor"], one["reason"]) for one in said] == [
        (2, "ada", "restored\\u0000"), (3, "ada", "restored\\u0000"),
    ]  # fmt: skip
    submit(log)


def test_a_claim_of_before_is_not_made_in_an_older_epoch(log: JobLog, backend: Backend) -> None:
    other = backend.open()
    job_id = submit(log)
    log.raise_epoch(an_actor(), reason="restored")

    [held] = other.claim("w")

    assert (held.job_id, held.token) == (job_id, Token(2, 1))


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
