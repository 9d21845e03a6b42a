"""A queue's own stream: its pause, its limit and commands to all its jobs."""

from typing import Any

import pytest
from eventsourcing.domain import OriginatorVersionError

from joblog.domain import identity
from joblog.domain.errors import InputError
from joblog.domain.job import fold
from joblog.domain.queue import BULK_ACTIONS, Queue
from tests.domain.builders import ADA, HOUR, NOW


def a_queue() -> Queue:
    return Queue.open("default", ADA, now=NOW)


def test_a_new_queue_runs_without_a_limit() -> None:
    queue = a_queue()

    assert (queue.name, queue.paused, queue.slots, queue.generation) == ("default", False, None, 0)
    assert queue.id == identity.queue_stream("default")


def test_a_pause_holds_the_queue_until_it_is_resumed() -> None:
    """CTL-05."""
    queue = a_queue()
    queue.pause(ADA, now=NOW)
    assert queue.paused
    queue.command("cancel", ADA, now=NOW)
    assert queue.paused
    queue.resume(ADA, now=NOW)
    assert not queue.paused


def test_a_limit_can_be_set_and_lifted() -> None:
    queue = a_queue()
    for slots in (0, 4, None):
        queue.limit(slots, ADA, now=NOW)
        assert queue.slots == slots


@pytest.mark.parametrize("slots", [-1, 1.5, True, "4"])
def test_a_limit_that_is_no_count_is_refused(slots: Any) -> None:
    with pytest.raises(InputError, match="slots"):
        a_queue().limit(slots, ADA, now=NOW)


@pytest.mark.parametrize("action", BULK_ACTIONS)
def test_every_command_has_a_higher_generation(action: str) -> None:
    """CTL-04."""
    queue = a_queue()
    queue.pause(ADA, now=NOW)

    assert [queue.command(action, ADA, now=NOW) for _ in range(3)] == [2, 3, 4]
    assert vars(queue.pending_events[-1])["action"] == action


def test_a_finished_command_stays_the_one_in_force() -> None:
    """CTL-07: with its counts."""
    queue = a_queue()
    generation = queue.command("cancel", ADA, now=NOW)
    queue.finish_command(ADA, now=NOW, done=7, refused=2)

    said = vars(queue.pending_events[-1])
    assert (said["done"], said["refused"], said["generation"]) == (7, 2, generation)
    assert queue.generation == generation


def test_an_unknown_command_is_refused() -> None:
    queue = a_queue()

    with pytest.raises(InputError, match="cancel, retry, pause, resume"):
        queue.command("explode", ADA, now=NOW)
    assert (queue.generation, len(queue.pending_events)) == (0, 1)


def test_a_queue_needs_a_storable_name() -> None:
    with pytest.raises(InputError, match="queue"):
        Queue.open("", ADA, now=NOW)


def test_replay_gives_the_queue_and_timestamps_never_decrease() -> None:
    queue = a_queue()
    queue.limit(4, ADA, now=NOW + HOUR)
    queue.pause(ADA, now=NOW)
    happened: list[Any] = list(queue.pending_events)
    again: Any = fold(None, happened)

    assert vars(again) | {"_pending_events": []} == vars(queue) | {"_pending_events": []}
    stamps = [event.timestamp for event in happened]
    assert stamps == sorted(stamps)


def test_a_stream_is_opened_once() -> None:
    queue = a_queue()
    happened: Any = queue.pending_events[0]

    with pytest.raises(OriginatorVersionError):
        happened.mutate(queue)
