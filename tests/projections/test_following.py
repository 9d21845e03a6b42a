"""A thread that follows the log: woken by what is appended, nearly free when nothing is, replaced when it is gone."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from joblog import JobLog
from joblog.domain.errors import StoreUnavailableError
from joblog.eventstore.wake import Waker
from joblog.projections import queries, view_rebuild
from joblog.projections.views import VIEWS
from joblog.workers import following as module
from joblog.workers.following import FLOOR_SECONDS, Following
from tests.conformance.backends import Backend, SqlBackend
from tests.conformance.builders import armed, once, submit
from tests.patience import until


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GATHER_SECONDS", 0.001)
    monkeypatch.setattr(module, "OTHERS_SECONDS", 0.01)


def positions(log: JobLog) -> set[int]:
    return {one.position for one in log.store.views.standings().values()}


class Minute:
    """A follower whose waiting is a moved clock; counts what it asks of the database."""

    def __init__(self, backend: Backend, log: JobLog) -> None:
        self.backend, self.log = backend, log
        self.following = Following(log)
        self.statements = 0
        store: Any = log.store
        rows = store.sql_rows

        def counted(sql: str, params: Any = (), **how: Any) -> list[Any]:
            self.statements += 1
            found: list[Any] = rows(sql, params, **how)
            return found

        store.sql_rows = counted

    def pass_by(self, seconds: float = 60.0) -> int:
        """How many statements *seconds* without any event cost."""
        self.statements = 0
        end = self.log.clock.monotonic() + seconds
        while (now := self.log.clock.monotonic()) < end:
            self.backend.clock.move(max(self.following.tick(now), 0.001))
        return self.statements


def test_an_idle_minute_costs_a_few_statements(database: Backend) -> None:
    """Of 60 that a whole process may take: for one that leads, for one that waits, and for an empty log."""
    assert isinstance(database, SqlBackend)
    log, other = database.open(), database.open()
    first, second = Minute(database, log), Minute(database, other)
    assert first.pass_by() <= 12
    submit(log)
    first.following.tick(log.clock.monotonic())
    assert positions(log) == {1}

    assert first.pass_by() <= 12
    assert second.pass_by() <= 24


def test_one_that_waits_does_not_look_when_others_append(database: Backend) -> None:
    log, other = database.open(), database.open()
    first, second = Following(log), Minute(database, other)
    submit(log)
    first.tick(log.clock.monotonic())
    submit(log)
    now = other.clock.monotonic()
    second.following.tick(now)

    assert second.following._quiet_until == now + 10


def test_what_is_appended_is_followed(backend: Backend, quick: None) -> None:
    log = backend.open()
    following = Following(log)
    following.start()
    try:
        for count in range(1, 4):
            submit(log)
            until(lambda count=count: positions(log) == {count})  # type: ignore[misc]
    finally:
        following.stop()
    assert {one.owner for one in log.store.views.standings().values()} == {""}


def test_a_process_is_woken_by_another(database: Backend, quick: None) -> None:
    following = Following(database.open())
    following.start()
    try:
        log = database.open()
        submit(log)
        until(lambda: positions(log) == {1})
    finally:
        following.stop()


def test_what_was_appended_last_is_followed_before_it_stops(backend: Backend) -> None:
    log = backend.open()
    following = Following(log)
    following._stopped.set()
    submit(log)

    following.run()

    assert positions(log) == {1}


def test_another_follows_when_one_has_stopped(backend: Backend, quick: None) -> None:
    log = backend.open()
    first, second = Following(log), Following(backend.open())
    first.start()
    submit(log)
    until(lambda: positions(log) == {1})
    first.stop()
    second.start()
    try:
        submit(log)
        until(lambda: positions(log) == {2})
    finally:
        second.stop()


def test_a_store_that_is_away_for_a_while(backend: Backend, quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AWAY_SECONDS", 0.0)
    log = backend.open()
    following = Following(log)
    with armed("view.before_commit", once(StoreUnavailableError("away"))):
        following.start()
        try:
            submit(log)
            until(lambda: positions(log) == {1})
        finally:
            following.stop()


def test_a_fault_in_the_follower_ends_nothing_else(
    backend: Backend, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    following = Following(backend.open())
    monkeypatch.setattr(following.runner, "step", lambda **_: 1 / 0)

    assert following._tick() == FLOOR_SECONDS
    assert "ZeroDivisionError" in caplog.text


def test_a_view_of_older_code_is_made_new(backend: Backend) -> None:
    log = backend.open()
    submit(log)
    Following(log).tick(log.clock.monotonic())
    newer = Following(backend.open(), [replace(VIEWS["counters"], version=2)])

    newer.tick(log.clock.monotonic())

    counters = log.store.views.standings()["counters"]
    assert (counters.version, counters.generation, counters.position) == (2, 1, 1)
    submit(log)
    newer.tick(log.clock.monotonic())
    assert queries.counters(log.store) == {("queued",): 2}


def test_the_generation_before_is_dropped_once_nobody_reads_it(backend: Backend) -> None:
    log = backend.open()
    submit(log)
    following = Following(log)
    following.tick(log.clock.monotonic())
    view_rebuild.rebuild(log.store, log.mapper, VIEWS["counters"], "me")

    def kept() -> bool:
        backend.clock.move(30)
        following.tick(log.clock.monotonic())
        return log.store.views.standings()["counters"].old_until is not None

    assert [kept(), kept()] == [True, False]
    assert queries.counters(log.store) == {("queued",): 1}


def test_files_of_notes_are_taken_in_as_they_grow(backend: Backend, tmp_path: Path) -> None:
    log = backend.open()
    file = tmp_path / "recovery-events.jsonl"
    following = Following(log, files=[str(file)])
    kinds: list[str] = []
    for kind in ("a", "b"):
        with file.open("ab") as opened:
            opened.write(orjson.dumps({"type": kind}) + b"\n")
        backend.clock.move(FLOOR_SECONDS)
        following.tick(log.clock.monotonic())
        kinds.append(kind)
        assert [row["type"] for row in queries.recovery_page(log.store).rows] == kinds[::-1]
    head = log.store.head()
    backend.clock.move(FLOOR_SECONDS)
    following.tick(log.clock.monotonic())
    assert log.store.head() == head


def test_who_wants_only_what_was_seen_is_not_polled() -> None:
    waker = Waker()
    seen: list[str] = []
    waker.subscribe(lambda: seen.append("all"))
    waker.subscribe(lambda: seen.append("seen"), seen_only=True)

    waker.wake_all(seen=False)
    waker.wake_all(ready=False)
    waker.notify()

    assert seen == ["all", "all", "seen", "all", "seen"]


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    yield
    from threading import enumerate as threads

    assert not [thread for thread in threads() if thread.name == "joblog-views"]
