"""Units of several jobs in one commit, each job with its own answer."""

from typing import Any
from uuid import UUID

from joblog.domain.errors import (
    LeaseLostError,
    StoreClosedError,
    UnitDoneError,
    UnstorableError,
)
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import claimed
from tests.workers.commands.builders import die


def test_an_answer_for_each_of_many(log: JobLog, backend: Backend) -> None:
    """``complete_many``: in one commit, each with its own answer."""
    lost = claimed(log, queue="slow")
    die(log, backend)
    held = [claimed(log) for _ in range(3)]
    held[1].complete_units([("a", 1)])
    before = log.writer.batches

    answers = log.complete_many(
        [
            (held[0], [("a", 1)], {}),
            (lost, [("a", 1)], {}),
            (held[1], [("a", 1)], {}),
            (held[2], [("a", b"")], {}),
            (held[2], [("b", 1)], {"cursor": 7}),
        ]
    )

    assert [type(answer) for answer in answers] == [int, LeaseLostError, UnitDoneError, UnstorableError, int]
    assert log.writer.batches == before + 1
    assert log.job(held[2].job_id).cursor == 7


def test_a_job_that_can_not_be_read_does_not_take_the_others_with_it(log: JobLog) -> None:
    held = [claimed(log) for _ in range(3)]
    read = log.job

    def unreadable(job_id: UUID, **more: Any) -> Any:
        if job_id == held[1].job_id:
            raise StoreClosedError("it is gone")
        return read(job_id, **more)

    log.job = unreadable  # type: ignore[method-assign]
    answers = log.complete_many([(one, [("a", 1)], {}) for one in held])
    log.job = read  # type: ignore[method-assign]

    assert [type(answer) for answer in answers] == [int, StoreClosedError, int]
    assert [log.job(one.job_id).done for one in held] == [1, 0, 1]
