"""Submit, claim, lease, takeover."""

from datetime import timedelta
from uuid import UUID

import pytest

from joblog.domain.errors import (
    EpochChangedError,
    InputError,
    LeaseHeldError,
    LeaseLostError,
    NotDueError,
)
from joblog.domain.granting import claim_from_row
from joblog.domain.job import Actor, Job
from joblog.domain.lease import Lease, Token
from joblog.domain.status import Status
from tests.domain.builders import (
    ADA,
    HOUR,
    LEASE,
    NOW,
    SECOND,
    a_claimed_job,
    a_job,
    a_spec,
    claim,
    crash,
    frozen,
    in_status,
    lives,
    schedule,
    units,
)

CHILD = UUID(int=7)


def test_a_submitted_job_is_queued_and_due_at_once() -> None:
    job = a_job(tags=("nightly",), total=3)

    assert (job.status, job.due_at, job.version, job.created_on) == (Status.QUEUED, NOW, 1, NOW)
    assert (job.kind, job.key, job.tags, job.total) == ("import", "k", ["nightly"], 3)
    assert (job.attempt, job.done, job.sequence, job.errors) == (0, 0, 0, [])


def test_the_id_of_a_job_is_that_of_its_spec() -> None:
    assert a_job().id == a_spec().job_id != a_job(key="other").id


def test_nothing_of_a_job_changes_what_was_submitted() -> None:
    """REC-01: no event but the first carries kind, owner or tenant."""
    for job in lives():
        for event in job.pending_events[1:]:
            assert not {"kind", "tenant", "owner", "args", "key"} & vars(event).keys()


def test_a_claim_grants_a_lease_under_a_token() -> None:
    """REC-11."""
    job, token = a_claimed_job()

    assert token == Token(1, 1)
    assert job.lease == Lease("w", token, NOW, NOW + LEASE)
    assert (job.status, job.attempt, job.started_on) == (Status.RUNNING, 1, NOW)


def test_a_claim_from_the_row_says_what_the_job_would_say() -> None:
    """Many jobs are claimed without replaying them."""
    job = a_job()
    job.release(claim(job), cause="yield", now=NOW)
    row = {"id": job.id, "version": job.version, "token": job.token, "attempt": job.attempt}
    event = claim_from_row(row, "w", epoch=1, lease=LEASE, now=NOW)
    claim(job)

    assert type(event) is type(job.pending_events[-1])
    assert vars(event) == vars(job.pending_events[-1])


def test_each_grant_has_a_higher_token() -> None:
    """S7."""
    job = a_job()
    granted = []
    for _ in range(3):
        granted.append(claim(job))
        crash(job, counts=False)
    granted.append(claim(job, epoch=2))

    assert granted == sorted(set(granted))
    assert job.attempt == 4


def test_an_epoch_never_goes_back() -> None:
    """S7: a claimant of an old epoch would be granted a lower token."""
    job = a_job()
    job.release(claim(job, epoch=2), cause="yield", now=NOW)
    before = frozen(job)

    with pytest.raises(EpochChangedError):
        claim(job, epoch=1)
    assert frozen(job) == before


def test_a_live_lease_keeps_others_out_and_costs_no_attempt() -> None:
    """LEA-01, LEA-16."""
    job, _ = a_claimed_job()
    before = frozen(job)

    with pytest.raises(LeaseHeldError, match="leased to w"):
        claim(job)
    assert frozen(job) == before


def test_a_lease_past_its_end_is_ended_before_the_next_claim() -> None:
    """LEA-09: the store's clock decides, not this object's."""
    job, _ = a_claimed_job()

    with pytest.raises(LeaseHeldError):
        claim(job, now=NOW + 2 * LEASE)
    crash(job, now=NOW + 2 * LEASE)
    assert claim(job, now=NOW + 2 * LEASE) == Token(1, 2)


def test_a_job_is_claimed_at_its_instant_and_not_before() -> None:
    """LEA-02, S11."""
    job = a_job(due_at=NOW + HOUR)

    with pytest.raises(NotDueError, match="2030-01-01T01:00"):
        claim(job, now=NOW + HOUR - timedelta(microseconds=1))
    assert claim(job, now=NOW + HOUR)


def test_any_worker_goes_on_at_once_after_a_clean_release() -> None:
    """LEA-07."""
    job, token = a_claimed_job()
    job.release(token, cause="shutdown", now=NOW)

    assert claim(job) > token


def test_a_release_may_name_when_the_job_goes_on() -> None:
    job, token = a_claimed_job()
    job.release(token, cause="wait", due_at=NOW + HOUR, now=NOW)

    assert job.status is Status.WAITING
    with pytest.raises(NotDueError):
        claim(job)


def a_parent() -> Job:
    job, token = a_claimed_job()
    job.release(token, cause="child", due_at=NOW + HOUR, now=NOW)
    return job


def test_the_end_of_a_child_makes_a_waiting_parent_due() -> None:
    parent = a_parent()
    assert (parent.status, parent.reason) == (Status.WAITING, "child")

    assert parent.wake(CHILD, Status.FAILED, now=NOW + SECOND)
    assert (parent.status, parent.due_at) == (Status.WAITING, NOW + SECOND)
    claim(parent, now=NOW + SECOND)
    assert parent.reason == ""


def test_the_end_of_a_child_shortens_no_other_wait() -> None:
    """S11: not that of a provider, of an operator, or of a job's own sleep."""
    retried, token = a_claimed_job()
    schedule(retried, token, at=NOW + HOUR)
    asleep, token = a_claimed_job()
    asleep.release(token, cause="wait", due_at=NOW + HOUR, now=NOW)
    paused = a_parent()
    paused.pause(ADA, now=NOW)
    running, _ = a_claimed_job()

    for job in (retried, asleep, paused, running):
        before = frozen(job)
        assert not job.wake(CHILD, Status.COMPLETED, now=NOW)
        assert frozen(job) == before


def test_a_release_never_makes_a_job_due_earlier() -> None:
    """S11."""
    job = a_job(due_at=NOW + HOUR)
    token = claim(job, now=NOW + HOUR)
    job.release(token, cause="yield", due_at=NOW, now=NOW)

    assert job.due_at == NOW + HOUR


def test_a_late_worker_can_do_nothing_after_a_takeover() -> None:
    """LEA-08, LEA-11, LEA-15, STA-15."""
    job, late = a_claimed_job()
    crash(job)
    newer = claim(job)
    before = frozen(job)

    for command in (
        lambda: job.complete_units(late, units("a"), now=NOW),
        lambda: job.attempt_unit(late, "a", now=NOW),
        lambda: job.skip_unit(late, "a", code="bad", text="", now=NOW),
        lambda: job.freeze_list(late, "l", count=0, digest="", now=NOW),
        lambda: schedule(job, late),
        lambda: job.release(late, cause="yield", now=NOW),
        lambda: job.park(late, reason="quota", text="", now=NOW),
        lambda: job.fail(late, reason="bad", text="", now=NOW),
        lambda: job.complete(late, now=NOW),
    ):
        with pytest.raises(LeaseLostError, match="token 1 is lost"):
            command()
    assert frozen(job) == before
    job.complete_units(newer, units("a"), now=NOW)


def test_a_token_of_an_old_epoch_is_not_the_newest() -> None:
    job, token = a_claimed_job()

    with pytest.raises(LeaseLostError):
        job.release(Token(token.epoch + 1, token.grant), cause="yield", now=NOW)


def test_timestamps_never_decrease_whatever_clock_the_caller_has() -> None:
    """REC-10."""
    job, token = a_claimed_job()
    job.attempt_unit(token, "a", now=NOW + HOUR)
    job.complete_units(token, units("a"), now=NOW - HOUR)
    crash(job, now=NOW)

    stamps = [event.timestamp for event in job.pending_events]
    assert stamps == sorted(stamps)
    assert job.modified_on == job.due_at == NOW + HOUR


def test_each_instant_is_set_by_the_event_it_belongs_to() -> None:
    """REC-10."""
    job = a_job()
    assert (job.started_on, job.last_attempt_on, job.finished_on) == (None, None, None)
    schedule(job, claim(job))
    token = claim(job, now=NOW + SECOND)
    job.attempt_unit(token, "a", now=NOW + 2 * SECOND)
    job.complete_units(token, units("a"), now=NOW + 3 * SECOND)
    job.complete(token, now=NOW + HOUR)

    assert job.started_on == NOW
    assert job.last_attempt_on == NOW + 2 * SECOND
    assert job.finished_on == job.modified_on == NOW + HOUR


def test_a_resumed_job_has_not_finished() -> None:
    job, _ = in_status(Status.FAILED)
    job.resume(ADA, now=NOW)

    assert (job.finished_on, job.reason) == (None, "")


@pytest.mark.parametrize("field", ["name", "request_id", "address"])
@pytest.mark.parametrize("bad", ["x" * 201, "nul\0", "\ud800"])
def test_who_commands_must_be_storable(field: str, bad: str) -> None:
    with pytest.raises(InputError):
        Actor(**{"name": "ada"} | {field: bad})


def test_every_command_of_an_operator_needs_a_name() -> None:
    with pytest.raises(InputError, match="actor: empty"):
        Actor("")
