"""A bulk command that was killed goes on when it is sent again, unless a newer one stands (CTL-04)."""

from collections.abc import Callable

import pytest

from joblog.workers.commands import queueing
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import submit
from tests.workers.commands.builders import an_actor, claim_again, in_status, status, statuses, told, topics

REQUEST = "cancel-everything-of-this-queue"


class Killed(Exception):  # noqa: N818 - what a test raises where a process would be killed
    pass


def dying_after(count: int) -> Callable[[], bool]:
    """A right that is asked for *count* times, then the process dies."""
    left = [None] * count

    def may() -> bool:
        if not left:
            raise Killed
        left.pop()
        return True

    return may


def test_a_retry_of_all_leaves_what_fails_later(log: JobLog) -> None:
    failed = in_status(log, "failed")
    later = submit(log)
    actor = an_actor(request=REQUEST)
    with pytest.raises(Killed):
        log.command_queue("default", "retry", actor, may=dying_after(1))
    claim_again(log, later).fail(reason="bad", text="")

    log.command_queue("default", "retry", actor)

    assert statuses(log, [failed, later]) == ["queued", "queued"]
    newest = submit(log)
    claim_again(log, newest).fail(reason="bad", text="")
    log.command_queue("default", "retry", actor)
    assert status(log, newest) == ("failed", "bad")


@pytest.mark.parametrize("after", [1, 2, 3, 4])
def test_a_bulk_command_that_was_interrupted_goes_on(log: JobLog, backend: Backend, after: int) -> None:
    """Killed after some jobs, then sent again by another process: each job once, and all of them counted."""
    jobs = [submit(log) for _ in range(4)]
    actor = an_actor(request=REQUEST)
    with pytest.raises(Killed):
        log.command_queue("default", "pause", actor, may=dying_after(after))
    assert statuses(log, jobs).count("paused") == after - 1

    again = backend.open()
    answer = again.command_queue("default", "pause", actor)

    assert answer == (1, 4, 0, False)
    assert set(statuses(again, jobs)) == {"paused"}
    assert [topics(again, job) for job in jobs] == [["submitted", "paused"]] * 4
    assert told(again) == ["opened", "bulk-commanded", "bulk-finished"]


def test_a_bulk_command_that_only_lacked_its_end_gets_it(log: JobLog, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: object) -> None:
        raise Killed

    jobs = [submit(log) for _ in range(3)]
    actor = an_actor(request=REQUEST)
    with monkeypatch.context() as patched:
        patched.setattr(queueing, "_finish", die)
        with pytest.raises(Killed):
            log.command_queue("default", "cancel", actor)
    assert set(statuses(log, jobs)) == {"cancelled"}

    assert log.command_queue("default", "cancel", actor) == (1, 3, 0, False)
    assert told(log) == ["opened", "bulk-commanded", "bulk-finished"]


def test_a_bulk_command_that_was_interrupted_touches_no_job_twice(log: JobLog) -> None:
    """What an operator did to one of its jobs meanwhile stands."""
    jobs = [submit(log) for _ in range(3)]
    actor = an_actor(request=REQUEST)
    with pytest.raises(Killed):
        log.command_queue("default", "pause", actor, may=dying_after(3))
    done = [job for job in jobs if log.row(job)["status"] == "paused"]
    log.command("resume", done[0], an_actor())

    answer = log.command_queue("default", "pause", actor)

    assert answer.done == 3
    assert log.row(done[0])["status"] == "queued"
    assert sorted(statuses(log, jobs)) == ["paused", "paused", "queued"]


def test_a_newer_command_supersedes_an_interrupted_older_one(log: JobLog) -> None:
    """CTL-04: crash command 1 after its receipt, run command 2, send 1 again: "superseded", no effect."""
    jobs = [submit(log) for _ in range(3)]
    old = an_actor(request=REQUEST)
    with pytest.raises(Killed):
        log.command_queue("default", "cancel", old, may=dying_after(2))
    assert statuses(log, jobs).count("cancelled") == 1

    newer = log.command_queue("default", "pause", an_actor())
    answer = log.command_queue("default", "cancel", old)

    assert newer == (2, 2, 0, False)
    assert (answer.superseded, answer.generation) == (True, 1)
    assert sorted(statuses(log, jobs)) == ["cancelled", "paused", "paused"]


def test_an_older_command_stops_as_soon_as_a_newer_one_stands(log: JobLog, backend: Backend) -> None:
    jobs = [submit(log) for _ in range(4)]
    other = backend.open()
    rounds: list[int] = []

    def may() -> bool:
        rounds.append(1)
        if len(rounds) == 3:
            other.command_queue("default", "pause", an_actor())
        return True

    answer = log.command_queue("default", "cancel", an_actor(), may=may)

    assert answer.superseded
    assert statuses(log, jobs).count("paused") >= 2
    assert statuses(log, jobs).count("cancelled") <= 2


def test_a_pause_of_the_queue_itself_supersedes_no_command_to_its_jobs(log: JobLog) -> None:
    jobs = [submit(log) for _ in range(3)]
    actor = an_actor(request=REQUEST)
    with pytest.raises(Killed):
        log.command_queue("default", "cancel", actor, may=dying_after(2))
    log.control_queue("default", "pause", an_actor())

    assert log.command_queue("default", "cancel", actor) == (1, 3, 0, False)
    assert set(statuses(log, jobs)) == {"cancelled"}
