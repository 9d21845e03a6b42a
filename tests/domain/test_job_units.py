"""Units, the checkpoint over them, and the end of the last one."""

import pytest

from joblog.domain.errors import CheckpointError, IncompleteError, TooLargeError
from joblog.domain.job import LISTS_LIMIT, TALLIES_LIMIT
from joblog.domain.status import Status
from tests.domain.builders import (
    NOW,
    a_claimed_job,
    frozen,
    topics,
    units,
)


def test_units_and_the_checkpoint_over_them_are_recorded_together() -> None:
    """EVT-04, UNI-08."""
    job, token = a_claimed_job()
    job.complete_units(token, units("a", "b"), now=NOW, cursor={"row": 2}, tallies={"rows": 9})

    assert (job.done, job.sequence, job.cursor, job.tallies) == (2, 2, {"row": 2}, {"rows": 9})
    assert topics(job)[2:] == ["unit-completed", "unit-completed", "checkpoint-advanced"]


def test_the_checkpoint_moves_over_the_finished_prefix_only() -> None:
    """STA-04, S10: units may finish out of order."""
    job, token = a_claimed_job()
    job.complete_units(token, units("b", "c"), now=NOW, advance=0)
    assert (job.done, job.sequence) == (2, 0)

    job.complete_units(token, units("a"), now=NOW, advance=3)
    assert (job.done, job.sequence) == (3, 3)


def test_the_checkpoint_may_follow_later() -> None:
    job, token = a_claimed_job()
    job.complete_units(token, units("a"), now=NOW, advance=0)
    job.complete_units(token, [], now=NOW, advance=1)

    assert job.sequence == 1


@pytest.mark.parametrize("advance", [-1, 3])
def test_a_checkpoint_that_no_units_cover_leaves_no_event_behind(advance: int) -> None:
    """REC-05, S10."""
    job, token = a_claimed_job()
    job.complete_units(token, units("a"), now=NOW)
    before = frozen(job)

    with pytest.raises(CheckpointError, match=f"checkpoint 1 can't move by {advance}"):
        job.complete_units(token, units("b"), now=NOW, advance=advance)
    with pytest.raises(CheckpointError):
        job.skip_unit(token, "b", code="bad", text="", now=NOW, advance=advance)
    assert frozen(job) == before


@pytest.mark.parametrize("advance", [None, 0])
def test_more_units_than_the_total_leave_no_event_behind(advance: int | None) -> None:
    job, token = a_claimed_job(total=1)
    before = frozen(job)

    with pytest.raises(CheckpointError, match="unit 2 lies past the total of 1"):
        job.complete_units(token, units("a", "b"), now=NOW, advance=advance)
    assert frozen(job) == before


def test_a_cursor_stays_until_another_one_comes() -> None:
    job, token = a_claimed_job()
    job.complete_units(token, units("a"), now=NOW, cursor=7)
    job.skip_unit(token, "b", code="bad", text="", now=NOW)
    job.complete_units(token, units("c"), now=NOW)

    assert (job.cursor, vars(job.pending_events[-1])["cursor"]) == (7, 7)


def test_tallies_are_recorded_where_the_checkpoint_stands_still() -> None:
    job, token = a_claimed_job()
    job.complete_units(token, units("b"), now=NOW, advance=0, tallies={"rows": 1})

    assert (job.sequence, job.tallies) == (0, {"rows": 1})


def test_tallies_do_not_change_under_the_recorded_event() -> None:
    job, token = a_claimed_job()
    counted = {"rows": 1}
    job.complete_units(token, units("a"), now=NOW, tallies=counted)
    counted["rows"] = 2

    assert job.tallies == {"rows": 1}


def test_tallies_are_bounded() -> None:
    job, token = a_claimed_job()
    before = frozen(job)

    with pytest.raises(TooLargeError, match="tallies: 101 names"):
        job.complete_units(token, units("a"), now=NOW, tallies={str(n): n for n in range(TALLIES_LIMIT + 1)})
    assert frozen(job) == before


def test_a_skipped_unit_never_counts_as_done() -> None:
    """STA-05, STA-06, REC-18."""
    job, token = a_claimed_job(total=2)
    job.skip_unit(token, "a", code="invalid-input", text="bad row", now=NOW, cursor=1)
    job.complete_units(token, units("b"), now=NOW)
    job.complete(token, now=NOW)

    assert (job.done, job.skipped, job.sequence, job.outcome) == (1, 1, 2, "with-warnings")
    assert job.errors == [{"at": NOW.isoformat(), "unit": "a", "code": "invalid-input", "text": "bad row"}]


def test_a_unit_skipped_out_of_order_does_not_move_the_checkpoint() -> None:
    job, token = a_claimed_job()
    job.skip_unit(token, "b", code="bad", text="", now=NOW, advance=0)
    assert (job.skipped, job.sequence) == (1, 0)

    job.complete_units(token, units("a"), now=NOW, advance=2)
    assert job.sequence == 2


def test_a_list_is_frozen_once_and_must_stay_the_same() -> None:
    """UNI-13."""
    job, token = a_claimed_job()
    job.freeze_list(token, "rows", count=3, digest="d", now=NOW)
    before = frozen(job)
    job.freeze_list(token, "rows", count=3, digest="d", now=NOW)
    assert frozen(job) == before

    for count, digest in ((4, "d"), (3, "e")):
        with pytest.raises(CheckpointError, match="'rows' differs"):
            job.freeze_list(token, "rows", count=count, digest=digest, now=NOW)


def test_a_job_has_a_bounded_number_of_lists() -> None:
    job, token = a_claimed_job()
    for number in range(LISTS_LIMIT):
        job.freeze_list(token, str(number), count=0, digest="", now=NOW)

    with pytest.raises(TooLargeError):
        job.freeze_list(token, "one more", count=0, digest="", now=NOW)


@pytest.mark.parametrize(("total", "finished", "advance"), [(2, "a", 1), (None, "a", 0), (None, "ab", 1)])
def test_a_job_with_units_left_cannot_be_completed(total: int | None, finished: str, advance: int) -> None:
    """STA-04."""
    job, token = a_claimed_job(total=total)
    job.complete_units(token, units(*finished), now=NOW, advance=advance)
    before = frozen(job)

    with pytest.raises(IncompleteError, match=f"checkpoint {advance}, {len(finished)} done"):
        job.complete(token, now=NOW)
    assert frozen(job) == before


def test_a_completed_job_has_its_result() -> None:
    job, token = a_claimed_job(total=1)
    job.complete_units(token, units("a"), now=NOW)
    job.complete(token, now=NOW, result=[1])

    assert (job.status, job.outcome, job.result, job.lease) == (Status.COMPLETED, "done", [1], None)
