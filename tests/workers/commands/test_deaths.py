"""Deaths that count against a unit, and those that say nothing about it: reboots, raised epochs."""

from uuid import UUID

import pytest

from joblog.domain.errors import LeaseLostError
from joblog.domain.identity import LOG_STREAM
from joblog.domain.job import CRASH_LIMIT
from joblog.domain.lease import Token
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import claim, claimed, submit
from tests.workers.commands.builders import an_actor, claim_again, die, last, status, units


def crash(log: JobLog, backend: Backend, job_id: UUID) -> None:
    """Claim the job and die with it."""
    log.promote()
    claim(log)
    die(log, backend)


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
