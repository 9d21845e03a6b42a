"""A command is done once per request id, whatever happens to its answer (CTL-01, CTL-06, STA-13)."""

from threading import Barrier

import pytest

from joblog.domain.errors import InvalidFieldError, JobLogError, RequestConflictError, StateError, UnknownOutcomeError
from joblog.domain.job import Actor
from joblog.domain.retry import RetryPolicy
from joblog.workers.commands.answers import Commanded
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import Side, armed, claim, once, submit
from tests.workers.commands.builders import an_actor, claim_again, in_status, last, status, topics

REQUEST = "please-pause-this-import"


def test_the_same_request_again_gives_the_first_answer(log: JobLog) -> None:
    job_id = submit(log)
    first = log.command("pause", job_id, an_actor(request=REQUEST))
    log.command("resume", job_id, an_actor())
    before = topics(log, job_id)

    again = log.command("pause", job_id, an_actor(request=REQUEST))

    assert first == (job_id, "paused", "", 2, False)
    assert again == (job_id, "paused", "", 2, True)
    assert topics(log, job_id) == before


def test_the_answer_outlives_the_process(log: JobLog, backend: Backend) -> None:
    job_id = submit(log)
    log.command("cancel", job_id, an_actor(request=REQUEST))

    again = backend.reopen(log).command("cancel", job_id, an_actor(request=REQUEST))

    assert again == (job_id, "cancelled", "", 2, True)


@pytest.mark.parametrize("other", ["action", "job", "actor"])
def test_a_request_id_that_stands_for_another_command_is_refused(log: JobLog, other: str) -> None:
    job_id = submit(log)
    log.command("pause", job_id, an_actor(request=REQUEST))

    with pytest.raises(RequestConflictError, match="use a new one"):
        log.command(
            "cancel" if other == "action" else "pause",
            submit(log) if other == "job" else job_id,
            an_actor("bob" if other == "actor" else "ada", REQUEST),
        )
    assert topics(log, job_id) == ["submitted", "paused"]


def test_a_refused_command_does_not_use_its_request_id_up(log: JobLog) -> None:
    job_id = submit(log)
    with pytest.raises(StateError):
        log.command("resume", job_id, an_actor(request=REQUEST))
    log.command("pause", job_id, an_actor())

    assert log.command("resume", job_id, an_actor(request=REQUEST)).repeated is False


def test_without_a_request_id_each_is_a_command_of_its_own(log: JobLog) -> None:
    job_id = submit(log)
    log.command("pause", job_id, an_actor())
    log.command("resume", job_id, an_actor())
    log.command("pause", job_id, an_actor())

    ids = [vars(event)["request_id"] for event in log.mapper.decode_all(job_id, log.store.read(job_id))[1:]]
    assert len(set(ids)) == 3
    assert all(20 <= len(one) <= 64 for one in ids)


@pytest.mark.parametrize("request_id", ["x" * 19, "x" * 65, "x" * 20 + " ", "x" * 20 + "\n", "ä" * 20, "x/" * 15])
def test_a_request_id_is_20_to_64_safe_characters(log: JobLog, request_id: str) -> None:
    job_id = submit(log)

    with pytest.raises((InvalidFieldError, JobLogError)):
        log.command("pause", job_id, Actor("ada", request_id))
    assert topics(log, job_id) == ["submitted"]


@pytest.mark.parametrize("request_id", ["x" * 20, "x" * 64, "a.b_c:d-0123456789ABCDEF"])
def test_these_are_taken(log: JobLog, request_id: str) -> None:
    job_id = submit(log)

    assert log.command("pause", job_id, Actor("ada", request_id)).repeated is False
    assert last(log, job_id)["request_id"] == request_id


def test_an_answer_that_was_lost_is_found(log: JobLog, backend: Backend) -> None:
    job_id = submit(log)

    with armed("append.after_commit", once(backend.lost())):
        answer = log.command("pause", job_id, an_actor(request=REQUEST))

    assert answer == (job_id, "paused", "", 2, False)
    assert topics(log, job_id) == ["submitted", "paused"]


def test_an_unknown_outcome_is_cleared_up_by_the_same_request(log: JobLog, backend: Backend) -> None:
    job_id = submit(log)

    def lose() -> None:
        raise backend.lost()

    point = "append.begin" if backend.kind == "memory" else "append.before_commit"
    with armed(point, lose), pytest.raises(UnknownOutcomeError):
        log.command("pause", job_id, an_actor(request=REQUEST))

    assert log.command("pause", job_id, an_actor(request=REQUEST)).repeated is False
    assert log.command("pause", job_id, an_actor(request=REQUEST)).repeated is True
    assert topics(log, job_id) == ["submitted", "paused"]


def test_the_same_request_from_many_sides_at_once_is_done_once(backend: Backend, log: JobLog) -> None:
    logs = [log, *(backend.open() for _ in range(3))]
    jobs = [submit(log) for _ in range(10)]
    start = Barrier(len(logs))

    def command(log: JobLog) -> list[Commanded]:
        answers = []
        for number, job_id in enumerate(jobs):
            start.wait()
            answers.append(log.command("pause", job_id, an_actor(request=f"{REQUEST}-{number}")))
        return answers

    sides = [Side(lambda log=log: command(log)) for log in logs]  # type: ignore[misc]
    answers = list(zip(*[side.result() for side in sides], strict=True))

    for job_id, given in zip(jobs, answers, strict=True):
        assert {answer[:4] for answer in given} == {(job_id, "paused", "", 2)}
        assert sum(not answer.repeated for answer in given) == 1
        assert topics(log, job_id) == ["submitted", "paused"]


def test_a_twin_that_comes_between_the_look_and_the_command_is_the_first(backend: Backend, log: JobLog) -> None:
    job_id = submit(log)
    other = backend.open()
    look = log.store.receipt
    looks: list[str] = []

    def slow(request_id: str) -> tuple[str, str, str, str] | None:
        found = look(request_id)
        looks.append(request_id)
        if len(looks) == 1:  # in memory the other has the same store
            other.command("pause", job_id, an_actor(request=REQUEST))
        return found

    log.store.receipt = slow  # type: ignore[method-assign]
    answer = log.command("pause", job_id, an_actor(request=REQUEST))
    log.store.receipt = look  # type: ignore[method-assign]

    assert answer == (job_id, "paused", "", 2, True)
    assert topics(log, job_id) == ["submitted", "paused"]


def test_a_retry_that_is_sent_twice_resets_once(log: JobLog) -> None:
    """STA-13: with a failure in between."""
    job_id = in_status(log, "failed")
    log.command("retry", job_id, an_actor(request=REQUEST))
    [held] = claim(log)
    held.fail(reason="invalid-input", text="still not there")

    again = log.command("retry", job_id, an_actor(request=REQUEST))

    assert (again.status, again.repeated) == ("queued", True)
    assert status(log, job_id) == ("failed", "invalid-input")
    assert (log.job(job_id).cycle, log.row(job_id)["failures"]) == (2, 2)


def test_a_retry_with_another_request_id_is_another_one(log: JobLog) -> None:
    job_id = submit(log, retry=RetryPolicy(retries=0))
    for cycle in (1, 2):
        held = claim_again(log, job_id)
        assert held.attempt_unit("a") == 1
        assert held.job.cycle == cycle
        held.fail(reason="attempts-exhausted", text="")
        log.command("retry", job_id, an_actor(request=f"{REQUEST}-{cycle}"))
    assert log.job(job_id).cycle == 3
