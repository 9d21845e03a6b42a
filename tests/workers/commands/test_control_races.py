"""Commands to a job that moves meanwhile: decided again, alone with it at the second try."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from threading import Event

import pytest

from joblog.domain.errors import (
    ForbiddenError,
    SupersededError,
    VersionConflictError,
)
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import Side, claimed, submit, unit_append
from tests.workers.commands.builders import an_actor, assert_sound, die, status, topics


def test_a_command_for_a_version_is_not_decided_again_on_another(log: JobLog, backend: Backend) -> None:
    """The job moves between the look and the append."""
    job_id = submit(log)
    other = backend.open()

    def come_between() -> bool:
        if log.row(job_id)["version"] == 1:
            other.command("pause", job_id, an_actor())
        return True

    with pytest.raises(VersionConflictError):
        log.command("cancel", job_id, an_actor(), if_version=1, may=come_between)
    assert status(log, job_id) == ("paused", "operator")


def test_a_right_is_asked_for_again_before_each_try(log: JobLog, backend: Backend) -> None:
    job_id = submit(log)
    other = backend.open()

    def rights() -> Iterator[bool]:
        other.command("pause", job_id, an_actor())
        yield True
        yield False

    right = rights()
    with pytest.raises(ForbiddenError):
        log.command("cancel", job_id, an_actor(), may=lambda: next(right))
    assert status(log, job_id) == ("paused", "operator")


def test_a_command_is_decided_again_when_the_job_moved_on(log: JobLog, backend: Backend) -> None:
    job_id = submit(log)
    other = backend.open()

    def come_between() -> bool:
        if log.row(job_id)["version"] == 1:
            other.claim("w")
        return True

    answer = log.command("cancel", job_id, an_actor(), may=come_between)

    assert answer == (job_id, "running", "cancel", 3, False)


@pytest.mark.parametrize("where", ["in this process", "in another"])
def test_a_job_that_never_stands_still_can_be_commanded(database: Backend, where: str) -> None:
    """The second try has the job to itself: else a busy worker would be there first each time."""
    log = database.open()
    operator = log if where == "in this process" else database.open()
    held = claimed(log)
    stop = Event()

    def work() -> None:
        for number in count():
            if stop.is_set():
                return
            with suppress(VersionConflictError):  # the operator was there first, four times in a row
                held.complete_units([(str(number), number)])

    worker = Side(work)
    answers = [operator.command(action, held.job_id, an_actor()) for action in ("pause", "resume") * 10]
    stop.set()
    worker.result()

    assert [answer.wish for answer in answers] == ["pause", ""] * 10
    assert_sound(log)


def test_the_second_try_keeps_everybody_else_waiting(database: Backend) -> None:
    log, other = database.open(), database.open()
    held = claimed(log)
    sides: list[Side] = []

    def may() -> bool:
        if not sides:
            held.complete_units([("a", 1)])
            sides.append(Side(lambda: None))
        else:
            append = unit_append(other, held, "b")  # for the version that the command is decided on
            sides.append(Side(lambda: other.writer.append(append)))
        return True

    answer = log.command("pause", held.job_id, an_actor(), may=may)

    assert (answer.version, len(sides)) == (5, 2)
    assert isinstance(sides[1].result(), VersionConflictError)
    assert topics(log, held.job_id)[2:] == ["unit-completed", "checkpoint-advanced", "pause-requested"]


def test_a_right_that_is_withdrawn_at_the_second_try_undoes_it(database: Backend) -> None:
    log, other = database.open(), database.open()
    job_id = submit(log)
    rights = iter([True, False])

    def may() -> bool:
        if log.row(job_id)["version"] == 1:
            other.command("pause", job_id, an_actor())
        return next(rights)

    with pytest.raises(ForbiddenError):
        log.command("cancel", job_id, an_actor(), may=may)
    assert topics(log, job_id) == ["submitted", "paused"]
    assert log.command("cancel", job_id, an_actor()).status == "cancelled"


@pytest.mark.parametrize("first", ["resume", "cancel"])
def test_an_old_resume_can_not_lift_a_newer_cancel(log: JobLog, backend: Backend, first: str) -> None:
    """STA-11: in either order the cancel stands."""
    held = claimed(log)
    log.command("pause", held.job_id, an_actor())
    if first == "resume":
        log.command("resume", held.job_id, an_actor())
        log.command("cancel", held.job_id, an_actor())
    else:
        log.command("cancel", held.job_id, an_actor())
        with pytest.raises(SupersededError):
            log.command("resume", held.job_id, an_actor())
    die(log, backend)

    assert status(log, held.job_id) == ("cancelled", "cancelled")
