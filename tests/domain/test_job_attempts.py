"""Attempts and retries, and how a run can end."""

from datetime import timedelta

import pytest

from joblog.domain.errors import ExhaustedError
from joblog.domain.job import Job
from joblog.domain.job_state import ERRORS_KEPT, TRIES_KEPT
from joblog.domain.retry import RetryPolicy
from joblog.domain.status import Status
from joblog.domain.storable import TEXT_LIMIT
from tests.domain.builders import (
    ADA,
    HOUR,
    NOW,
    SECOND,
    a_claimed_job,
    a_job,
    claim,
    crash,
    frozen,
    schedule,
    units,
)


def attempts_until_exhausted(job: Job, *, recorded: bool) -> int:
    for attempts in range(1, 100):
        token = claim(job)
        if recorded:
            assert job.attempt_unit(token, "a", now=NOW) == attempts
        try:
            schedule(job, token)
        except ExhaustedError:
            return attempts
    raise AssertionError


@pytest.mark.parametrize("recorded", [True, False])
def test_five_retries_are_six_attempts_each_counted_once(*, recorded: bool) -> None:
    """RTY-05: whether the attempt was announced before its body or not."""
    job = a_job()
    assert attempts_until_exhausted(job, recorded=recorded) == 6
    assert (job.failures, job.attempt) == (5, 6)


@pytest.mark.parametrize("retries", [0, 1])
def test_no_retry_means_one_attempt(retries: int) -> None:
    assert attempts_until_exhausted(a_job(retry=RetryPolicy(retries=retries)), recorded=False) == retries + 1


def test_an_attempt_is_spent_even_if_the_process_dies_in_it() -> None:
    """RTY-09, EXH-07."""
    job = a_job(retry=RetryPolicy(retries=1))
    for attempt in (1, 2):
        assert job.attempt_unit(claim(job), "a", now=NOW) == attempt
        crash(job, counts=False)
    token = claim(job)
    before = frozen(job)

    with pytest.raises(ExhaustedError, match="unit 'a' has spent its 2 attempts"):
        job.attempt_unit(token, "a", now=NOW)
    assert frozen(job) == before


def test_attempts_are_counted_for_each_unit_of_those_in_flight() -> None:
    """EXH-02: a unit that succeeds must not give a failing neighbour its attempts back."""
    job = a_job(retry=RetryPolicy(retries=2))
    for number in range(2):
        token = claim(job)
        job.attempt_unit(token, "bad", now=NOW)
        job.attempt_unit(token, f"good-{number}", now=NOW)
        job.complete_units(token, units(f"good-{number}"), now=NOW, advance=0)
        schedule(job, token, "bad")

    assert job.tries == {"bad": [2, 2]}
    assert job.attempt_unit(claim(job), "bad", now=NOW) == 3


def test_a_finished_unit_has_no_attempts_any_more() -> None:
    """REC-06."""
    job, token = a_claimed_job()
    schedule(job, token, "a")
    token = claim(job)
    job.attempt_unit(token, "a", now=NOW)
    assert (job.unit, job.unit_attempt) == ("a", 2)
    job.complete_units(token, units("a"), now=NOW)

    assert (job.unit, job.unit_attempt, job.tries, job.failures) == ("", 0, {}, 1)
    assert job.attempt_unit(token, "a", now=NOW) == 1


def test_the_attempts_kept_are_those_of_the_newest_units() -> None:
    job, token = a_claimed_job()
    for number in range(TRIES_KEPT + 5):
        job.attempt_unit(token, str(number), now=NOW)

    assert list(job.tries) == [str(number) for number in range(5, TRIES_KEPT + 5)]


def test_a_retry_waits_without_a_lease_until_exactly_its_instant() -> None:
    """NXT-01, NXT-04."""
    job, token = a_claimed_job()
    schedule(job, token, at=NOW + timedelta(seconds=1.25))

    assert (job.status, job.lease, job.reason) == (Status.WAITING, None, "network")
    assert job.due_at == NOW + timedelta(seconds=1.25)


def test_a_retry_is_never_due_before_it_was_scheduled() -> None:
    """RAF-03."""
    job, token = a_claimed_job()
    schedule(job, token, at=NOW - HOUR, now=NOW + SECOND)

    assert job.due_at == NOW + SECOND


def test_a_parked_job_keeps_its_work_and_what_it_waits_for() -> None:
    """EXH-01, EXH-06, RAF-08."""
    job, token = a_claimed_job()
    job.complete_units(token, units("a"), now=NOW, cursor="a")
    job.park(token, reason="rate-limited", text="2 days", now=NOW, not_before=NOW + 48 * HOUR, unit="b")

    assert (job.status, job.lease, job.reason, job.cursor) == (Status.PAUSED, None, "rate-limited", "a")
    assert (job.due_at, job.errors[-1]["unit"]) == (NOW + 48 * HOUR, "b")
    job.resume(ADA, now=NOW)
    assert job.due_at == NOW + 48 * HOUR


def test_what_a_parked_job_waits_for_is_never_earlier_than_before() -> None:
    """S11."""
    job = a_job(due_at=NOW + HOUR)
    token = claim(job, now=NOW + HOUR)
    job.park(token, reason="quota", text="", now=NOW + HOUR, not_before=NOW)

    assert job.due_at == NOW + HOUR


def test_a_verdict_about_the_input_fails_the_job_at_once() -> None:
    """EXH-04, EXH-05."""
    job, token = a_claimed_job()
    job.fail(token, reason="invalid-input", text="no such file", now=NOW, unit="a")

    assert (job.status, job.reason, job.failures, job.finished_on) == (Status.FAILED, "invalid-input", 1, NOW)
    assert job.errors[-1]["unit"] == "a"


def test_the_error_history_is_bounded_in_entries_and_in_bytes() -> None:
    """REC-08."""
    job = a_job(retry=RetryPolicy(retries=1000))
    for number in range(1000):
        token = claim(job)
        job.schedule_retry(
            token,
            "a",
            category="network",
            text=f"{number} " + "\0" * 10_000,
            next_attempt_at=NOW,
            origin="backoff",
            now=NOW,
        )

    assert len(job.errors) == ERRORS_KEPT
    assert job.errors_dropped == 1000 - ERRORS_KEPT
    assert [entry["text"].split()[0] for entry in job.errors] == [str(n) for n in range(980, 1000)]
    assert all(len(entry["text"]) <= 6 * TEXT_LIMIT for entry in job.errors)
