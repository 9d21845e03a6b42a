"""What operators ask of a running job is honoured at its next boundary; the unit in flight is recorded, not lost."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from joblog.domain.errors import IncompleteError, LeaseLostError, VersionConflictError
from joblog.domain.status import Wish
from joblog.eventstore.append import Append
from joblog.eventstore.outcomes import Answer
from joblog.workers.commands.held import RELOADS, Held
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import claim, claimed
from tests.workers.commands.builders import an_actor, die, fail_unit, forget_unit, status, topics, units


def spied(log: JobLog, before: Callable[[], object] = lambda: None) -> list[tuple[str, int, type[Any]]]:
    """Note each append that goes out from *log*, and do something *before* it: event id, expected version, answer."""
    sent: list[tuple[str, int, type[Any]]] = []
    write = log.writer.append

    def spy(append: Append, **more: Any) -> Answer:
        before()
        answer = write(append, **more)
        sent.append((append.event_id, append.expected, type(answer)))
        return answer

    log.writer.append = spy  # type: ignore[method-assign]
    return sent


@pytest.mark.parametrize("action", ["pause", "cancel"])
def test_a_unit_is_recorded_although_an_operator_came_between(log: JobLog, action: str) -> None:
    """Refused by version while the token is the newest: reloaded, decided again, sent under the same event ids."""
    held = claimed(log)
    held.complete_units(units("a"))
    log.command(action, held.job_id, an_actor())
    sent = spied(log)

    position = held.complete_units(units("b"), cursor=2)

    [(first_id, first, refused), (second_id, second, _)] = sent
    assert (first, refused, second) == (4, VersionConflictError, 5)
    assert first_id == second_id
    assert position == 6
    assert (held.job.wish, held.job.sequence, held.job.cursor) == (Wish(action), 2, 2)
    assert log.store.count_units(held.job_id) == 2


@pytest.mark.parametrize(("action", "end"), [("pause", "paused"), ("cancel", "cancelled")])
@pytest.mark.parametrize(
    "boundary",
    [lambda held: held.release("yield"), lambda held: held.release("shutdown"), fail_unit],
    ids=["yield", "shutdown", "retry"],
)
def test_a_wish_is_honoured_at_the_boundary(
    log: JobLog, action: str, end: str, boundary: Callable[[Held], object]
) -> None:
    """STA-07, STA-08, CRW-14: the lease is given back, the checkpoint kept."""
    held = claimed(log)
    held.complete_units(units("a"), cursor=1)
    log.command(action, held.job_id, an_actor())

    boundary(held)

    assert log.row(held.job_id)["status"] == end
    assert (log.job(held.job_id).cursor, log.job(held.job_id).wish) == (1, Wish.NONE)
    assert (log.store.lease(held.job_id), claim(log)) == (None, [])


@pytest.mark.parametrize(("action", "end"), [("pause", "paused"), ("cancel", "cancelled")])
def test_a_wish_is_honoured_by_whoever_finds_the_holder_dead(
    log: JobLog, backend: Backend, action: str, end: str
) -> None:
    """CRW-14, REC-14, STA-10: before any new unit, and not before the holder has stopped."""
    held = claimed(log)
    log.command(action, held.job_id, an_actor(), **({"cleanup": True} if action == "cancel" else {}))
    assert log.expire("reaper") == []
    assert log.row(held.job_id)["status"] == "running"

    die(log, backend)

    assert log.row(held.job_id)["status"] == end
    assert log.job(held.job_id).cleanup == (action == "cancel")
    assert claim(log) == []
    with pytest.raises(LeaseLostError):
        held.complete_units(units("a"))


def test_a_finished_job_is_completed_although_a_pause_was_asked_for(log: JobLog) -> None:
    held = claimed(log)
    log.command("pause", held.job_id, an_actor())

    held.complete()

    assert status(log, held.job_id) == ("completed", "")
    assert log.job(held.job_id).wish is Wish.NONE


@pytest.mark.parametrize(
    "end", [Held.complete, lambda held: held.fail(reason="bad", text=""), lambda held: held.park(reason="q", text="")]
)
def test_a_cancel_outranks_every_other_end(log: JobLog, end: Callable[[Held], object]) -> None:
    held = claimed(log)
    log.command("cancel", held.job_id, an_actor())

    end(held)

    assert status(log, held.job_id) == ("cancelled", "cancelled")
    assert topics(log, held.job_id)[2:] == ["cancel-requested", "lease-released", "cancelled"]


def test_a_cancel_needs_no_evidence(backend: Backend) -> None:
    """A job that lost evidence can't complete; it can still be withdrawn."""
    log = backend.open()
    held = claimed(log)
    held.complete_units(units("a"))
    forget_unit(backend, held.job_id, "a")
    with pytest.raises(IncompleteError):
        held.complete()
    log.command("cancel", held.job_id, an_actor())

    held.complete()

    assert status(log, held.job_id) == ("cancelled", "cancelled")


def test_a_pause_that_was_withdrawn_in_time_changes_nothing(log: JobLog) -> None:
    held = claimed(log)
    log.command("pause", held.job_id, an_actor())
    log.command("resume", held.job_id, an_actor())

    held.complete_units(units("a"))
    held.complete()

    assert topics(log, held.job_id)[2:] == [
        "pause-requested", "resumed", "unit-completed", "checkpoint-advanced", "completed",
    ]  # fmt: skip


def test_a_holder_that_is_always_too_late_gives_up_with_the_reason(log: JobLog, backend: Backend) -> None:
    """After a first try and three reloads; it still holds the job, and nothing is lost."""
    held = claimed(log)
    other = backend.open()
    actions = iter(["pause", "resume"] * 3)
    sent = spied(log, lambda: other.command(next(actions), held.job_id, an_actor()))

    with pytest.raises(VersionConflictError, match="no longer at version 5"):
        held.complete_units(units("a"))

    assert len(sent) == RELOADS + 1
    assert len({event_id for event_id, *_ in sent}) == 1
    log.writer.append = type(log.writer).append.__get__(log.writer)  # type: ignore[method-assign]
    assert held.complete_units(units("a")) == 7


def test_a_newer_token_is_no_reason_to_try_again(log: JobLog, backend: Backend) -> None:
    held = claimed(log)
    held.complete_units(units("a"))
    die(log, backend)
    claim(log, "other")
    sent = spied(log)

    with pytest.raises(LeaseLostError):
        held.complete_units(units("b"))

    assert len(sent) == 1


def test_a_unit_that_an_answer_was_lost_for_is_not_sent_twice_by_a_reload(log: JobLog, backend: Backend) -> None:
    """The first try was stored and its answer lost, then an operator came: the id is recognised at its old version."""
    held = claimed(log)
    other = backend.open()
    done: list[Answer] = []
    write = log.writer.append

    def lose(append: Append, **more: Any) -> Answer:
        if not done:
            done.append(write(append, **more))
            other.command("pause", held.job_id, an_actor())
        return write(append, **more)

    log.writer.append = lose  # type: ignore[method-assign]

    assert held.complete_units(units("a")) == 3
    assert topics(log, held.job_id)[2:] == ["unit-completed", "checkpoint-advanced", "pause-requested"]
    log.writer.append = write  # type: ignore[method-assign]
    assert held.complete_units(units("b")) == 6


@pytest.mark.parametrize("action", ["pause", "cancel"])
def test_an_event_loop_honours_it_just_so(log: JobLog, action: str) -> None:
    held = claimed(log)

    async def work() -> int:
        await held.complete_units_soon(units("a"))
        await asyncio.to_thread(log.command, action, held.job_id, an_actor())
        return await held.complete_units_soon(units("b"))

    assert asyncio.run(work()) == 6
    assert (held.job.wish, held.job.sequence) == (Wish(action), 2)
