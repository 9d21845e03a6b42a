"""A queue's pause that lasts, and its limit (CTL-05)."""

from threading import Barrier
from typing import Any

import pytest

from joblog.domain.errors import ForbiddenError, InputError, InvalidFieldError, RequestConflictError
from joblog.domain.identity import queue_stream
from joblog.domain.job import Actor
from joblog.workers.commands import queueing
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import Side, armed, claim, claimed, ids, once, submit
from tests.workers.commands.builders import an_actor, topics, units

REQUEST = "please-pause-this-queue"


def told(log: JobLog, queue: str = "default") -> list[str]:
    return [row.topic.removeprefix("joblog.queue.") for row in log.store.read(queue_stream(queue))]


def state(queue: str = "default", *, paused: bool = False, slots: int | None = None, generation: int) -> dict[str, Any]:
    return {"queue": queue, "paused": paused, "slots": slots, "generation": generation}


def test_a_paused_queue_holds_present_and_future_jobs(log: JobLog) -> None:
    job_id = submit(log)
    elsewhere = submit(log, queue="other")

    assert log.control_queue("default", "pause", an_actor()) == state(paused=True, generation=1)

    later = submit(log)
    assert ids(claim(log, queues=["default", "other"])) == [elsewhere]
    log.control_queue("default", "resume", an_actor())
    assert set(ids(claim(log))) == {job_id, later}


def test_a_pause_survives_an_empty_queue_and_a_restart(log: JobLog, backend: Backend) -> None:
    log.control_queue("default", "pause", an_actor())
    again = backend.reopen(log)

    submit(again)

    assert claim(again) == []
    queue = queueing.load(again, "default")
    assert queue is not None
    assert (queue.paused, queue.name) == (True, "default")


def test_a_cancel_does_not_lift_a_pause(log: JobLog) -> None:
    submit(log)
    log.control_queue("default", "pause", an_actor())

    log.command_queue("default", "cancel", an_actor())

    later = submit(log)
    assert claim(log) == []
    log.control_queue("default", "resume", an_actor())
    assert ids(claim(log)) == [later]


def test_a_pause_lets_running_jobs_go_on(log: JobLog) -> None:
    held = claimed(log)
    log.control_queue("default", "pause", an_actor())

    held.complete_units(units("a"))
    held.complete()

    assert log.row(held.job_id)["status"] == "completed"


def test_a_limit_counts_what_runs_in_all_processes(log: JobLog, backend: Backend) -> None:
    for _ in range(4):
        submit(log)
    other = backend.open()
    assert log.control_queue("default", "limit", an_actor(), slots=2) == state(slots=2, generation=1)

    first = claim(log, limit=1) + claim(other)
    assert len(first) == 2
    assert claim(log) == claim(other) == []
    first[0].release("yield")
    assert len(claim(other)) == 1

    log.control_queue("default", "limit", an_actor(), slots=None)
    assert len(claim(log)) == 2


def test_no_slots_at_all_hold_everything(log: JobLog) -> None:
    submit(log)
    log.control_queue("default", "limit", an_actor(), slots=0)

    assert claim(log) == []


def test_pause_and_limit_are_independent(log: JobLog) -> None:
    log.control_queue("default", "limit", an_actor(), slots=3)
    log.control_queue("default", "pause", an_actor())

    assert log.control_queue("default", "resume", an_actor()) == state(slots=3, generation=3)
    assert log.store.queue_rows()["default"] == {"paused": False, "slots": 3, "generation": 3}
    assert told(log) == ["opened", "limited", "paused", "resumed"]


def test_the_history_of_a_queue_shows_who_did_what(log: JobLog) -> None:
    log.control_queue("default", "pause", an_actor("bob", REQUEST))

    stream = queue_stream("default")
    said = vars(log.mapper.decode_all(stream, log.store.read(stream))[-1])
    assert (said["actor"], said["request_id"], said["queue"], said["timestamp"]) == (
        "bob",
        REQUEST,
        "default",
        log.now(),
    )


def test_the_same_request_again_gives_the_first_answer(log: JobLog) -> None:
    first = log.control_queue("default", "limit", an_actor(request=REQUEST), slots=2)
    log.control_queue("default", "limit", an_actor(), slots=5)

    assert log.control_queue("default", "limit", an_actor(request=REQUEST), slots=2) == first
    assert log.store.queue_rows()["default"]["slots"] == 5


@pytest.mark.parametrize(
    ("queue", "action", "actor"), [("other", "pause", "ada"), ("default", "resume", "ada"), ("default", "pause", "bob")]
)
def test_a_request_id_that_stands_for_another_command_is_refused(
    log: JobLog, queue: str, action: str, actor: str
) -> None:
    log.control_queue("default", "pause", an_actor(request=REQUEST))

    with pytest.raises(RequestConflictError):
        log.control_queue(queue, action, an_actor(actor, REQUEST))
    with pytest.raises(RequestConflictError):
        log.command("pause", submit(log), an_actor(request=REQUEST))


@pytest.mark.parametrize("action", ["", "paus", "cancel", "limits"])
def test_there_are_no_other_actions(log: JobLog, action: str) -> None:
    """A slip of the pen must not become a limit that is lifted."""
    log.control_queue("default", "limit", an_actor(), slots=1)

    with pytest.raises(InvalidFieldError, match="use one of pause, resume, limit"):
        log.control_queue("default", action, an_actor())
    assert log.store.queue_rows()["default"]["slots"] == 1


@pytest.mark.parametrize("slots", [-1, 1.5, "2", True])
def test_slots_are_a_count(log: JobLog, slots: Any) -> None:
    with pytest.raises(InvalidFieldError, match="slots"):
        log.control_queue("default", "limit", an_actor(), slots=slots)
    assert told(log) == []


@pytest.mark.parametrize("queue", ["", "x" * 201, "a\0"])
def test_a_queue_has_a_name(log: JobLog, queue: str) -> None:
    with pytest.raises(InputError, match="queue"):
        log.control_queue(queue, "pause", an_actor())
    with pytest.raises(InputError, match="queue"):
        log.command_queue(queue, "pause", an_actor())


def test_a_request_id_is_checked(log: JobLog) -> None:
    with pytest.raises(InvalidFieldError, match="request_id"):
        log.control_queue("default", "pause", Actor("ada", "short"))


def test_a_right_that_was_withdrawn_meanwhile_counts(log: JobLog) -> None:
    with pytest.raises(ForbiddenError, match="ada may not"):
        log.control_queue("default", "pause", an_actor(), may=lambda: False)
    assert told(log) == []


def test_a_queue_that_was_never_touched_is_none(log: JobLog) -> None:
    submit(log)

    assert queueing.load(log, "default") is None
    assert log.store.queue_rows() == {}


def test_commands_from_many_sides_are_numbered_as_one(backend: Backend, log: JobLog) -> None:
    logs = [log, *(backend.open() for _ in range(2))]
    start = Barrier(len(logs))

    def command(log: JobLog) -> list[int]:
        start.wait()
        return [log.control_queue("default", "limit", an_actor(), slots=n)["generation"] for n in range(3)]

    sides = [Side(lambda log=log: command(log)) for log in logs]  # type: ignore[misc]
    generations = [generation for side in sides for generation in side.result()]

    assert sorted(generations) == list(range(1, 10))
    assert told(log) == ["opened", *["limited"] * 9]
    assert log.store.queue_rows()["default"]["generation"] == 9


def test_an_answer_that_was_lost_is_found(log: JobLog, backend: Backend) -> None:
    with armed("append.after_commit", once(backend.lost())):
        assert log.control_queue("default", "pause", an_actor()) == state(paused=True, generation=1)
    assert told(log) == ["opened", "paused"]


def test_a_queues_events_are_no_jobs(log: JobLog) -> None:
    log.control_queue("default", "pause", an_actor())

    assert log.store.find_jobs() == []
    assert topics(log, queue_stream("default")) == ["joblog.queue.opened", "joblog.queue.paused"]
