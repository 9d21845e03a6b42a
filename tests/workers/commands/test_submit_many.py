"""Handing in many jobs: each has its own answer, in its own place."""

from collections.abc import Sequence
from itertools import count
from threading import Barrier, Event

import pytest

from joblog.domain import withheld
from joblog.domain.errors import (
    InvalidFieldError,
    JobLogError,
    KeyConflictError,
    SecretInInputError,
    StoreClosedError,
    StoreFullError,
    UnknownOutcomeError,
)
from joblog.domain.spec import JobSpec
from joblog.eventstore.append import Append
from joblog.eventstore.writer import MAX_BATCH
from joblog.workers.commands.answers import Submitted
from joblog.workers.commands.log import GROUP, JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import BOUND, Side, armed, once, whole_log


def created(answer: Submitted | JobLogError) -> bool:
    assert isinstance(answer, Submitted), answer
    return answer.created


def test_nothing_at_all_may_be_handed_in(log: JobLog) -> None:
    assert log.submit_many([]) == []
    assert log.submit_many(iter(())) == []


def test_each_answer_stands_in_the_place_of_its_spec(log: JobLog) -> None:
    old = log.submit(JobSpec("import", {"n": 0}, key="old"))
    specs = [
        JobSpec("import", {"n": 1}, key="new"),
        JobSpec("import", {"n": 0}, key="old"),
        JobSpec("import", {"n": 2}, key="old"),
        JobSpec("import", {"n": 1}, key="new"),
        JobSpec("import", {"n": 3}, key="new"),
        JobSpec("import"),
        JobSpec("import"),
    ]

    answers = log.submit_many(specs)

    new, again, conflict, twice, late, one, other = answers
    assert new == (specs[0].job_id, True, 2)
    assert again == (old.job_id, False, 1)
    assert isinstance(conflict, KeyConflictError)
    assert twice == (specs[0].job_id, False, 2)
    assert isinstance(late, KeyConflictError)
    assert (created(one), created(other)) == (True, True)
    assert log.store.head() == 4


def test_jobs_stand_in_the_log_in_the_order_in_which_they_were_handed_in(log: JobLog) -> None:
    specs = [JobSpec("import", key=f"k{number}") for number in range(MAX_BATCH + 10)]

    answers = log.submit_many(spec for spec in specs)

    assert [event.stream_id for event in whole_log(log.store)] == [spec.job_id for spec in specs]
    assert answers == [(spec.job_id, True, position) for position, spec in enumerate(specs, 1)]


def test_they_travel_in_as_few_transactions_as_possible(log: JobLog) -> None:
    before = log.writer.batches

    log.submit_many([JobSpec("import") for _ in range(100)])

    assert log.writer.batches == before + 1


def test_of_very_many_one_group_is_written_while_the_next_is_made(log: JobLog, monkeypatch: pytest.MonkeyPatch) -> None:
    written, make = Event(), log._offered

    def make_late(specs: Sequence[JobSpec], start: int, refused: dict[int, JobLogError]) -> list[Append]:
        assert start == 0 or written.wait(BOUND)
        return make(specs, start, refused)

    monkeypatch.setattr(log, "_offered", make_late)
    with armed("append.after_commit", written.set):
        answers = log.submit_many([JobSpec("import") for _ in range(GROUP + 1)])

    assert all(map(created, answers))
    assert log.store.head() == GROUP + 1


def test_a_log_that_is_closed_meanwhile_says_so_of_those_that_came_too_late(
    log: JobLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = log._offered

    def make_late(specs: Sequence[JobSpec], start: int, refused: dict[int, JobLogError]) -> list[Append]:
        if start:
            assert Side(log.close).is_done(BOUND)
        return make(specs, start, refused)

    monkeypatch.setattr(log, "_offered", make_late)
    answers = log.submit_many([JobSpec("import") for _ in range(GROUP + 1)])

    assert isinstance(answers.pop(), StoreClosedError)
    assert all(map(created, answers))
    assert [answer.position for answer in answers if isinstance(answer, Submitted)] == list(range(1, GROUP + 1))


@pytest.mark.parametrize("size", [3, 2 * GROUP + 3])
def test_what_became_a_secret_since_is_refused_in_its_place(log: JobLog, size: int) -> None:
    specs = [JobSpec("import", {"n": number}, key=f"k{number}") for number in range(size)]
    specs[1] = JobSpec("import", {"n": "a-value-of-length"}, key="k1")
    withheld.withhold("env:LATE", "a-value-of-length")
    try:
        answers = log.submit_many([*specs, specs[0]])
    finally:
        withheld.forget()

    assert isinstance(answers[1], SecretInInputError)
    assert answers[-1] == (specs[0].job_id, False, 1)
    assert answers[0] == (specs[0].job_id, True, 1)
    assert answers[2:-1] == [(spec.job_id, True, position) for position, spec in enumerate(specs[2:], 2)]
    assert log.store.head() == size - 1


def test_a_bad_spec_is_refused_where_it_is_made(log: JobLog) -> None:
    """So that a list of specs can't hold one."""
    with pytest.raises(InvalidFieldError, match="priority"):
        log.submit_many(JobSpec("import", priority=priority) for priority in (0, 10))
    assert log.store.head() == 0


def test_what_the_store_cannot_take_is_refused_for_each(log: JobLog) -> None:
    def fill() -> None:
        raise StoreFullError("disk full")

    with armed("append.begin", fill):
        answers = log.submit_many([JobSpec("import", key=f"k{number}") for number in range(3)])

    assert [type(answer) for answer in answers] == [StoreFullError] * 3
    assert log.store.head() == 0
    assert all(map(created, log.submit_many([JobSpec("import", key=f"k{number}") for number in range(3)])))


def test_a_batch_whose_answer_is_lost_is_found_in_the_log(log: JobLog, backend: Backend) -> None:
    specs = [JobSpec("import", key=f"k{number}") for number in range(3)]

    with armed("append.after_commit", once(backend.lost())):
        answers = log.submit_many(specs)

    assert answers == [(spec.job_id, True, position) for position, spec in enumerate(specs, 1)]
    assert log.store.head() == 3


def test_a_batch_that_is_stored_before_the_store_goes_away_is_not_said_to_be_refused(
    log: JobLog, backend: Backend
) -> None:
    """S2: "nothing was written" may be said only if nothing was."""
    specs = [JobSpec("import", key=f"k{number}") for number in range(3)]
    passed = count()

    def fill() -> None:
        if next(passed):
            raise StoreFullError("disk full")

    with armed("append.begin", fill), armed("append.after_commit", once(backend.lost())):
        answers = log.submit_many(specs)

    assert {type(answer) for answer in answers} <= {UnknownOutcomeError, Submitted}
    assert log.store.head() == 3


def test_rivals_with_the_same_keys_make_each_job_once(backend: Backend, log: JobLog) -> None:
    logs = [log, *(backend.open() for _ in range(3))]
    specs = [JobSpec("import", key=f"k{number}") for number in range(30)]
    start = Barrier(len(logs))

    def hand_in(log: JobLog) -> list[Submitted | JobLogError]:
        start.wait()
        return log.submit_many(specs)

    sides = [Side(lambda log=log: hand_in(log)) for log in logs]  # type: ignore[misc]
    answers = [side.result() for side in sides]

    for spec, given in zip(specs, zip(*answers, strict=True), strict=True):
        assert sum(created(answer) for answer in given) == 1
        assert {answer.job_id for answer in given} == {spec.job_id}
        assert len({answer.position for answer in given}) == 1
    assert log.store.head() == 30
