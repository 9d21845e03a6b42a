"""When a holder dies: takeover, poison, and what an operator had asked."""

import pytest

from joblog.domain.job import CRASH_LIMIT
from joblog.domain.status import Status, Wish
from tests.domain.builders import (
    ADA,
    HOUR,
    NOW,
    a_claimed_job,
    a_job,
    claim,
    crash,
    units,
)


def test_a_takeover_tells_who_held_what_since_when() -> None:
    job, token = a_claimed_job()
    job.attempt_unit(token, "a", now=NOW)
    job.expire(cause="expired", by="bob", now=NOW + HOUR)

    said = vars(job.pending_events[-1])
    assert (said["worker"], said["token"], said["held_since"], said["unit"]) == ("w", 1, NOW, "a")
    assert (said["cause"], said["reclaimed_by"], said["crashes"], said["reclaims"]) == ("expired", "bob", 1, 1)


def test_an_interrupted_job_goes_on_at_its_checkpoint() -> None:
    """STA-12, SCP-02."""
    job, token = a_claimed_job()
    job.complete_units(token, units("a", "b"), now=NOW, cursor="b")
    crash(job)

    assert (job.status, job.sequence, job.cursor) == (Status.QUEUED, 2, "b")


def test_the_third_death_at_one_checkpoint_parks_the_job() -> None:
    """L5."""
    job = a_job()
    for _ in range(CRASH_LIMIT):
        assert job.status is Status.QUEUED
        claim(job)
        crash(job)

    assert (job.status, job.reason) == (Status.PAUSED, "poison-unit")
    assert job.reason_text == "3 holders died at checkpoint 0"


def test_a_death_that_says_nothing_about_the_unit_does_not_count() -> None:
    job = a_job()
    for _ in range(2 * CRASH_LIMIT):
        claim(job)
        crash(job, counts=False)

    assert (job.status, job.crashes, job.reclaims) == (Status.QUEUED, 0, 2 * CRASH_LIMIT)


def test_deaths_are_counted_anew_from_each_checkpoint() -> None:
    job = a_job()
    for name in "abcdef":
        token = claim(job)
        job.complete_units(token, units(name), now=NOW)
        crash(job)

    assert (job.status, job.crashes) == (Status.QUEUED, 1)


def test_deaths_still_count_while_only_later_units_finish() -> None:
    """A poison unit must not hide behind units that finish out of order."""
    job = a_job()
    for name in "bcd":
        token = claim(job)
        job.complete_units(token, units(name), now=NOW, advance=0, tallies={"rows": 1})
        crash(job)

    assert (job.status, job.reason) == (Status.PAUSED, "poison-unit")


def test_a_resumed_poison_job_has_three_deaths_again() -> None:
    job = a_job()
    for _ in range(CRASH_LIMIT):
        claim(job)
        crash(job)
    job.resume(ADA, now=NOW)
    claim(job)
    crash(job)

    assert (job.status, job.crashes) == (Status.QUEUED, 1)


def test_whoever_finds_a_cancelled_job_dead_ends_it() -> None:
    """REC-14, STA-10."""
    job, _ = a_claimed_job()
    job.cancel(ADA, now=NOW, cleanup=True)
    assert job.status is Status.RUNNING
    crash(job)

    assert (job.status, job.cleanup, job.wish) == (Status.CANCELLED, True, Wish.NONE)


def test_a_dead_job_that_was_to_pause_is_paused() -> None:
    job, _ = a_claimed_job()
    job.pause(ADA, now=NOW)
    crash(job)

    assert (job.status, job.reason) == (Status.PAUSED, "operator")


@pytest.mark.parametrize(
    ("wish", "status", "reason"),
    [(Wish.PAUSE, Status.PAUSED, "poison-unit"), (Wish.CANCEL, Status.CANCELLED, "cancelled")],
)
def test_only_a_cancel_outranks_poison(wish: Wish, status: Status, reason: str) -> None:
    job = a_job()
    for _ in range(CRASH_LIMIT - 1):
        claim(job)
        crash(job)
    claim(job)
    job.pause(ADA, now=NOW) if wish is Wish.PAUSE else job.cancel(ADA, now=NOW)
    crash(job)

    assert (job.status, job.reason) == (status, reason)
