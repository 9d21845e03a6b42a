"""Whoever follows the log for its views also lets the tree of hashes grow, in turns that nobody need wait for."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from joblog.eventstore.proof_rows import proof_rows
from joblog.projections.proof.check import check_log
from joblog.workers import following as module
from joblog.workers.commands.log import JobLog
from joblog.workers.following import FLOOR_SECONDS, GATHER_SECONDS, Following
from tests.clocks import MovedClock
from tests.conformance.backends import SqliteBackend
from tests.conformance.builders import submit


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[SqliteBackend]:
    backend = SqliteBackend(f"sqlite:///{tmp_path / 'joblog.db'}", MovedClock())
    yield backend
    backend.close()


def size(log: JobLog) -> int:
    return proof_rows(log.store).tree_size()


def test_the_tree_grows_at_each_look_and_not_between(backend: SqliteBackend) -> None:
    log = backend.open()
    following = Following(log)
    for number in range(5):
        submit(log, f"a{number}")
    following.tick(0)
    assert size(log) == log.store.head()
    submit(log, "later")
    following.tick(1)
    assert size(log) == log.store.head() - 1

    following.tick(FLOOR_SECONDS)

    assert size(log) == log.store.head()
    assert check_log(log.store).findings == []


def test_a_long_backlog_is_taken_in_turns(backend: SqliteBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAVES", 4)
    log = backend.open()
    following = Following(log)
    for number in range(10):
        submit(log, f"a{number}")

    sizes = []
    for look in range(4):
        following.tick(look * FLOOR_SECONDS)
        sizes.append(size(log))

    assert sizes == [4, 8, 10, 10]


def test_it_grows_a_little_at_a_time_and_waits_while_this_process_appends(
    backend: SqliteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SLICE", 2)
    monkeypatch.setattr(module, "LEAVES", 7)
    log = backend.open()
    following = Following(log)

    def grown(now: float, *, appends: int) -> tuple[float, int]:
        for number in range(appends):
            submit(log, f"{now}-{number}")
        return following.tick(now), size(log)

    assert grown(0, appends=9) == (GATHER_SECONDS, 2)
    assert grown(1, appends=0) == (0, 4)
    assert grown(2, appends=1) == (GATHER_SECONDS, 6)
    assert grown(3, appends=1) == (FLOOR_SECONDS - 3, 7)
    assert grown(4, appends=0) == (FLOOR_SECONDS - 4, 7)
    assert grown(FLOOR_SECONDS, appends=0) == (GATHER_SECONDS, 9)
    assert grown(FLOOR_SECONDS, appends=0) == (FLOOR_SECONDS, 11)


def test_others_that_append_do_not_make_it_wait(backend: SqliteBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLICE", 2)
    log, other = backend.open(), backend.open()
    following = Following(log)
    for number in range(6):
        submit(other, f"a{number}")

    assert [following.tick(0) for _ in range(3)] == [0, 0, FLOOR_SECONDS]
    assert size(log) == 6


def test_a_log_that_was_cut_off_is_said_and_stops_no_view(
    backend: SqliteBackend, caplog: pytest.LogCaptureFixture
) -> None:
    log = backend.open()
    following = Following(log)
    submit(log, "a")
    following.tick(0)
    backend.run("UPDATE tracking SET notification_id = 30 WHERE application_name = 'tree'")
    submit(log, "b")

    following.tick(FLOOR_SECONDS)

    assert "the log is not what its tree has seen: the log ends at 2" in caplog.text
    assert following.runner.step().led
