"""A child's end wakes its waiting parent in the same commit; a cancel goes down to the children."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from joblog.domain.errors import JobLogError, JobNotFoundError, StoreUnavailableError
from joblog.domain.job import CRASH_LIMIT, Job
from joblog.domain.status import ENDED
from joblog.eventstore.append import Append
from joblog.eventstore.store import LeaseRow
from joblog.workers.commands import family
from joblog.workers.commands.held import Held
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import claim, claimed, ids, submit, whole_log
from tests.workers.commands.builders import an_actor, claim_again, die, fail_unit, future, last, status, topics, units

REQUEST = "cancel-this-whole-family"


def a_family(log: JobLog, size: int = 1) -> tuple[Held, list[Held]]:
    """A parent that is held, and its children, held too."""
    parent = claimed(log, kind="parent")
    children = [claimed(log, parent_id=parent.job_id, key=f"child-{number}") for number in range(size)]
    return parent, children


def wait(log: JobLog, parent: Held) -> None:
    parent.release("child", due_at=log.now() + timedelta(seconds=60))


ENDS: dict[str, Callable[[JobLog, Held], object]] = {
    "completed": lambda _, child: child.complete({"rows": 1}),
    "failed": lambda _, child: child.fail(reason="bad", text=""),
    "cancelled": lambda log, child: (log.command("cancel", child.job_id, an_actor()), child.release("yield")),
}


@pytest.mark.parametrize("end", ENDS)
def test_the_end_of_a_child_wakes_its_waiting_parent_in_the_same_commit(log: JobLog, end: str) -> None:
    parent, [child] = a_family(log)
    wait(log, parent)
    assert (status(log, parent.job_id)[0], claim(log)) == ("waiting", [])
    before = log.writer.batches

    ENDS[end](log, child)

    said = last(log, parent.job_id)
    assert (topics(log, parent.job_id)[-1], said["child_id"], said["status"]) == ("woken", str(child.job_id), end)
    assert [event.stream_id for event in whole_log(log.store)[-2:]] == [child.job_id, parent.job_id]
    assert log.writer.batches - before <= 1
    assert ids(claim(log)) == [parent.job_id]


def test_a_parent_that_does_not_wait_is_left_alone(log: JobLog) -> None:
    parent, children = a_family(log, 3)
    children[0].complete()
    assert topics(log, parent.job_id) == ["submitted", "claimed"]
    fail_unit(parent)
    children[1].complete()
    assert topics(log, parent.job_id)[-1] == "retry-scheduled"
    log.command("cancel", parent.job_id, an_actor())


def test_a_child_that_only_pauses_wakes_nobody(log: JobLog) -> None:
    parent, [child] = a_family(log)
    wait(log, parent)

    child.park(reason="quota", text="")

    assert topics(log, parent.job_id)[-1] == "lease-released"


def test_a_child_whose_parent_is_not_to_be_found_ends_by_itself(log: JobLog) -> None:
    child = claimed(log, parent_id=UUID(int=7))

    child.complete()

    assert status(log, child.job_id) == ("completed", "")


def test_a_child_whose_parent_only_newer_code_knows_ends_by_itself(log: JobLog) -> None:
    parent, [child] = a_family(log)
    wait(log, parent)
    future(log, parent.job_id)

    child.complete()

    assert status(log, child.job_id) == ("completed", "")


def test_a_parent_that_moves_meanwhile_does_not_stop_its_child(log: JobLog, backend: Backend) -> None:
    """Both are read again; the child's event keeps its id."""
    parent, [child] = a_family(log)
    wait(log, parent)
    other = backend.open()
    write = log.writer.append_atomic
    sent: list[str] = []

    def late(appends: list[Append]) -> Any:
        if not sent:
            other.command("pause", parent.job_id, an_actor())
        sent.append(appends[0].event_id)
        return write(appends)

    log.writer.append_atomic = late  # type: ignore[method-assign]
    child.complete()
    log.writer.append_atomic = write  # type: ignore[method-assign]

    assert status(log, child.job_id) == ("completed", "")
    assert status(log, parent.job_id) == ("paused", "operator")
    assert len(set(sent)) == 1


def test_a_child_that_is_cancelled_by_whoever_finds_it_dead_wakes_its_parent(log: JobLog, backend: Backend) -> None:
    parent, [child] = a_family(log)
    wait(log, parent)
    log.command("cancel", child.job_id, an_actor())

    die(log, backend)

    assert status(log, child.job_id) == ("cancelled", "cancelled")
    assert topics(log, parent.job_id)[-1] == "woken"


def test_a_child_that_ended_before_its_parent_began_to_wait_is_found(log: JobLog) -> None:
    parent, [child] = a_family(log)
    child.complete()
    wait(log, parent)

    family.wake_if_done(log, log.job(parent.job_id))

    assert topics(log, parent.job_id)[-1] == "woken"


LATE_ENDS: dict[str, Callable[[JobLog, Held], object]] = {
    "completed": lambda _, child: child.complete({"rows": 1}),
    "failed": lambda _, child: child.fail(reason="bad", text=""),
    "cancelled": lambda log, child: log.command("cancel", child.job_id, an_actor()),
    "found dead": lambda log, child: log.reclaim(lease_of(log, child), "reaper"),
}


def lease_of(log: JobLog, held: Held) -> LeaseRow:
    lease = log.store.lease(held.job_id)
    assert lease is not None
    return lease


@pytest.mark.parametrize("end", LATE_ENDS)
def test_a_parent_that_began_to_wait_while_the_end_of_its_child_was_on_its_way_is_woken(
    log: JobLog, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """The end was decided when the parent still worked, and stored when the parent had looked at the child in vain."""
    parent, [child] = a_family(log)
    if end == "cancelled":
        child.release("yield")
    elif end == "found dead":
        log.command("cancel", child.job_id, an_actor())
    decide = family.with_parent

    def slowly(*arguments: Any) -> Any:
        decided = decide(*arguments)
        if status(log, parent.job_id)[0] == "running":
            wait(log, parent)
            family.wake_if_done(log, log.job(parent.job_id))
            assert status(log, parent.job_id) == ("waiting", "child")
        return decided

    monkeypatch.setattr(family, "with_parent", slowly)
    LATE_ENDS[end](log, child)

    assert topics(log, parent.job_id)[-1] == "woken"
    assert ids(claim(log)) == [parent.job_id]


@pytest.mark.parametrize("end", LATE_ENDS)
def test_an_end_that_is_stored_is_acknowledged_also_if_nobody_can_look_at_the_parent(
    log: JobLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, end: str
) -> None:
    """S2: the store goes away between the commit and the look; whoever were told of an error would try again."""
    _, [child] = a_family(log)
    if end == "cancelled":
        child.release("yield")
    elif end == "found dead":
        log.command("cancel", child.job_id, an_actor())
    decide = family.with_parent

    def away(*_: Any, **__: Any) -> Job:
        raise StoreUnavailableError("gone")

    def then_away(*arguments: Any) -> Any:
        decided = decide(*arguments)
        monkeypatch.setattr(log, "job", away)
        return decided

    monkeypatch.setattr(family, "with_parent", then_away)
    answer = LATE_ENDS[end](log, child)

    assert not isinstance(answer, JobLogError)
    assert log.row(child.job_id)["status"] in ENDED
    assert "gone" in caplog.text


@pytest.mark.parametrize("before", ["waiting", "queued"])
def test_a_cancel_goes_down_to_the_children_and_theirs(log: JobLog, before: str) -> None:
    parent, [child, done] = a_family(log, 2)
    grandchild = submit(log, parent_id=child.job_id, key="grandchild")
    done.complete()
    child.release("yield")
    wait(log, parent) if before == "waiting" else parent.release("yield")
    other = submit(log)

    log.command("cancel", parent.job_id, an_actor())

    assert [status(log, job)[0] for job in (parent.job_id, child.job_id, grandchild, done.job_id, other)] == [
        "cancelled", "cancelled", "cancelled", "completed", "queued",
    ]  # fmt: skip


def test_a_running_child_is_asked_to_stop(log: JobLog) -> None:
    parent, [child] = a_family(log)
    wait(log, parent)
    log.command("cancel", parent.job_id, an_actor())

    child.complete_units(units("a"))
    assert child.job.wish == "cancel"
    child.release("yield")
    assert status(log, child.job_id) == ("cancelled", "cancelled")


def test_a_parent_that_is_found_dead_and_cancelled_takes_its_children_with_it(log: JobLog, backend: Backend) -> None:
    parent, [child] = a_family(log)
    child.release("yield")
    log.command("cancel", parent.job_id, an_actor())
    assert status(log, child.job_id)[0] == "queued"

    die(log, backend)

    assert [status(log, job)[0] for job in (parent.job_id, child.job_id)] == ["cancelled", "cancelled"]


def test_a_cancel_that_died_before_the_children_goes_on_when_it_is_sent_again(
    log: JobLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent, children = a_family(log, 2)
    for held in (*children, parent):
        held.release("yield")

    def die_here(*_: object) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(family, "cancel_children", die_here)
        with pytest.raises(KeyboardInterrupt):
            log.command("cancel", parent.job_id, an_actor(request=REQUEST))
    assert {status(log, child.job_id)[0] for child in children} == {"queued"}

    assert log.command("cancel", parent.job_id, an_actor(request=REQUEST)).repeated
    assert {status(log, child.job_id)[0] for child in children} == {"cancelled"}


def test_a_poisoned_child_leaves_its_parent_waiting_for_an_operator(log: JobLog, backend: Backend) -> None:
    """Paused is no end: it may still be let go on."""
    parent, [child] = a_family(log)
    wait(log, parent)
    for _ in range(CRASH_LIMIT):
        die(log, backend)
        if log.row(child.job_id)["status"] == "queued":
            log.claim("w", kinds=["import"])
    assert status(log, child.job_id) == ("paused", "poison-unit")
    assert topics(log, parent.job_id)[-1] == "lease-released"


def test_a_child_is_of_its_parent_only(log: JobLog) -> None:
    _, [child] = a_family(log)

    with pytest.raises(JobNotFoundError):
        log.job(child.job_id, tenant="acme")
    assert log.store.children(child.job_id) == []
    assert claim_again(log, submit(log)).job.parent_id == ""
