"""Pause, resume, cancel, retry: what an operator asks for, and when it happens."""

from datetime import timedelta

import pytest

from joblog.domain.errors import ExhaustedError, NotDueError, SupersededError, WrongStateError
from joblog.domain.job import Actor
from joblog.domain.retry import RetryPolicy
from joblog.domain.status import Status, Wish
from tests.domain.builders import (
    ADA,
    HOUR,
    NOW,
    a_claimed_job,
    a_job,
    claim,
    frozen,
    in_status,
    schedule,
    topics,
    units,
)


def test_a_pause_takes_effect_at_the_next_boundary_and_keeps_the_checkpoint() -> None:
    """STA-07."""
    job, token = a_claimed_job()
    job.pause(ADA, now=NOW)
    assert (job.status, job.wish) == (Status.RUNNING, Wish.PAUSE)

    job.complete_units(token, units("a"), now=NOW)
    job.release(token, cause="yield", now=NOW)

    assert (job.status, job.wish, job.reason) == (Status.PAUSED, Wish.NONE, "operator")
    assert (job.lease, job.sequence) == (None, 1)
    assert topics(job)[-2:] == ["lease-released", "paused"]


def test_a_cancel_takes_effect_at_the_next_boundary_and_is_final() -> None:
    """STA-08."""
    job, token = a_claimed_job()
    job.cancel(ADA, now=NOW, cleanup=True)
    job.complete_units(token, units("a"), now=NOW)
    job.release(token, cause="yield", now=NOW)

    assert (job.status, job.cleanup, job.lease, job.finished_on) == (Status.CANCELLED, True, None, NOW)
    with pytest.raises(WrongStateError):
        job.resume(ADA, now=NOW)


def test_whoever_asked_stands_in_the_log() -> None:
    """CTL-07."""
    job = a_job()
    job.pause(ADA, now=NOW)

    said = vars(job.pending_events[-1])
    assert (said["actor"], said["request_id"], said["address"], said["text"]) == (
        "ada",
        "request-1",
        "192.0.2.1",
        "because",
    )


def test_what_an_operator_says_is_always_storable() -> None:
    job = a_job()
    job.pause(Actor("ada", text="\0" * 1000), now=NOW)

    assert job.reason_text.startswith(r"\u0000")


def test_a_pause_not_yet_honoured_can_be_withdrawn() -> None:
    job, token = a_claimed_job()
    job.pause(ADA, now=NOW)
    job.resume(ADA, now=NOW)
    assert (job.status, job.wish, job.lease is None) == (Status.RUNNING, Wish.NONE, False)

    job.release(token, cause="yield", now=NOW)
    assert job.status is Status.QUEUED


def test_a_running_job_that_nobody_pauses_cannot_be_resumed() -> None:
    """STA-03."""
    job, _ = a_claimed_job()
    before = frozen(job)

    for command in (job.resume, job.retry_now):
        with pytest.raises(WrongStateError, match="while running"):
            command(ADA, now=NOW)
    assert frozen(job) == before


@pytest.mark.parametrize("command", ["pause", "cancel"])
def test_asking_twice_says_so(command: str) -> None:
    job, _ = a_claimed_job()
    getattr(job, command)(ADA, now=NOW)
    before = frozen(job)

    with pytest.raises(WrongStateError, match="again"):
        getattr(job, command)(ADA, now=NOW)
    assert frozen(job) == before


def test_a_cancel_replaces_a_pause() -> None:
    """STA-11: the newer command stands."""
    job, token = a_claimed_job()
    job.pause(ADA, now=NOW)
    job.cancel(ADA, now=NOW)
    job.release(token, cause="yield", now=NOW)

    assert job.status is Status.CANCELLED


@pytest.mark.parametrize("command", ["pause", "resume"])
def test_a_cancel_that_stands_cannot_be_undone(command: str) -> None:
    """STA-11, CTL-04."""
    job, _ = a_claimed_job()
    job.cancel(ADA, now=NOW)
    before = frozen(job)

    with pytest.raises(SupersededError):
        getattr(job, command)(ADA, now=NOW)
    assert frozen(job) == before


@pytest.mark.parametrize("end", ["park", "fail", "complete", "schedule_retry", "release"])
def test_a_cancel_is_honoured_wherever_the_holder_stops(end: str) -> None:
    """STA-08: no result, verdict or obstacle of the last unit outranks it."""
    job, token = a_claimed_job()
    job.cancel(ADA, now=NOW, cleanup=True)
    {
        "park": lambda: job.park(token, reason="quota", text="", now=NOW),
        "fail": lambda: job.fail(token, reason="bad", text="", now=NOW),
        "complete": lambda: job.complete(token, now=NOW),
        "schedule_retry": lambda: schedule(job, token),
        "release": lambda: job.release(token, cause="yield", now=NOW),
    }[end]()

    assert (job.status, job.cleanup, job.wish) == (Status.CANCELLED, True, Wish.NONE)


@pytest.mark.parametrize(
    ("end", "status", "reason"),
    [("park", Status.PAUSED, "quota"), ("fail", Status.FAILED, "bad"), ("complete", Status.COMPLETED, "")],
)
def test_a_pause_gives_way_to_what_stops_the_job_anyhow(end: str, status: Status, reason: str) -> None:
    job, token = a_claimed_job()
    job.pause(ADA, now=NOW)
    {
        "park": lambda: job.park(token, reason="quota", text="", now=NOW),
        "fail": lambda: job.fail(token, reason="bad", text="", now=NOW),
        "complete": lambda: job.complete(token, now=NOW),
    }[end]()

    assert (job.status, job.reason, job.wish) == (status, reason, Wish.NONE)


def test_a_pause_does_not_lose_when_the_provider_lets_us_try_again() -> None:
    """S11, RAF-08: resuming at once must not shorten the provider's wait."""
    job, token = a_claimed_job()
    job.pause(ADA, now=NOW)
    schedule(job, token, at=NOW + HOUR)
    assert (job.status, job.failures, job.tries) == (Status.PAUSED, 1, {"a": [1, 1]})
    assert topics(job)[-2:] == ["retry-scheduled", "paused"]

    job.resume(ADA, now=NOW)
    with pytest.raises(NotDueError):
        claim(job, now=NOW + timedelta(minutes=59))


def test_a_pause_does_not_cut_a_wait_short() -> None:
    job, token = a_claimed_job()
    job.pause(ADA, now=NOW)
    job.release(token, cause="wait", due_at=NOW + HOUR, now=NOW)
    job.resume(ADA, now=NOW)

    assert job.due_at == NOW + HOUR


def test_an_exhausted_retry_is_refused_before_any_wish_is_honoured() -> None:
    job, token = a_claimed_job(retry=RetryPolicy(retries=0))
    job.pause(ADA, now=NOW)
    before = frozen(job)

    with pytest.raises(ExhaustedError):
        schedule(job, token)
    assert frozen(job) == before


def test_resuming_keeps_the_stored_instant_and_retrying_does_not() -> None:
    """S11, NXT-07."""
    due = {}
    for command in ("resume", "retry_now"):
        job, token = a_claimed_job()
        job.park(token, reason="quota", text="", now=NOW, not_before=NOW + HOUR)
        getattr(job, command)(ADA, now=NOW)
        due[command] = job.due_at

    assert due == {"resume": NOW + HOUR, "retry_now": NOW}


def test_resuming_does_not_lift_exhaustion_and_retrying_does() -> None:
    """NXT-07, STA-13."""
    job, token = a_claimed_job(retry=RetryPolicy(retries=0))
    job.attempt_unit(token, "a", now=NOW)
    job.park(token, reason="network", text="", now=NOW)

    job.resume(ADA, now=NOW)
    token = claim(job)
    with pytest.raises(ExhaustedError):
        job.attempt_unit(token, "a", now=NOW)
    job.park(token, reason="network", text="", now=NOW)
    job.retry_now(ADA, now=NOW)

    assert (job.cycle, job.unit_attempt, job.tries) == (2, 0, {})
    assert job.attempt_unit(claim(job), "a", now=NOW) == 1


def test_a_retry_by_hand_keeps_the_counts_of_a_lifetime() -> None:
    """STA-13, REC-06."""
    job, _ = in_status(Status.FAILED)
    job.retry_now(ADA, now=NOW)

    assert (job.status, job.cycle) == (Status.QUEUED, 2)
    assert (job.failures, job.attempt, len(job.errors)) == (1, 1, 1)


def test_a_retry_that_comes_twice_starts_one_cycle() -> None:
    """STA-13: while the first still stands; after another failure the store's receipt answers."""
    job, _ = in_status(Status.FAILED)
    job.retry_now(ADA, now=NOW)

    with pytest.raises(WrongStateError, match="can't retry it while queued"):
        job.retry_now(ADA, now=NOW)
    assert job.cycle == 2


def test_a_failed_job_is_kept_for_a_retry_and_not_cancelled() -> None:
    """REC-15."""
    job, _ = in_status(Status.FAILED)

    with pytest.raises(WrongStateError, match="can't cancel it while failed"):
        job.cancel(ADA, now=NOW)
