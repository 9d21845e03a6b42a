"""What a consumer of the feed gets: everything once in order, its own position back, and the truth about a log put back."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from joblog.domain.errors import (
    ConsumerMovedError,
    ConsumerNotFoundError,
    InvalidFieldError,
    LogRewoundError,
    UnknownOutcomeError,
)
from joblog.domain.job import Actor
from joblog.eventstore.proof_rows import proof_rows
from joblog.eventstore.store import LogState
from joblog.projections.feed.consumers import Consumer, drop, find, lags
from joblog.projections.feed.envelope import cloud_event
from joblog.projections.feed.pages import Cursor, Filter, Page, read_page, rejoin
from joblog.workers.commands.log import JobLog
from tests.clocks import MovedClock
from tests.conformance.backends import Backend, MemoryBackend, SqlBackend, SqliteBackend
from tests.conformance.builders import ADA, armed, claimed, once, submit, whole_log
from tests.projections.proof.logs import grow

BEGINNING = Cursor(1, 0)


def positions(page: Page) -> list[int]:
    return [event.position for event in page.events]


def everything(log: JobLog, only: Filter | None = None, limit: int = 3) -> list[int]:
    """Page by page to the end."""
    found, cursor = [], BEGINNING
    while True:
        page = read_page(log.store, cursor, only=only, limit=limit)
        found += positions(page)
        if page.is_last:
            return found
        assert page.cursor > cursor
        cursor = page.cursor


# -- pages -------------------------------------------------------------------------------------------------------------


def test_pages_follow_each_other_without_gap_and_repeat(backend: Backend) -> None:
    log = backend.open()
    grow(log, 10)

    first = read_page(log.store, BEGINNING, limit=4)

    assert positions(first) == [1, 2, 3, 4]
    assert (first.cursor, first.high_water, first.is_last) == (Cursor(1, 4), 10, False)
    assert everything(log) == list(range(1, 11))
    assert read_page(log.store, first.cursor, limit=4) == read_page(log.store, first.cursor, limit=4)
    assert read_page(log.store, Cursor(1, 10)) == Page([], Cursor(1, 10), 10)


def test_filters_by_type_job_and_tenant_move_on_over_the_rest(backend: Backend) -> None:
    log = backend.open()
    for number in range(6):
        submit(log, f"k{number}", tenant=f"t{number % 2}")
        log.control_queue("q", "pause", ADA)
    job = whole_log(log.store)[0].stream_id
    held = claimed(log, "mine")
    held.complete_units([("a", 1)], cursor=1)
    log_of = {event.position: event for event in whole_log(log.store)}

    def wanted(**only: object) -> list[int]:
        return everything(log, Filter(**only))  # type: ignore[arg-type]

    topic = "joblog.queue.paused"
    assert wanted(topics=(topic,)) == [p for p, event in log_of.items() if event.topic == topic]
    assert wanted(job=held.job_id) == [p for p, event in log_of.items() if event.stream_id == held.job_id]
    assert len(wanted(job=held.job_id)) == 4
    tenants = {p: (log.store.job(e.stream_id) or {}).get("tenant") for p, e in log_of.items()}
    assert wanted(tenant="t1") == [p for p, tenant in tenants.items() if tenant == "t1"]
    assert wanted(tenant="t0", job=job, topics=("joblog.job.submitted",)) == [1]
    assert wanted(tenant="nobody") == []
    assert read_page(log.store, BEGINNING, only=Filter(tenant="nobody")).cursor.position == log.store.head()


def test_a_cursor_of_another_log_is_refused_with_what_both_share(backend: Backend) -> None:
    log = backend.open()
    grow(log, 5)
    with pytest.raises(LogRewoundError, match="ends at 1:5, before the cursor 1:6"):
        read_page(log.store, Cursor(1, 6))
    with pytest.raises(LogRewoundError, match="before the cursor 2:3"):
        read_page(log.store, Cursor(2, 3))

    log.raise_epoch(Actor("ada"), reason="failed over")
    with pytest.raises(LogRewoundError, match="up to 3 both are the same"):
        read_page(log.store, Cursor(1, 3))
    with pytest.raises(LogRewoundError, match="up to 5 both are the same"):
        read_page(log.store, Cursor(1, 9))
    assert rejoin(log.store, Cursor(1, 3)) == Cursor(2, 3)
    assert rejoin(log.store, Cursor(1, 9)) == Cursor(2, 5)


def test_an_epoch_that_is_raised_while_a_page_is_read_does_not_slip_in(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = backend.open()
    grow(log, 3)
    real, asked = log.store.state, [0]

    def state() -> LogState:
        asked[0] += 1
        if asked[0] == 2:
            log.raise_epoch(Actor("ada"), reason="now")
        return real()

    monkeypatch.setattr(log.store, "state", state)
    with pytest.raises(LogRewoundError, match="the log is in epoch 2"):
        read_page(log.store, BEGINNING)


@pytest.mark.parametrize("text", ["", "5", "x:1", "1:", "1:-1", "1:2:3"])
def test_what_is_no_cursor(text: str) -> None:
    with pytest.raises(InvalidFieldError):
        Cursor.parse(text)


def test_a_cursor_is_read_as_it_is_written() -> None:
    assert Cursor.parse(str(Cursor(3, 17))) == Cursor(3, 17)


# -- consumers ---------------------------------------------------------------------------------------------------------


def test_what_was_not_committed_comes_again_and_what_was_never_does(backend: Backend) -> None:
    log = backend.open()
    grow(log, 10)
    first = Consumer.open(log.store, "audit")
    assert positions(first.read(limit=3)) == [1, 2, 3]
    first.commit()
    assert positions(first.read(limit=3)) == [4, 5, 6]

    again = Consumer.open(log.store, "audit")
    assert again.committed == Cursor(1, 3)
    assert positions(again.read(limit=3)) == [4, 5, 6]
    assert positions(again.read(limit=3)) == [7, 8, 9]
    again.commit(Cursor(1, 7))

    assert positions(Consumer.open(log.store, "audit").read()) == [8, 9, 10]


def test_a_new_consumer_may_begin_at_the_end(backend: Backend) -> None:
    log = backend.open()
    grow(log, 4)
    consumer = Consumer.open(log.store, "late", at_end=True)
    grow(log, 1)

    assert positions(consumer.read()) == [5]
    assert Consumer.open(log.store, "late").committed == Cursor(1, 4)


def test_a_position_never_moves_back_nor_past_the_log(backend: Backend) -> None:
    log = backend.open()
    grow(log, 5)
    consumer = Consumer.open(log.store, "audit")
    consumer.read()
    consumer.commit()
    consumer.commit()

    with pytest.raises(ConsumerMovedError, match="does not move back to 1:4"):
        consumer.commit(Cursor(1, 4))
    with pytest.raises(LogRewoundError):
        consumer.commit(Cursor(1, 6))
    with pytest.raises(LogRewoundError):
        consumer.commit(Cursor(2, 1))
    assert find(log.store, "audit").committed == Cursor(1, 5)


def test_two_under_one_name_are_told(backend: Backend) -> None:
    log = backend.open()
    grow(log, 5)
    one, other = Consumer.open(log.store, "audit"), Consumer.open(log.store, "audit")
    one.read(limit=2)
    one.commit()
    other.read(limit=4)

    with pytest.raises(ConsumerMovedError, match="is at 1:2, moved by somebody else"):
        other.commit()
    drop(log.store, "audit")
    one.read()
    with pytest.raises(ConsumerNotFoundError):
        one.commit()
    with pytest.raises(ConsumerNotFoundError):
        drop(log.store, "audit")


def test_two_that_are_new_at_once_are_one(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    log = backend.open()
    first = Consumer.open(log.store, "audit")
    adapter = type(proof_rows(log.store))
    real: Any = adapter.consumer
    answers = [None]  # as the second saw it, just before the first was stored
    monkeypatch.setattr(adapter, "consumer", lambda rows, name: answers.pop() if answers else real(rows, name))

    assert Consumer.open(log.store, "audit", at_end=True).committed == first.committed


def test_a_commit_whose_answer_was_lost_is_safe_to_repeat(database: SqlBackend) -> None:
    log = database.open()
    grow(log, 5)
    consumer = Consumer.open(log.store, "audit")
    consumer.read()

    with armed("consumer.after", once(UnknownOutcomeError("lost"))), pytest.raises(UnknownOutcomeError):
        consumer.commit()
    assert find(log.store, "audit").committed == Cursor(1, 5)
    consumer.commit()
    assert consumer.committed == Cursor(1, 5)


def test_a_log_that_was_put_back_is_rejoined_only_when_told_to(sqlite_url: str) -> None:
    backend = SqliteBackend(sqlite_url, MovedClock())
    log = backend.open()
    grow(log, 10)
    consumer = Consumer.open(log.store, "audit")
    consumer.read()
    consumer.commit()
    backend.run("DROP TRIGGER events_no_delete")
    backend.run("DELETE FROM events WHERE position > 7")
    log = backend.reopen(log)
    behind = Consumer.open(log.store, "audit")
    assert lags(log.store)[0].is_rewound
    with pytest.raises(LogRewoundError):
        behind.read()

    log.raise_epoch(Actor("ada"), reason="restored")
    grow(log, 5)
    with pytest.raises(LogRewoundError, match="up to 7 both are the same"):
        behind.read()
    assert lags(log.store)[0].is_rewound
    assert behind.rejoin() == Cursor(2, 7)

    assert positions(behind.read()) == [8, 9, 10, 11, 12, 13]
    behind.commit()
    [lag] = lags(log.store)
    assert (lag.name, lag.cursor, lag.behind, lag.is_rewound) == ("audit", Cursor(2, 13), 0, False)
    backend.close()


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(st.sampled_from(["append", "read", "commit", "die"]), max_size=40), limit=st.integers(1, 4))
def test_every_life_of_a_consumer_sees_everything_in_order(steps: list[str], limit: int) -> None:
    """S16: strictly rising, no gap, no repeat behind what was committed, at least once before."""
    backend = MemoryBackend("memory://", MovedClock())
    log = backend.open()
    consumer = Consumer.open(log.store, "audit")
    seen = committed = 0
    for step in [*steps, "append", "die", "read"]:
        if step == "append":
            grow(log, 2)
        elif step == "commit":
            consumer.commit()
            committed = seen
        elif step == "die":
            consumer, seen = Consumer.open(log.store, "audit"), committed
        else:
            found = positions(consumer.read(limit=limit))
            assert found == list(range(seen + 1, seen + 1 + len(found)))
            seen += len(found)
    assert seen > committed
    backend.close()


# -- envelope ----------------------------------------------------------------------------------------------------------


def test_a_cloud_event_says_all_that_was_stored(backend: Backend) -> None:
    log = backend.open()
    job_id = submit(log, "k")
    [event] = whole_log(log.store)
    store_id = log.store.state().store_id

    made = cloud_event(event, store_id, 1)

    assert (made["specversion"], made["source"]) == ("1.0", f"/joblog/{store_id}")
    assert (made["type"], made["subject"]) == (event.topic, str(job_id))
    assert (made["sequence"], made["epoch"], made["version"]) == ("00000000000000000001", "1", "1")
    assert made["id"] in event.state.decode()
    assert made["data"]["key"] == "k"
    assert all(name.isalnum() and name.islower() for name in made)


def test_the_service_sends_the_same_envelope(backend: Backend) -> None:
    from joblog.api.http import feed

    log = backend.open()
    submit(log, "k")
    [event] = whole_log(log.store)
    state = log.store.state()

    [entry] = feed._encoded([event], state)

    assert json.loads(entry.json) == cloud_event(event, state.store_id, state.epoch)


def test_an_event_of_unknown_form_has_an_envelope_too(backend: Backend) -> None:
    log = backend.open()
    grow(log, 1)
    [event] = whole_log(log.store)

    made = cloud_event(event._replace(state=b"[1]"), log.store.state().store_id, 1)

    assert (made["id"], made["data"]) == (f"{event.stream_id}/1", [1])
    assert "time" not in made
