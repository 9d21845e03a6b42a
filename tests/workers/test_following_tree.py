"""Whoever follows the log for its views also lets the tree of hashes grow, in turns that views need not wait for."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from joblog.eventstore.proof_rows import proof_rows
from joblog.projections.proof.check import check_log
from joblog.workers import following as module
from joblog.workers.commands.log import JobLog
from joblog.workers.following import FLOOR_SECONDS, Following
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
