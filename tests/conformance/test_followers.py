"""Followers: a position that moves once however many race for it, and a feed of the backlog and of what comes (S16)."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Barrier, Event
from typing import Any

import pytest
from eventsourcing.persistence import (
    IntegrityError,
    InterfaceError,
    Notification,
    OperationalError,
    StoredEvent,
    Tracking,
)

from joblog.eventstore import wake
from joblog.eventstore.recorder import LogSubscription, StoreRecorder
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import BOUND, Side, an_append, armed, once, stored, submit


@pytest.fixture(autouse=True)
def no_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is woken here is woken by a hint."""
    monkeypatch.setattr(wake, "POLL_SECONDS", BOUND)


def recorder(log: JobLog) -> StoreRecorder:
    return log.application._store_recorder


def write(log: JobLog, count: int = 1) -> list[int]:
    return [stored(log.writer.append(an_append())) for _ in range(count)]


def read(subscription: Any, count: int) -> list[int]:
    """Take *count* notifications; give their positions."""

    def take() -> list[int]:
        found: list[int] = []
        for notification in subscription:
            found.append(notification.id)
            if len(found) == count:
                break
        return found

    positions: list[int] = Side(take).result()
    return positions


def test_a_follower_starts_nowhere(log: JobLog) -> None:
    assert log.store.tracking_position("f") is None


def test_a_follower_only_moves_forward(log: JobLog) -> None:
    moves = [log.store.track("f", position) for position in (5, 5, 3, 6, 2**40)]

    assert moves == [True, False, False, True, True]
    assert log.store.tracking_position("f") == 2**40
    assert log.store.track("other", 1)


@pytest.mark.parametrize("logs", [1, 4])
def test_of_racing_followers_each_position_goes_to_one(backend: Backend, logs: int) -> None:
    """P5: with check-then-write 148 of 150 went to two."""
    opened = [backend.open() for _ in range(logs)]
    start = Barrier(8)

    def race(log: JobLog) -> list[int]:
        mine = []
        for position in range(1, 16):
            start.wait()
            if log.store.track("f", position):
                mine.append(position)
        return mine

    sides = [Side(lambda n=n: race(opened[n % logs])) for n in range(8)]  # type: ignore[misc]

    assert sorted(position for side in sides for position in side.result()) == list(range(1, 16))


def an_event(version: int = 1) -> StoredEvent:
    append = an_append(expected=version - 1)
    return StoredEvent(append.stream_id, *append.events[0])


def test_events_and_the_followers_position_are_written_together(log: JobLog) -> None:
    process = recorder(log)

    assert process.insert_events([an_event()], tracking=Tracking("f", 7)) == [1]

    assert process.max_tracking_id("f") == 7


@pytest.mark.parametrize("position", [6, 7])
def test_events_for_a_position_already_reached_are_not_written(log: JobLog, position: int) -> None:
    process = recorder(log)
    process.insert_tracking(Tracking("f", 7))

    with pytest.raises(IntegrityError):
        process.insert_events([an_event()], tracking=Tracking("f", position))

    assert process.max_notification_id() is None


def test_a_refused_event_leaves_the_follower_where_it_was(log: JobLog) -> None:
    process = recorder(log)
    event = an_event()
    process.insert_events([event])

    with pytest.raises(IntegrityError):
        process.insert_events([StoredEvent(event.originator_id, 1, "t", b"{}")], tracking=Tracking("f", 7))

    assert process.max_tracking_id("f") is None


def test_a_lost_answer_moves_the_follower_once(backend: Backend, log: JobLog) -> None:
    process = recorder(log)

    with armed("append.after_commit", once(backend.lost())):
        assert process.insert_events([an_event()], tracking=Tracking("f", 7)) == [1]

    assert (process.max_tracking_id("f"), process.max_notification_id()) == (7, 1)


def test_of_racing_processors_each_event_is_processed_by_one(backend: Backend) -> None:
    logs = [backend.open() for _ in range(3)]
    start = Barrier(6)

    def race(log: JobLog) -> int:
        done = 0
        for position in range(1, 9):
            start.wait()
            try:
                recorder(log).insert_events([an_event()], tracking=Tracking("f", position))
            except (IntegrityError, OperationalError):
                continue
            done += 1
        return done

    sides = [Side(lambda n=n: race(logs[n % 3])) for n in range(6)]  # type: ignore[misc]

    assert sum(side.result() for side in sides) == logs[0].store.head()
    assert logs[0].store.tracking_position("f") == 8
    assert logs[0].store.head() == 8


@contextmanager
def following(log: JobLog, **query: Any) -> Iterator[LogSubscription]:
    subscription = LogSubscription(recorder(log), **query)
    try:
        with subscription:
            yield subscription
    finally:
        subscription.stop()


def test_a_subscription_gives_the_backlog_then_what_comes(log: JobLog) -> None:
    write(log, 3)

    with following(log) as subscription:
        assert read(subscription, 3) == [1, 2, 3]
        write(log, 2)
        assert read(subscription, 2) == [4, 5]


@pytest.mark.parametrize("after", [0, 2, 3])
def test_a_subscription_starts_behind_a_position(log: JobLog, after: int) -> None:
    write(log, 3)

    with following(log, gt=after) as subscription:
        write(log)
        assert read(subscription, 4 - after) == list(range(after + 1, 5))


def test_a_long_backlog_is_given_whole(log: JobLog) -> None:
    log.writer.append_many([an_append(size=3) for _ in range(400)])

    with following(log) as subscription:
        assert read(subscription, 1200) == list(range(1, 1201))


def test_a_subscription_gives_only_its_topics(log: JobLog) -> None:
    write(log)
    submit(log)
    write(log)

    with following(log, topics=["joblog.job.submitted"]) as subscription:
        assert read(subscription, 1) == [2]
        write(log)
        submit(log)
        assert read(subscription, 1) == [5]


def test_a_subscription_is_woken_by_the_appends_of_another_log(backend: Backend) -> None:
    one, other = backend.open(), backend.open()

    with following(one) as subscription:
        waiting = Side(lambda: next(iter(subscription)))
        assert not waiting.is_done(0.1)
        write(other)
        notification: Notification = waiting.result()

    assert notification.id == 1


def test_a_subscription_that_is_stopped_ends(log: JobLog) -> None:
    write(log)

    with following(log) as subscription:
        read(subscription, 1)
        waiting = Side(lambda: list(subscription))
        assert not waiting.is_done(0.05)
        subscription.stop()
        assert waiting.result() == []
    assert log.waker._subscribers == {}


def test_a_subscription_that_was_stopped_is_not_woken(log: JobLog) -> None:
    with following(log) as subscription:
        pass

    write(log)

    assert list(subscription) == []


def test_what_is_appended_while_a_subscription_starts_is_not_missed(log: JobLog) -> None:
    """P4: between its first look and its being subscribed."""
    subscribed = log.waker.subscribe

    def append_then_subscribe(call: Any, **query: Any) -> int:
        write(log)
        return subscribed(call, **query)

    log.waker.subscribe = append_then_subscribe  # type: ignore[method-assign]
    with following(log) as subscription:
        assert read(subscription, 1) == [1]


def test_a_subscriber_that_fails_harms_nobody(log: JobLog, caplog: pytest.LogCaptureFixture) -> None:
    woken = Event()

    def fail() -> None:
        raise RuntimeError("a subscriber's fault")

    log.waker.subscribe(fail)
    log.waker.subscribe(woken.set)

    assert write(log) == [1]
    assert woken.wait(BOUND)
    assert "a subscriber's fault" in caplog.text


def test_a_subscription_of_a_closed_log_ends(log: JobLog) -> None:
    with following(log) as subscription:
        log.close()
        waiting = Side(lambda: list(subscription))
        subscription.stop()
        with suppress(InterfaceError):  # if it was about to look
            waiting.result()
