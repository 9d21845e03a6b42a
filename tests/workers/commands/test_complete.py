"""A job ends only with evidence for every unit, and a checkpoint that covers them all (STA-04)."""

import pytest

from joblog.domain.errors import CheckpointError, IncompleteError, LeaseLostError
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import armed, claimed, once
from tests.workers.commands.builders import claim_again, die, forget_unit, status, topics, units


@pytest.mark.parametrize("total", [None, 2])
def test_a_job_whose_every_unit_is_done_is_complete(log: JobLog, total: int | None) -> None:
    held = claimed(log, total=total)
    held.complete_units(units("a"))
    held.complete_units(units("b"))
    held.complete({"rows": 2})

    assert status(log, held.job_id) == ("completed", "")
    assert (log.job(held.job_id).result, log.row(held.job_id)["outcome"]) == ({"rows": 2}, "done")
    assert log.row(held.job_id)["finished_at"] is not None


def test_a_job_without_units_is_complete_at_once(log: JobLog) -> None:
    held = claimed(log)
    held.complete()

    assert status(log, held.job_id) == ("completed", "")


def test_a_skipped_unit_never_looks_like_a_success(log: JobLog) -> None:
    """STA-05, STA-06, REC-18."""
    held = claimed(log, total=3)
    held.complete_units(units("a"))
    held.skip_unit("b", code="bad-row", text="no name", cursor=2)
    held.complete_units(units("c"))
    held.complete()

    row = log.row(held.job_id)
    assert (row["outcome"], row["done"], row["skipped"], row["sequence"]) == ("with-warnings", 2, 1, 3)
    assert log.job(held.job_id).errors[0]["code"] == "bad-row"


def test_a_job_with_units_left_is_not_complete(log: JobLog) -> None:
    held = claimed(log, total=2)
    held.complete_units(units("a"))

    with pytest.raises(IncompleteError, match="checkpoint 1, 1 done, 0 skipped, of 2 units"):
        held.complete()
    assert log.row(held.job_id)["status"] == "running"


def test_a_job_whose_checkpoint_lags_is_not_complete(log: JobLog) -> None:
    held = claimed(log)
    held.complete_units(units("b"), advance=0)

    with pytest.raises(IncompleteError, match="checkpoint 0, 1 done"):
        held.complete()


@pytest.mark.parametrize("total", [None, 3])
def test_a_job_that_lost_evidence_can_not_complete(backend: Backend, total: int | None) -> None:
    """STA-04: the log says 3, the stored results only 2."""
    log = backend.open()
    held = claimed(log, total=total)
    held.complete_units(units("a", "b", "c"))
    forget_unit(backend, held.job_id, "b")

    with pytest.raises(IncompleteError, match="2 unit results are stored, 3 are due"):
        held.complete()

    assert status(log, held.job_id) == ("running", "")
    assert topics(log, held.job_id)[-1] == "checkpoint-advanced"


def test_units_past_the_total_are_refused(log: JobLog) -> None:
    held = claimed(log, total=1)
    held.complete_units(units("a"))

    with pytest.raises(CheckpointError, match="unit 2 lies past the total of 1"):
        held.complete_units(units("b"))
    with pytest.raises(CheckpointError):
        held.skip_unit("b", code="bad", text="")


def test_units_may_finish_out_of_order_while_the_checkpoint_waits(log: JobLog) -> None:
    held = claimed(log, total=3)
    held.complete_units(units("c"), advance=0)
    held.complete_units(units("a"), cursor=1)
    assert held.job.sequence == 1
    held.complete_units(units("b"), advance=2, cursor=3)
    held.complete()

    assert (log.job(held.job_id).cursor, log.row(held.job_id)["done"]) == (3, 3)


def test_only_the_end_was_missing(log: JobLog, backend: Backend) -> None:
    """CRW-10: died between the last checkpoint and `completed`; no unit runs again."""
    held = claimed(log, total=2)
    held.complete_units(units("a", "b"))
    die(log, backend)

    again = claim_again(log, held.job_id)
    assert (again.job.sequence, again.job.total) == (2, 2)
    again.complete()

    assert topics(log, held.job_id)[-3:] == ["lease-expired", "claimed", "completed"]
    assert log.store.count_units(held.job_id) == 2
    with pytest.raises(LeaseLostError):
        held.complete()


def test_an_end_whose_answer_is_lost_is_the_end(log: JobLog, backend: Backend) -> None:
    held = claimed(log)
    with armed("append.after_commit", once(backend.lost())):
        position = held.complete()

    assert position == 3
    assert topics(log, held.job_id) == ["submitted", "claimed", "completed"]


def test_a_list_is_frozen_once(log: JobLog) -> None:
    """JRN, UNI-13: the same again is no event; another one is refused."""
    held = claimed(log)

    assert held.freeze_list("rows", count=2, digest="d") == 3
    assert held.freeze_list("rows", count=2, digest="d") == 0
    with pytest.raises(CheckpointError, match="differs from the one stored"):
        held.freeze_list("rows", count=3, digest="d")
    assert topics(log, held.job_id).count("list-frozen") == 1
    assert log.job(held.job_id).lists == {"rows": {"count": 2, "digest": "d"}}
