"""Commands to all jobs that a queue has: with a cut-off, with a generation, and to be sent again after a crash."""

from uuid import UUID

import pytest

from joblog.domain.errors import ForbiddenError, InvalidFieldError, RequestConflictError
from joblog.domain.identity import queue_stream
from joblog.workers.commands import queueing
from joblog.workers.commands.answers import BulkAnswer
from joblog.workers.commands.log import JobLog
from tests.clocks import START
from tests.conformance.backends import Backend
from tests.conformance.builders import claim, claimed, submit
from tests.workers.commands.builders import HOUR, an_actor, future, in_status, last, status, statuses, told, topics

REQUEST = "cancel-everything-of-this-queue"


EVERY = ("running", "waiting", "paused", "failed", "completed", "cancelled", "queued")


@pytest.mark.parametrize(
    ("action", "after", "done"),
    [
        ("pause", ["running", "paused", "paused", "failed", "completed", "cancelled", "paused"], 3),
        ("resume", ["running", "waiting", "queued", "failed", "completed", "cancelled", "queued"], 1),
        ("retry", ["running", "waiting", "queued", "queued", "completed", "cancelled", "queued"], 2),
        ("cancel", ["running", "cancelled", "cancelled", "failed", "completed", "cancelled", "cancelled"], 4),
    ],
)
def test_each_action_reaches_the_jobs_that_it_fits(log: JobLog, action: str, after: list[str], done: int) -> None:
    jobs = [in_status(log, name) for name in EVERY]
    log.command_queue("other", "cancel", an_actor())
    running = claimed(log, queue="elsewhere").job_id

    answer = log.command_queue("default", action, an_actor())

    assert answer == BulkAnswer(generation=1, done=done, refused=0, superseded=False)
    assert statuses(log, jobs) == after
    assert log.row(jobs[0])["wish"] == (action if action in {"pause", "cancel"} else "")
    assert log.row(running)["version"] == 2
    assert told(log) == ["opened", "bulk-commanded", "bulk-finished"]


def test_a_job_that_does_not_let_itself_be_commanded_is_counted_as_refused(log: JobLog) -> None:
    asked = [in_status(log, "running, to cancel") for _ in range(2)]
    fine = submit(log)

    answer = log.command_queue("default", "cancel", an_actor())

    assert answer == (1, 1, 2, False)
    assert statuses(log, [*asked, fine]) == ["running", "running", "cancelled"]


def test_jobs_of_newer_code_are_refused_and_stop_nobody(log: JobLog) -> None:
    newer, fine = submit(log), submit(log)
    future(log, newer)

    assert log.command_queue("default", "cancel", an_actor()) == (1, 1, 1, False)
    assert statuses(log, [newer, fine]) == ["queued", "cancelled"]


def test_jobs_that_come_later_are_left(log: JobLog) -> None:
    """CTL-03: the cut-off is the position of the command, whenever the job is reached."""
    early = [submit(log) for _ in range(3)]
    late: list[UUID] = []

    def may() -> bool:
        if len(late) < 10:
            late.append(submit(log, priority=0))
        return True

    log.command_queue("default", "cancel", an_actor(), may=may)

    first, *others = late  # submitted right before the command itself was appended
    assert statuses(log, [*early, first]) == ["cancelled"] * 4
    assert set(statuses(log, others)) == {"queued"}


def test_many_pages_of_jobs_are_reached(log: JobLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queueing, "_PAGE", 3)
    jobs = [submit(log) for _ in range(11)]

    assert log.command_queue("default", "pause", an_actor()).done == 11
    assert set(statuses(log, jobs)) == {"paused"}
    assert log.command_queue("default", "resume", an_actor()).done == 11


def test_a_job_that_changes_its_status_under_way_is_reached_all_the_same(log: JobLog, backend: Backend) -> None:
    """It was running while the queued ones were looked for, and queued while the running ones were."""
    held = claimed(log)
    others = [submit(log) for _ in range(3)]
    worker = backend.open()
    moved: list[int] = []

    def may() -> bool:
        if log.row(others[0])["status"] == "cancelled" and not moved:
            moved.append(worker.row(held.job_id)["version"])
            held.release("yield")
        return True

    answer = log.command_queue("default", "cancel", an_actor(), may=may)

    assert moved
    assert (answer.done, answer.refused) == (4, 0)
    assert status(log, held.job_id) == ("cancelled", "cancelled")


def test_a_job_that_comes_back_all_the_time_is_commanded_once(log: JobLog, backend: Backend) -> None:
    held = claimed(log)
    log.command_queue("default", "pause", an_actor())
    held.release("yield")

    assert topics(log, held.job_id).count("pause-requested") == 1


def test_the_same_request_again_gives_the_first_answer(log: JobLog) -> None:
    job_id = submit(log)
    first = log.command_queue("default", "pause", an_actor(request=REQUEST))
    log.command("resume", job_id, an_actor())
    submit(log)

    assert log.command_queue("default", "pause", an_actor(request=REQUEST)) == first == (1, 1, 0, False)
    assert log.row(job_id)["status"] == "queued"


def test_a_command_that_was_finished_is_not_superseded_by_a_later_one(log: JobLog) -> None:
    in_status(log, "running, to cancel")
    submit(log)
    first = log.command_queue("default", "pause", an_actor(request=REQUEST))
    log.command_queue("default", "resume", an_actor())

    assert log.command_queue("default", "pause", an_actor(request=REQUEST)) == first == (1, 1, 1, False)
    assert told(log).count("bulk-finished") == 2


def test_two_commands_whose_request_ids_begin_alike_are_two(log: JobLog) -> None:
    job_id = submit(log)
    names = [f"nightly-run-of-the-imports-2030-01-01-{number}" for number in range(3)]

    for action, request in zip(("pause", "resume", "pause"), names, strict=True):
        assert log.command_queue("default", action, an_actor(request=request)).done == 1
    assert status(log, job_id) == ("paused", "operator")


@pytest.mark.parametrize("length", [20, 60, 64])
def test_a_request_id_of_any_length_will_do(log: JobLog, length: int) -> None:
    submit(log)
    actor = an_actor(request="r" * length)

    assert log.command_queue("default", "pause", actor) == log.command_queue("default", "pause", actor)


def test_a_right_that_was_withdrawn_meanwhile_stops_it(log: JobLog) -> None:
    """CTL-07: before the command itself, or between two jobs."""
    jobs = [submit(log) for _ in range(3)]
    with pytest.raises(ForbiddenError):
        log.command_queue("default", "cancel", an_actor(), may=lambda: False)
    assert (told(log), set(statuses(log, jobs))) == ([], {"queued"})

    rights = iter([True, True, False])
    with pytest.raises(ForbiddenError):
        log.command_queue("default", "cancel", an_actor(), may=lambda: next(rights))
    assert sorted(statuses(log, jobs)) == ["cancelled", "queued", "queued"]


def test_there_are_no_other_actions(log: JobLog) -> None:
    with pytest.raises(InvalidFieldError, match="use one of cancel, retry, pause, resume"):
        log.command_queue("default", "delete", an_actor())
    assert told(log) == []


def test_a_request_id_that_stands_for_another_command_is_refused(log: JobLog) -> None:
    log.command_queue("default", "pause", an_actor(request=REQUEST))

    with pytest.raises(RequestConflictError):
        log.command_queue("default", "cancel", an_actor(request=REQUEST))
    with pytest.raises(RequestConflictError):
        log.command_queue("other", "pause", an_actor(request=REQUEST))


def test_an_empty_queue_can_be_commanded(log: JobLog) -> None:
    assert log.command_queue("default", "cancel", an_actor()) == (1, 0, 0, False)
    assert told(log) == ["opened", "bulk-commanded", "bulk-finished"]


def test_the_history_keeps_the_counts(log: JobLog) -> None:
    """CTL-07."""
    submit(log)
    in_status(log, "running, to cancel")
    log.command_queue("default", "cancel", an_actor("bob"))

    said = last(log, queue_stream("default"))
    assert (said["actor"], said["done"], said["refused"], said["generation"]) == ("bob", 1, 1, 1)


def test_a_job_of_the_future_is_reached_too(log: JobLog) -> None:
    job_id = submit(log, due_at=START + HOUR)

    log.command_queue("default", "cancel", an_actor())

    assert log.row(job_id)["status"] == "cancelled"
    assert claim(log) == []
