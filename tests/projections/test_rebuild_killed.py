"""A rebuild that is killed anywhere goes on where it was; the live rows are never touched, and a second one is refused."""

import signal

import pytest

from joblog.domain.errors import RebuildRunningError
from joblog.eventstore.store import RowChange
from joblog.projections import rebuild as rebuild_module
from joblog.projections.rebuild import ALIVE_MICROS, Progress, rebuild
from joblog.projections.verify import row_differences
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import armed, claim, submit
from tests.projections import children
from tests.projections.dying import Killed, dying_at
from tests.projections.histories import rows_of


def some_jobs(log: JobLog, count: int = 10) -> None:
    for _ in range(count):
        submit(log)
    for number, held in enumerate(claim(log)):
        held.complete_units([(f"u{held.job.done}", 1)], cursor=number)
        held.complete() if number % 2 else held.release("yield")


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuild_module, "BATCH", 7)
    monkeypatch.setattr(rebuild_module, "CATCH_UP", 3)


@pytest.mark.faults
@pytest.mark.parametrize(
    ("point", "passes", "switched"),
    [
        ("rebuild.begun", 1, False),
        ("rebuild.batch", 1, False),
        ("rebuild.batch", 3, False),
        ("rebuild.before_switch", 1, False),
        ("rebuild.after_switch", 1, True),
        ("rebuild.dropped", 1, True),
    ],
)
def test_a_process_that_is_killed_in_a_rebuild(database: Backend, point: str, passes: int, *, switched: bool) -> None:
    log = database.open()
    some_jobs(log)
    live = rows_of(log)
    child = children.start(database.url, point=point, passes=passes)
    children.go(child)

    assert children.end(child)[0] == -signal.SIGKILL

    assert log.store.state().generation == int(switched)
    assert rows_of(log) == live
    some_jobs(log, 3)
    live = rows_of(log)
    database.clock.move(31)
    assert rebuild(log.store, log.mapper, "me") == log.store.head()
    assert rows_of(log) == live
    assert list(row_differences(log.store, log.mapper)) == []
    log.store.rebuild_drop_old()
    some_jobs(log, 3)
    assert list(row_differences(log.store, log.mapper)) == []


@pytest.mark.parametrize("passes", [1, 2, 4])
def test_it_goes_on_at_its_last_written_position(backend: Backend, passes: int) -> None:
    log = backend.open()
    some_jobs(log)
    live = rows_of(log)
    with armed("rebuild.batch", dying_at(passes)), pytest.raises(Killed):
        rebuild(log.store, log.mapper, "me")

    generation, position = log.store.rebuild_begin("me", ALIVE_MICROS)
    assert (generation, position) == (1, 7 * passes)
    seen: list[Progress] = []
    rebuild(log.store, log.mapper, "me", report=seen.append)

    assert seen[0].position == min(7 * (passes + 1), log.store.head())
    assert rows_of(log) == live


def test_another_takes_a_dead_one_over_where_it_was(backend: Backend) -> None:
    log = backend.open()
    some_jobs(log)
    live = rows_of(log)
    with armed("rebuild.batch", dying_at(2)), pytest.raises(Killed):
        rebuild(log.store, log.mapper, "first")

    backend.clock.move(30, micros=-1)
    with pytest.raises(RebuildRunningError, match="first is rebuilding at position 14"):
        log.store.rebuild_begin("second", ALIVE_MICROS)
    backend.clock.move(micros=1)
    assert log.store.rebuild_begin("second", ALIVE_MICROS) == (1, 14)
    rebuild(log.store, log.mapper, "second")

    assert rows_of(log) == live


def test_each_step_keeps_it_alive(backend: Backend) -> None:
    log = backend.open()
    some_jobs(log)
    other = backend.open()

    def look(_: Progress) -> None:
        backend.clock.move(29)
        with pytest.raises(RebuildRunningError):
            other.store.rebuild_begin("other", ALIVE_MICROS)

    rebuild(log.store, log.mapper, "me", report=look)
    assert list(row_differences(log.store, log.mapper)) == []


def test_one_that_was_taken_over_can_do_no_harm(backend: Backend) -> None:
    """It was only slow: stopped, or asleep."""
    log = backend.open()
    some_jobs(log)
    live = rows_of(log)
    slow = log.store.rebuild_begin("slow", ALIVE_MICROS)
    backend.clock.move(31)
    generation, position = log.store.rebuild_begin("quick", ALIVE_MICROS)
    rows: list[RowChange] = []

    with pytest.raises(RebuildRunningError, match="taken over"):
        log.store.rebuild_write(slow[0], rows, 5, "slow", ALIVE_MICROS)
    with pytest.raises(RebuildRunningError, match="taken over"):
        log.store.rebuild_switch(slow[0], slow[1], "slow", lambda _: [])

    assert (generation, position) == slow
    rebuild(log.store, log.mapper, "quick")
    with pytest.raises(RebuildRunningError):
        log.store.rebuild_switch(slow[0], slow[1], "slow", lambda _: [])
    assert rows_of(log) == live


def test_a_rebuild_that_is_under_way_keeps_its_rows_when_the_old_ones_are_dropped(backend: Backend) -> None:
    log = backend.open()
    some_jobs(log)
    live = rows_of(log)
    with armed("rebuild.batch", dying_at(2)), pytest.raises(Killed):
        rebuild(log.store, log.mapper, "me")

    log.store.rebuild_drop_old()
    rebuild(log.store, log.mapper, "me")

    assert rows_of(log) == live


def test_a_rebuild_can_be_repeated_for_ever(backend: Backend) -> None:
    log = backend.open()
    for generation in range(1, 6):
        some_jobs(log, 2)
        live = rows_of(log)
        rebuild(log.store, log.mapper, f"owner-{generation}")
        assert (log.store.state().generation, rows_of(log)) == (generation, live)


def test_an_empty_log_can_be_rebuilt(backend: Backend) -> None:
    log = backend.open()

    assert rebuild(log.store, log.mapper, "me") == 0
    submit(log)
    assert list(row_differences(log.store, log.mapper)) == []
