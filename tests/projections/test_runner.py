"""One elected follower for each view, fenced; another takes over; what can't be folded stops one view and nothing else."""

import re
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import uuid4

import orjson
import pytest

from joblog.domain import events as e
from joblog.domain.errors import StoreUnavailableError, UnknownOutcomeError
from joblog.eventstore.append import Append, EventRow
from joblog.eventstore.store import ConflictError, LoggedEvent
from joblog.eventstore.view_schema import job_counts
from joblog.eventstore.views import TableRows, TurnLostError, ViewWrite
from joblog.projections import queries
from joblog.projections.runner import Runner
from joblog.projections.view import Folded, Happened, State, View
from joblog.projections.view_rebuild import rebuild
from joblog.projections.views import VIEWS
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import armed, claimed, once, stored, submit
from tests.projections.viewing import ALL, all_held, differences, runner
from tests.workers.commands.builders import future


def positions(log: JobLog) -> dict[str, int]:
    return {name: one.position for name, one in log.store.views.standings().items()}


def owners(log: JobLog) -> set[str]:
    return {one.owner for one in log.store.views.standings().values()}


def faulty(name: str, at: int) -> View:
    """A view whose code fails at one position."""
    view = VIEWS[name]

    def fold(state: State | None, happened: Happened) -> Folded:
        if happened.position == at:
            raise ZeroDivisionError("a fault in the view")
        return view.fold(state, happened)

    return replace(view, fold=fold)


# -- election ------------------------------------------------------------------------------------------------------------


def test_one_process_follows_for_all_views(backend: Backend) -> None:
    log = backend.open()
    first, second = runner(log, "first"), runner(backend.open(), "second")
    submit(log)

    assert first.run() == 1
    assert second.run() == 0
    assert owners(log) == {"first"}
    assert set(positions(log).values()) == {1}
    submit(log)
    step = second.step()
    assert (step.led, step.events, step.again) == (0, 0, False)
    assert step.others_for == 10


def test_nobody_is_elected_where_nothing_is_to_do(backend: Backend) -> None:
    """An idle follower costs no write, and two of them do not take the views from each other."""
    log, other = backend.open(), backend.open()
    first, second = runner(log, "first"), runner(other, "second")
    assert first.run() == second.run() == 0
    assert log.store.views.standings() == {}
    submit(log)
    first.run()
    before = log.store.views.standings()

    backend.clock.move(60)

    assert first.step().led == len(ALL)
    assert second.step().led == 0
    assert log.store.views.standings() == before


def test_another_takes_over_when_the_turn_has_run_out(backend: Backend) -> None:
    log = backend.open()
    first, second = runner(log, "first"), runner(backend.open(), "second")
    submit(log)
    first.run()
    submit(log)

    backend.clock.move(10, micros=-1)
    assert second.run() == 0
    backend.clock.move(micros=1)
    assert second.run() == 1

    assert owners(log) == {"second"}
    assert set(positions(log).values()) == {2}


def test_each_batch_keeps_the_turn(backend: Backend) -> None:
    log = backend.open()
    first, second = runner(log, "first"), runner(backend.open(), "second")
    for _ in range(4):
        submit(log)
        assert first.run() == 1
        backend.clock.move(9)
        submit(log)
        assert second.run() == 0
        assert first.run() == 1
    assert owners(log) == {"first"}


def test_one_that_slept_through_its_turn_can_do_no_harm(backend: Backend) -> None:
    """Fenced by its token, whatever it still remembers; then it goes on as one of those who wait."""
    log = backend.open()
    slow, quick = runner(log, "slow"), runner(backend.open(), "quick")
    held = claimed(log)
    slow.run()
    backend.clock.move(10)
    held.complete_units([("a", 1)])
    quick.run()
    held.complete()

    slow.run()

    assert owners(log) == {"quick"}
    assert set(positions(log).values()) == {4}
    quick.run()
    assert {differences(log, view) == [] for view in ALL} == {True}


def test_taken_over_between_reading_and_writing(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    log = backend.open()
    slow, quick = runner(log, "slow"), runner(backend.open(), "quick")
    submit(log)
    slow.run()
    submit(log)

    read = log.store.log

    def taken_over(*args: Any, **more: Any) -> list[LoggedEvent]:
        page = read(*args, **more)
        monkeypatch.setattr(log.store, "log", read)
        backend.clock.move(10)
        assert quick.run() == 1
        return page

    monkeypatch.setattr(log.store, "log", taken_over)
    slow.run()

    assert owners(log) == {"quick"}
    assert queries.counters(log.store) == {("queued",): 2}


def test_who_resigns_is_followed_at_once(backend: Backend) -> None:
    log = backend.open()
    first, second = runner(log, "first"), runner(backend.open(), "second")
    submit(log)
    first.run()
    submit(log)

    first.resign()

    assert second.run() == 1
    assert owners(log) == {"second"}


def test_views_that_are_at_different_places_are_brought_to_one(log: JobLog) -> None:
    submit(log)
    Runner(log.store, log.mapper, "me", [VIEWS["counters"]]).run()
    claimed(log).complete()
    Runner(log.store, log.mapper, "me", [VIEWS["counters"], VIEWS["schedule"]], batch=2).run()
    submit(log)

    follower = runner(log, batch=2)
    follower.run()

    assert set(positions(log).values()) == {log.store.head()}
    assert {differences(log, view) == [] for view in ALL} == {True}


def test_a_replaced_generation_is_followed_at_once(backend: Backend) -> None:
    """Whoever loses a turn looks at once for what became of it, not only when it looks after everything."""
    log = backend.open()
    follower = runner(log, "follower")
    submit(log)
    follower.run()
    rebuild(log.store, log.mapper, VIEWS["counters"], "me")
    submit(log)
    follower.step(look=False)  # here it finds out

    follower.step(look=False)

    assert queries.counters(log.store) == {("queued",): 2}


def test_evidence_is_not_even_read(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of units with a megabyte each would not fit into memory."""
    log = backend.open()
    held = claimed(log)
    held.complete_units([("u", "x" * 100_000)], cursor=1)
    held.complete()
    pages: list[LoggedEvent] = []
    read = log.store.log

    def noted(*args: Any, **more: Any) -> list[LoggedEvent]:
        page = read(*args, **more)
        pages.extend(page)
        return page

    monkeypatch.setattr(log.store, "log", noted)
    runner(log).run()

    read_topics = [event.topic.rpartition(".")[2] for event in pages]
    assert read_topics == ["submitted", "claimed", "checkpoint-advanced", "completed"]
    assert {one.position for one in log.store.views.standings().values()} == {log.store.head()}


# -- what goes wrong -----------------------------------------------------------------------------------------------------


def test_a_write_that_failed_is_done_again_from_what_was_written(backend: Backend) -> None:
    log = backend.open()
    follower = runner(log)
    held = claimed(log)
    follower.run()
    held.complete_units([("a", 1)], cursor=1)
    held.complete()

    away = StoreUnavailableError("away")
    with armed("view.before_commit", once(away)), pytest.raises(StoreUnavailableError):
        follower.step()
    follower.run()

    assert set(positions(log).values()) == {log.store.head()}
    assert {differences(log, view) == [] for view in ALL} == {True}


def test_a_write_whose_answer_was_lost_is_looked_after(backend: Backend) -> None:
    """Whether it was written or not: what is remembered may be ahead of it, and is forgotten."""
    log = backend.open()
    follower = runner(log)
    held = claimed(log)
    follower.run()
    for point in ("view.before_commit", "view.after_commit"):
        held.complete_units([(point, 1)], cursor=1)
        submit(log)
        follower.run()
        held = claimed(log)  # what the queued one is remembered as decides whether it is counted
        with armed(point, once(UnknownOutcomeError("gone"))):
            follower.step()
        follower.run()

        assert set(positions(log).values()) == {log.store.head()}
        assert {differences(log, view) == [] for view in ALL} == {True}


def test_a_batch_for_another_position_is_refused(log: JobLog) -> None:
    """Also from the one who has the turn: rows and position can only move together, and once."""
    views = log.store.views
    turn = views.elect({"counters": 1}, "me", 10_000_000)["counters"]

    def write(before: int, after: int) -> None:
        rows: dict[Any, TableRows] = {job_counts: {("", "queued", "k", "q"): {"jobs": 1}}}
        views.write({turn: lambda: ViewWrite(before, after, rows)}, "me", 10_000_000)

    write(0, 5)

    for before, after in ((0, 5), (0, 9), (3, 9), (6, 9)):
        with pytest.raises(TurnLostError):
            write(before, after)

    assert positions(log) == {"counters": 5}
    assert queries.counters(log.store) == {("queued",): 1}


def test_a_view_that_can_not_be_written_stops_alone(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    log = backend.open()
    follower = runner(log)
    submit(log)
    follower.run()
    submit(log)
    write = log.store.views.write

    def refuse(writes: Any, owner: str, micros: int) -> Any:
        made = {turn: make() for turn, make in writes.items()}
        if any(turn.name == "schedule" and one.rows for turn, one in made.items()):
            raise ConflictError("no such column")
        return write({turn: partial(made.__getitem__, turn) for turn in made}, owner, micros)

    monkeypatch.setattr(log.store.views, "write", refuse)
    follower.run()

    assert {name: at for name, at in positions(log).items() if at < 2} == {"schedule": 1}
    [stopped] = [one for one in queries.lag(log.store) if one.stopped_at is not None]
    assert (stopped.name, stopped.stopped_at, stopped.reason) == ("schedule", 2, "ConflictError: no such column")


def test_an_event_that_can_not_be_folded_stops_that_view_and_nothing_else(backend: Backend) -> None:
    log = backend.open()
    for _ in range(4):
        submit(log)
    views = [faulty("counters", 3), *(view for view in ALL if view.name != "counters")]
    follower = Runner(log.store, log.mapper, "me", views)

    follower.run()
    submit(log)
    follower.run()

    [stopped] = [one for one in queries.lag(log.store) if one.stopped_at is not None]
    assert (stopped.name, stopped.position, stopped.stopped_at, stopped.events) == ("counters", 2, 3, 3)
    assert stopped.reason == "ZeroDivisionError: a fault in the view"
    assert queries.counters(log.store) == {("queued",): 2}
    assert {at for name, at in positions(log).items() if name != "counters"} == {5}
    assert not stopped.leads


def test_mended_code_goes_on_where_it_stopped(backend: Backend) -> None:
    log = backend.open()
    for _ in range(4):
        submit(log)
    broken = Runner(log.store, log.mapper, "broken", [faulty("counters", 3)])
    broken.run()
    assert broken.run() == 0  # it does not try again and again

    mended = Runner(log.store, log.mapper, "mended", [VIEWS["counters"]])
    assert mended.run() == 2

    [counters] = [one for one in queries.lag(log.store) if one.name == "counters"]
    assert (counters.position, counters.stopped_at, counters.reason) == (4, None, "")
    assert differences(log, VIEWS["counters"]) == []


def test_an_event_of_newer_code_is_never_passed_over(log: JobLog) -> None:
    """S18: newer code, which wrote it, takes the views over and folds it."""
    parked = submit(log)
    submit(log)
    future(log, parked)
    submit(log)

    runner(log).run()

    stopped = queries.lag(log.store)
    assert {(one.position, one.stopped_at) for one in stopped} == {(2, 3)}
    assert all("not known to this code" in one.reason for one in stopped)


def test_bytes_that_are_no_event_stop_only_who_wants_them(log: JobLog) -> None:
    job_id = submit(log)
    state = b'{"event_id":"x"}'
    stored(log.writer.append(Append(job_id, 1, [EventRow(2, e.CheckpointAdvanced.TOPIC, state)], "x")))

    runner(log).run()

    assert {one.name: one.stopped_at for one in queries.lag(log.store) if one.stopped_at} == {"recovery": 2}


def test_other_peoples_events_are_passed_over(log: JobLog) -> None:
    submit(log)
    state = orjson.dumps({"event_id": uuid4().hex})
    event_id = orjson.loads(state)["event_id"]
    stored(log.writer.append(Append(uuid4(), 0, [EventRow(1, "shop.order.placed", state)], event_id)))

    runner(log).run()

    assert set(positions(log).values()) == {2}


def test_a_job_without_its_first_event_stops_the_view(log: JobLog) -> None:
    _, version, topic, state = log.mapper.encode(_resumed(), "x.0")
    stored(log.writer.append(Append(uuid4(), 0, [EventRow(version, topic, state)], "x.0")))

    runner(log).run()

    stopped = {one.name: one.reason for one in queries.lag(log.store) if one.stopped_at}
    assert stopped.keys() == {"counters", "versions", "schedule", "recovery"}
    assert "was not submitted" in stopped["counters"]


def _resumed() -> Any:
    from tests.stored.samples import sample

    event = sample(e.Resumed)
    vars(event).update(originator_version=1)
    return event


# -- how far they are ----------------------------------------------------------------------------------------------------


def test_lag_in_events_and_in_seconds(backend: Backend) -> None:
    log = backend.open()
    submit(log)
    runner(log).run()
    submit(log)
    backend.clock.move(7)
    submit(log)
    backend.clock.move(5)

    one = queries.lag(log.store)[0]

    assert (one.position, one.events, one.seconds) == (1, 2, 12)
    runner(log).run()
    assert {(one.events, one.seconds) for one in queries.lag(log.store)} == {(0, 0.0)}


def test_a_view_that_was_never_followed(log: JobLog) -> None:
    submit(log)
    assert {(one.position, one.events, one.owner) for one in queries.lag(log.store)} == {(0, 1, "")}


def test_code_of_another_version_leaves_the_view_alone(log: JobLog) -> None:
    submit(log)
    Runner(log.store, log.mapper, "newer", [replace(VIEWS["counters"], version=2)]).run()
    submit(log)

    assert Runner(log.store, log.mapper, "older", [VIEWS["counters"]]).run() == 0
    assert positions(log) == {"counters": 1}


def test_nothing_of_a_view_is_in_the_transaction_of_an_append(backend: Backend) -> None:
    """Followers cost those who append no statement."""
    log = backend.open()
    follower = runner(log)
    submit(log)
    statements: list[str] = []
    if backend.kind == "sqlite":
        log.store.lane("append").pinned.driver.set_trace_callback(statements.append)  # type: ignore[attr-defined]
        submit(log)
        before = [text.partition(" VALUES ")[0] for text in statements]
        follower.run()
        statements.clear()
        submit(log)
        assert [text.partition(" VALUES ")[0] for text in statements] == before
    elif backend.kind == "postgres":
        functions = backend.run("SELECT prosrc FROM pg_proc WHERE left(proname, 14) = 'joblog_append_'")  # type: ignore[attr-defined]
        statements = [text for (text,) in functions]
        assert len(statements) == 2
    names = ["projections", "view_state", *(table.name for view in ALL for table in view.tables)]
    touched = re.compile(rf"(?i)(INTO|UPDATE|FROM|JOIN)\s+(ONLY\s+)?\W?({'|'.join(names)})\b|joblog\.view")
    assert not [text for text in statements if touched.search(text)]
    triggers = {"sqlite": "SELECT tbl_name FROM sqlite_master WHERE type = 'trigger'"}
    if backend.kind in triggers:
        assert {name for (name,) in backend.run(triggers[backend.kind])} == {"events", "archives", "archived_streams"}  # type: ignore[attr-defined]
    follower.run()
    assert all_held(log)


def test_a_view_waits_for_no_disk_and_an_append_does(backend: Backend) -> None:
    """Rows and position of a view go together, so the last ones may be lost with the power; an event may not."""
    log = backend.open()
    submit(log)
    runner(log).run()
    store: Any = log.store
    if backend.kind == "sqlite":
        asked = {
            name: lane.pinned.open().execute("PRAGMA synchronous").fetchone()[0] for name, lane in store._lanes.items()
        }
        assert (asked.pop("relaxed"), set(asked.values())) == (1, {2})


def test_a_row_is_merged_by_the_rule_of_each_column(log: JobLog) -> None:
    """Sums are added to, firsts stay, the others are replaced: within a batch as between two."""
    for _ in range(3):
        claimed(log).schedule_retry("u", category="network", text="reset")
    runner(log, batch=1).run()
    by_one = all_held(log)["failures"]["failures"]

    rebuild(log.store, log.mapper, VIEWS["failures"], "me")

    assert [row["count"] for row in by_one] == [3]
    assert all_held(log)["failures"]["failures"] == by_one


def test_a_fault_between_two_views_leaves_none_ahead_of_what_was_written(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = backend.open()
    follower = runner(log)
    held = claimed(log)
    follower.run()
    held.complete_units([("a", 1)], cursor=1)
    held.complete()
    read, reads = type(log.store.views).states, [0]

    def away_at_the_second(views: Any, *args: Any, **more: Any) -> Any:
        reads[0] += 1
        if reads[0] == 2:
            raise StoreUnavailableError("away")
        return read(views, *args, **more)

    for one in follower._led.values():
        one.folder.forget()
    monkeypatch.setattr(type(log.store.views), "states", away_at_the_second)
    with pytest.raises(StoreUnavailableError):
        follower.step()
    follower.run()

    assert set(positions(log).values()) == {log.store.head()}
    assert {differences(log, view) == [] for view in ALL} == {True}
