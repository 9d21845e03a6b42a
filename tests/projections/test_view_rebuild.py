"""A view is rebuilt beside the live one: whole or not at all, resumed where it was killed, and verified (S13, S14)."""

import threading
from dataclasses import replace
from signal import SIGKILL
from typing import Any

import pytest

from joblog.domain.errors import RebuildRunningError, ViewStoppedError
from joblog.eventstore.failpoint import VIEW_POINTS
from joblog.eventstore.store import LoggedEvent
from joblog.eventstore.view_schema import recovery_rows
from joblog.projections import queries, view_rebuild
from joblog.projections.folding import Folder
from joblog.projections.rebuild import Progress
from joblog.projections.runner import Runner
from joblog.projections.view_rebuild import ALIVE_MICROS, drop_old, rebuild
from joblog.projections.view_verify import verify
from joblog.projections.views import VIEWS
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import ADA, armed, claim, claimed, submit
from tests.projections import view_children
from tests.projections.dying import Killed, dying_at
from tests.projections.test_runner import faulty
from tests.projections.viewing import ALL, all_held, differences, held, runner, spoil

RECOVERY = VIEWS["recovery"]


def some_history(log: JobLog, jobs: int = 8) -> None:
    for _ in range(jobs):
        submit(log)
    for number, one in enumerate(claim(log)):
        one.complete_units([("a", 1)], cursor=1)
        if number % 3 == 0:
            one.schedule_retry("b", category="network", text="reset")
        elif number % 3 == 1:
            one.park(reason="quota", text="none left")
        else:
            one.complete()


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_rebuild, "BATCH", 7)
    monkeypatch.setattr(view_rebuild, "CATCH_UP", 3)


def generation(log: JobLog, name: str = "recovery") -> int:
    return log.store.views.standings()[name].generation


def rows_of_all_generations(log: JobLog) -> int:
    """Also what no reader sees."""
    store: Any = log.store
    if store.dialect == "memory":
        return sum(len(rows) for (name, _), rows in store.views._tables.items() if name == "recovery_rows")
    return int(store.sql_rows("SELECT count(*) FROM recovery_rows")[0][0])


# -- rebuild -------------------------------------------------------------------------------------------------------------


def test_a_rebuild_gives_the_same_rows_in_the_next_generation(backend: Backend) -> None:
    log = backend.open()
    some_history(log)
    runner(log).run()
    before = all_held(log)
    seen: list[Progress] = []

    for view in ALL:
        assert rebuild(log.store, log.mapper, view, "me", report=seen.append) == log.store.head()

    assert all_held(log) == before
    assert {one.generation for one in log.store.views.standings().values()} == {1}
    first = [step.position for step in seen[:3]]
    assert first == sorted(set(first)), "no batch moves it on"
    assert {step.head for step in seen} == {log.store.head()}


def test_a_view_that_nobody_followed_yet_is_built_by_a_rebuild(log: JobLog) -> None:
    some_history(log)
    rebuild(log.store, log.mapper, RECOVERY, "me")

    assert queries.recovery_count(log.store) > 0
    assert differences(log, RECOVERY) == []


def test_rows_that_were_spoilt_are_made_new(backend: Backend) -> None:
    log = backend.open()
    some_history(log)
    runner(log).run()
    whole = held(log, RECOVERY)
    spoil(backend, "recovery_rows", detail="nothing to see", done=1)
    assert held(log, RECOVERY) != whole

    rebuild(log.store, log.mapper, RECOVERY, "me")

    assert held(log, RECOVERY) == whole


def test_the_follower_goes_on_in_the_new_generation(backend: Backend) -> None:
    log = backend.open()
    follower = runner(log, "follower")
    some_history(log)
    follower.run()

    rebuild(log.store, log.mapper, RECOVERY, "me")
    some_history(log)
    while follower.step().again:
        pass
    follower.run()

    assert {differences(log, view) == [] for view in ALL} == {True}
    assert generation(log) == 1
    assert {one.position for one in log.store.views.standings().values()} == {log.store.head()}


def test_the_follower_that_is_writing_at_the_switch_writes_nothing_old(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The switch comes between its reading and its writing."""
    log = backend.open()
    some_history(log)
    follower = runner(log, "follower", batch=7)
    follower.step()
    other = backend.open()
    read = log.store.log

    def switched(*args: Any, **more: Any) -> list[LoggedEvent]:
        page = read(*args, **more)
        monkeypatch.setattr(log.store, "log", read)
        rebuild(other.store, other.mapper, RECOVERY, "me")
        return page

    monkeypatch.setattr(log.store, "log", switched)
    follower.step()
    while follower.step().again:
        pass

    assert differences(log, RECOVERY) == []
    assert generation(log) == 1


def test_a_switch_never_goes_back(backend: Backend) -> None:
    """The live one may have come further while the last batch was folded; what readers have seen stays."""
    log = backend.open()
    some_history(log)
    follower = runner(backend.open(), "follower")
    follower.run()
    at_the_end = log.store.head()

    def ahead(step: Progress) -> None:
        if step.head - step.position <= view_rebuild.CATCH_UP and step.head == at_the_end:
            submit(log)
            submit(log)
            follower.run()

    assert rebuild(log.store, log.mapper, VIEWS["counters"], "me", report=ahead) == at_the_end + 2

    assert log.store.views.standings()["counters"].position == at_the_end + 2
    assert differences(log, VIEWS["counters"]) == []


def test_readers_see_the_old_rows_or_the_new_ones(backend: Backend) -> None:
    """S14: whole, at any moment, while followers and workers go on."""
    log = backend.open()
    some_history(log)
    runner(log).run()
    count, done = queries.recovery_count(log.store), threading.Event()
    short: list[int] = []
    reading = backend.open()

    def read() -> None:
        while not done.is_set():
            found = len(reading.store.views.find("recovery", queries._recovery("all", "")))
            if found != count:
                short.append(found)

    thread = threading.Thread(target=read)
    thread.start()
    for _ in range(5):
        rebuild(log.store, log.mapper, RECOVERY, "me")
        drop_old(log.store, RECOVERY)
    done.set()
    thread.join()

    assert short == []


def test_a_second_rebuild_at_once_is_refused_until_the_first_is_dead(backend: Backend) -> None:
    log = backend.open()
    some_history(log)
    with armed("view.rebuild_batch", dying_at(2)), pytest.raises(Killed):
        rebuild(log.store, log.mapper, RECOVERY, "first")

    reached = log.store.views.rebuilds()["recovery"].position
    assert 0 < reached < log.store.head()
    with pytest.raises(RebuildRunningError, match=f"first is rebuilding at position {reached};"):
        rebuild(log.store, log.mapper, RECOVERY, "second")
    rebuild(log.store, log.mapper, VIEWS["counters"], "second")  # another view is another matter
    assert log.store.views.rebuilds()["recovery"].position == reached

    backend.clock.move(31)
    seen: list[Progress] = []
    assert rebuild(log.store, log.mapper, RECOVERY, "second", report=seen.append) == log.store.head()
    assert seen[0].position > reached, "it began anew"
    assert differences(log, RECOVERY) == []
    assert log.store.views.rebuilds() == {}


def test_one_that_was_taken_over_can_do_no_harm(backend: Backend) -> None:
    log = backend.open()
    some_history(log)
    views = log.store.views
    slow = views.rebuild_begin("recovery", 1, (recovery_rows,), "slow", ALIVE_MICROS)
    backend.clock.move(31)
    rebuild(log.store, log.mapper, RECOVERY, "quick")
    write = Folder(RECOVERY, views, slow.generation).fold([], 0, 5)

    with pytest.raises(RebuildRunningError):
        views.rebuild_write(slow, write, ALIVE_MICROS)
    with pytest.raises(RebuildRunningError):
        views.rebuild_switch(slow, 1, lambda *_: write, 0)

    assert generation(log) == 1
    assert differences(log, RECOVERY) == []


def test_a_rebuild_of_other_code_does_not_go_on_with_its_rows(backend: Backend) -> None:
    log = backend.open()
    some_history(log)
    with armed("view.rebuild_batch", dying_at(2)), pytest.raises(Killed):
        rebuild(log.store, log.mapper, replace(RECOVERY, version=9), "me")
    seen: list[Progress] = []

    rebuild(log.store, log.mapper, RECOVERY, "me", report=seen.append)

    assert seen[0].position == 7
    assert differences(log, RECOVERY) == []


def test_an_event_that_can_not_be_folded_leaves_the_live_rows(backend: Backend) -> None:
    log = backend.open()
    some_history(log)
    runner(log).run()
    before = held(log, VIEWS["counters"])

    with pytest.raises(ViewStoppedError, match="can't go past position 9: ZeroDivisionError"):
        rebuild(log.store, log.mapper, faulty("counters", 9), "me")

    assert held(log, VIEWS["counters"]) == before
    assert generation(log, "counters") == 0


def test_a_rebuild_gets_a_stopped_view_going(backend: Backend) -> None:
    log = backend.open()
    some_history(log)
    Runner(log.store, log.mapper, "old code", [faulty("counters", 9)]).run()

    rebuild(log.store, log.mapper, VIEWS["counters"], "me")

    [counters] = [one for one in queries.lag(log.store) if one.name == "counters"]
    assert (counters.position, counters.stopped_at) == (log.store.head(), None)


def test_old_generations_are_dropped_and_the_live_one_stays(backend: Backend) -> None:
    log = backend.open()
    some_history(log)
    runner(log).run()
    whole, count = held(log, RECOVERY), rows_of_all_generations(log)
    for _ in range(2):
        rebuild(log.store, log.mapper, RECOVERY, "me")
    assert rows_of_all_generations(log) == 3 * count

    drop_old(log.store, RECOVERY, limit=2)

    assert held(log, RECOVERY) == whole
    assert rows_of_all_generations(log) == count
    assert log.store.views.standings()["recovery"].old_until is None
    for view in ALL:
        if view.name != "recovery":
            assert differences(log, view) == []


# -- killed --------------------------------------------------------------------------------------------------------------

KILLS = [
    ("follow", "view.elected", 1),
    ("follow", "view.folded", 1),
    ("follow", "view.folded", 9),
    ("follow", "view.rows_written", 3),
    ("follow", "view.rows_written", 8),
    ("follow", "view.before_commit", 1),
    ("follow", "view.before_commit", 3),
    ("follow", "view.after_commit", 2),
    ("rebuild", "view.rebuild_begun", 1),
    ("rebuild", "view.rows_written", 2),
    ("rebuild", "view.rebuild_batch", 1),
    ("rebuild", "view.rebuild_batch", 3),
    ("rebuild", "view.before_switch", 1),
    ("rebuild", "view.after_switch", 1),
    ("drop", "view.dropped", 1),
]


def test_every_point_is_one_where_somebody_is_killed() -> None:
    assert {point for _, point, _ in KILLS} == {point for point in VIEW_POINTS if point.startswith("view.")}


@pytest.mark.faults
@pytest.mark.parametrize(("action", "point", "passes"), KILLS)
def test_a_process_that_is_killed(database: Backend, action: str, point: str, passes: int) -> None:
    """EVT-07: no gap, no repeat; whoever comes next goes on, and readers see whole generations all the time."""
    log = database.open()
    some_history(log)
    if action != "follow":
        runner(log, batch=7).run()
    if action == "drop":
        rebuild(log.store, log.mapper, RECOVERY, "me")
    before = held(log, RECOVERY)

    assert view_children.run(database.url, action, point=point, passes=passes) == -SIGKILL

    if action != "follow":
        assert held(log, RECOVERY) == before
    some_history(log, 2)
    database.clock.move(31)
    runner(log, "next").run()
    assert differences(log, RECOVERY) == []
    if action == "rebuild":
        assert rebuild(log.store, log.mapper, RECOVERY, "next") == log.store.head()
        assert differences(log, RECOVERY) == []
    if action == "drop":
        drop_old(log.store, RECOVERY)
        assert rows_of_all_generations(log) == queries.recovery_count(log.store)
    assert differences(log, VIEWS["counters"]) == []


# -- verify and diff -----------------------------------------------------------------------------------------------------


def test_what_differs_is_told_row_by_row(backend: Backend) -> None:
    log = backend.open()
    held_job = claimed(log)
    held_job.schedule_retry("b", category="network", text="reset")
    log.raise_epoch(ADA, reason="restored")
    runner(log).run()
    spoil(backend, "recovery_rows", detail="nothing")

    found = differences(log, RECOVERY)

    assert [(one.table, one.key, one.columns) for one in found] == [
        ("recovery_rows", (3,), ["detail"]),
        ("recovery_rows", (4,), ["detail"]),
    ]
    assert found[0].stored is not None
    assert found[0].folded is not None
    assert (found[0].stored["detail"], found[0].folded["detail"]) == ("nothing", "reset")
    made = verify(log.store, log.mapper, RECOVERY)
    assert made.stored_digest != made.folded_digest
    assert made.position == log.store.head()


def test_missing_and_foreign_rows_are_told(database: Backend) -> None:
    log = database.open()
    some_history(log, 3)
    runner(log).run()
    database.run("DELETE FROM due_jobs")  # type: ignore[attr-defined]
    database.run("UPDATE job_counts SET kind = 'ghost' WHERE status = 'paused'")  # type: ignore[attr-defined]
    database.run("DELETE FROM view_state WHERE view = 'schedule'")  # type: ignore[attr-defined]

    due = differences(log, VIEWS["schedule"])
    counts = differences(log, VIEWS["counters"])

    assert {(one.table, one.stored is None) for one in due} == {("due_jobs", True), ("view_state", True)}
    assert [(one.key[0] == "", one.key[2], one.stored is None, one.folded is None) for one in counts] == [
        (True, "ghost", False, True),
        (True, "import", True, False),
        (False, "ghost", False, True),
        (False, "import", True, False),
    ]


def test_followers_go_on_while_a_view_is_verified(backend: Backend) -> None:
    log = backend.open()
    follower = runner(backend.open(), "follower")
    some_history(log)
    follower.run()

    def more(_: Progress) -> None:
        submit(log)
        follower.run()

    made = verify(log.store, log.mapper, VIEWS["counters"], report=more)
    assert made.differences == 0
    assert made.stored_digest == made.folded_digest
