"""When a failed unit is due again is stored once, before anyone waits; exhausted work is kept."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from joblog.domain.errors import ExhaustedError
from joblog.domain.retry import RetryPolicy
from joblog.workers.commands.held import Held
from joblog.workers.commands.log import JobLog
from tests.clocks import START
from tests.conformance.backends import Backend
from tests.conformance.builders import armed, claim, claimed, once
from tests.workers.commands.builders import (
    HOUR,
    SECOND,
    STEEP,
    an_actor,
    claim_again,
    die,
    fail_unit,
    last,
    status,
    topics,
    units,
)


class Dice:
    """The port of randomness; counts how often it is asked."""

    def __init__(self, *throws: float) -> None:
        self.throws = list(throws)
        self.count = 0

    def random(self) -> float:
        self.count += 1
        return self.throws[(self.count - 1) % len(self.throws)]


def wait_of(log: JobLog, held: Held) -> timedelta:
    """How far ahead the stored instant lies."""
    return log.job(held.job_id).due_at - log.now()


@pytest.mark.parametrize("announced", [True, False])
def test_each_failed_attempt_of_a_unit_waits_twice_as_long(log: JobLog, backend: Backend, *, announced: bool) -> None:
    """RTY-05: whether or not the attempt was announced before its body ran."""
    held = claimed(log, retry=STEEP)
    waits = []
    for _ in range(STEEP.retries):
        if announced:
            held.attempt_unit("a")
        fail_unit(held)
        waits.append(wait_of(log, held) / SECOND)
        backend.clock.move(waits[-1])
        held = claim_again(log, held.job_id)

    assert waits == [8, 16, 32]
    if announced:
        held.attempt_unit("a")
    with pytest.raises(ExhaustedError, match="'a' has spent its 4 attempts"):
        fail_unit(held)


def test_each_unit_has_attempts_of_its_own(log: JobLog, backend: Backend) -> None:
    held = claimed(log, retry=STEEP)
    fail_unit(held, "a")
    backend.clock.move(8)
    held = claim_again(log, held.job_id)
    fail_unit(held, "b")
    assert wait_of(log, held) == 8 * SECOND
    backend.clock.move(8)
    held = claim_again(log, held.job_id)

    fail_unit(held, "a")

    assert wait_of(log, held) == 16 * SECOND
    assert log.row(held.job_id)["failures"] == 3


def test_a_unit_that_is_done_begins_anew_if_it_is_ever_tried_again(log: JobLog, backend: Backend) -> None:
    held = claimed(log, retry=STEEP)
    fail_unit(held, "a")
    backend.clock.move(8)
    held = claim_again(log, held.job_id)
    held.complete_units(units("a"))
    fail_unit(held, "b")

    assert wait_of(log, held) == 8 * SECOND


def test_the_instant_is_stored_with_its_jitter_and_never_drawn_again(backend: Backend) -> None:
    """NXT, CRW-08: nobody claims the job earlier, not even after a restart."""
    dice = Dice(0.5, 0.0)
    log = backend.open(random=dice)
    held = claimed(log, retry=RetryPolicy(first_seconds=8, ceiling_seconds=100))
    drawn = dice.count
    fail_unit(held)
    due = log.job(held.job_id).due_at
    assert due == START + 9 * SECOND
    assert dice.count == drawn + 1

    log = backend.reopen(log)
    assert log.promote() == (0, due)
    backend.clock.move(9, micros=-1)
    assert (log.promote(), claim(log)) == ((0, due), [])
    assert log.job(held.job_id).unit_attempt == 1
    backend.clock.move(micros=1)
    assert log.promote() == (1, None)
    assert [one.job_id for one in claim(log)] == [held.job_id]
    assert last(log, held.job_id)["timestamp"] == due


def test_a_version_in_the_way_does_not_draw_it_again(backend: Backend) -> None:
    dice = Dice(0.5, 0.0)
    log = backend.open(random=dice)
    held = claimed(log, retry=RetryPolicy(first_seconds=8, ceiling_seconds=100))
    held.complete_units(units("z"))
    log.command("pause", held.job_id, an_actor())
    log.command("resume", held.job_id, an_actor())

    fail_unit(held)

    assert log.job(held.job_id).due_at == START + 9 * SECOND
    assert dice.count == 1


def test_a_lost_answer_does_not_draw_it_again(backend: Backend) -> None:
    dice = Dice(0.5, 0.0)
    log = backend.open(random=dice)
    held = claimed(log, retry=RetryPolicy(first_seconds=8, ceiling_seconds=100))

    with armed("append.after_commit", once(backend.lost())):
        fail_unit(held)

    assert log.job(held.job_id).due_at == START + 9 * SECOND
    assert topics(log, held.job_id).count("retry-scheduled") == 1


def test_an_instant_that_was_asked_for_is_kept_exactly(log: JobLog, backend: Backend) -> None:
    """RAF: neither shortened nor jittered."""
    held = claimed(log)
    fail_unit(held, next_attempt_at=START + HOUR, origin="delta")

    assert log.job(held.job_id).due_at == START + HOUR
    assert last(log, held.job_id)["origin"] == "delta"
    backend.clock.move(3600, micros=-1)
    assert (log.promote()[0], claim(log)) == (0, [])


def test_an_instant_only_ever_moves_ahead(log: JobLog, backend: Backend) -> None:
    """S11: a wait that was stored is no shorter for a later one."""
    held = claimed(log)
    fail_unit(held, next_attempt_at=START - HOUR)
    assert log.job(held.job_id).due_at == START

    held = claim_again(log, held.job_id)
    held.release("wait", due_at=START - HOUR)
    assert log.job(held.job_id).due_at == START


def test_a_wait_holds_neither_lease_nor_worker(log: JobLog) -> None:
    held = claimed(log)
    fail_unit(held)

    row = log.row(held.job_id)
    assert status(log, held.job_id) == ("waiting", "network")
    assert (row["worker"], row["reason_text"], log.store.lease(held.job_id)) == ("", "reset", None)


def test_an_announced_attempt_is_spent_even_if_its_holder_dies(log: JobLog, backend: Backend) -> None:
    """CRW-03, RTY-09: a job at its limit never tries again after a restart."""
    held = claimed(log, retry=RetryPolicy(retries=1))
    for attempt in (1, 2):
        assert held.attempt_unit("a") == attempt
        die(log, backend)
        held = claim_again(log, held.job_id)

    with pytest.raises(ExhaustedError):
        held.attempt_unit("a")
    assert topics(log, held.job_id).count("unit-attempted") == 2
    assert held.attempt_unit("b") == 1


def test_a_failure_of_the_attempt_that_was_announced_is_counted_once(log: JobLog, backend: Backend) -> None:
    held = claimed(log, retry=RetryPolicy(retries=1, first_seconds=1, jitter=0))
    held.attempt_unit("a")
    fail_unit(held)
    backend.clock.move(1)

    assert claim_again(log, held.job_id).attempt_unit("a") == 2


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (lambda held: held.park(reason="attempts-exhausted", text="503 five times"), "paused"),
        (lambda held: held.fail(reason="attempts-exhausted", text="503 five times", unit="a"), "failed"),
    ],
)
def test_exhausted_work_is_kept_and_does_not_run_by_itself(
    log: JobLog, backend: Backend, end: Callable[[Held], object], expected: str
) -> None:
    """STA-02, EXH, REC-15: for a year."""
    held = claimed(log, retry=RetryPolicy(retries=0))
    held.complete_units(units("z"), cursor="z")
    with pytest.raises(ExhaustedError):
        fail_unit(held)
    end(held)
    backend.clock.move(365 * 86_400)

    assert status(log, held.job_id) == (expected, "attempts-exhausted")
    assert (log.promote(), claim(log), log.expire("reaper")) == ((0, None), [], [])
    assert (log.job(held.job_id).cursor, log.row(held.job_id)["failures"]) == ("z", 1)


def test_an_operators_retry_starts_a_new_cycle(log: JobLog) -> None:
    """STA-13: due at once, with all attempts; lifetime counts stay."""
    held = claimed(log, retry=RetryPolicy(retries=0))
    held.attempt_unit("a")
    held.park(reason="attempts-exhausted", text="")
    log.command("retry", held.job_id, an_actor())

    held = claim_again(log, held.job_id)
    assert held.attempt_unit("a") == 1
    assert (held.job.cycle, log.row(held.job_id)["failures"], log.row(held.job_id)["attempt"]) == (2, 1, 2)


def test_a_resume_goes_on_in_the_same_cycle_and_not_before_its_instant(log: JobLog, backend: Backend) -> None:
    held = claimed(log, retry=RetryPolicy(retries=1))
    held.attempt_unit("a")
    held.park(reason="quota", text="", not_before=START + HOUR)
    log.command("resume", held.job_id, an_actor())
    assert (log.promote(), claim(log)) == ((0, START + HOUR), [])
    backend.clock.move(3600)

    assert claim_again(log, held.job_id).attempt_unit("a") == 2
