"""The bounded retry of busy writes (BSY-01…12), with a clock and waits that only the test moves."""

import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from joblog.domain.errors import (
    CorruptLogError,
    JobLogError,
    SchemaMissingError,
    StoreBusyError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
    UnknownOutcomeError,
    VersionConflictError,
)
from joblog.domain.job import Actor
from joblog.eventstore.append import Stored
from joblog.eventstore.busy import BusyRetry
from joblog.eventstore.clock import SystemRandom
from joblog.eventstore.sql_connections import Pinned
from joblog.workers.commands.held import Held
from joblog.workers.commands.log import JobLog
from tests.clocks import MovedClock
from tests.conformance.builders import a_spec, an_append


class Dice:
    """Randomness that always says the same."""

    def __init__(self, number: float = 0.5) -> None:
        self._number = number

    def random(self) -> float:
        return self._number


class Failing:
    """A write that fails some times before it passes, and notes when it was called."""

    def __init__(self, *errors: BaseException, took: float = 0.0, clock: MovedClock | None = None) -> None:
        self._errors, self._took, self._clock = list(errors), took, clock
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        if self._clock is not None:
            self._clock.move(self._took)
        if self._errors:
            raise self._errors.pop(0)
        return "done"


def a_retry(**settings: Any) -> tuple[BusyRetry, list[float]]:
    waits: list[float] = []
    return BusyRetry(MovedClock(), Dice(), wait=waits.append, **settings), waits


def busy(count: int) -> list[StoreBusyError]:
    return [StoreBusyError(f"try {n}") for n in range(count)]


def test_a_write_that_passes_is_called_once() -> None:
    retry, waits = a_retry()
    write = Failing()

    assert (retry.run(write), write.calls, waits) == ("done", 1, [])
    assert retry.counts == {"retried": 0, "recovered": 0, "gave_up": 0}


def test_a_busy_write_is_tried_again() -> None:
    retry, waits = a_retry()
    write = Failing(*busy(3))

    assert (retry.run(write), write.calls) == ("done", 4)
    assert waits == [0.025, 0.05, 0.1]
    assert retry.counts == {"retried": 3, "recovered": 1, "gave_up": 0}


@pytest.mark.parametrize("error", [StoreBusyError, StoreUnavailableError, UnknownOutcomeError])
def test_passing_faults_are_tried_again(error: type[JobLogError]) -> None:
    """BSY-02."""
    assert a_retry()[0].run(Failing(error("passing"))) == "done"


@pytest.mark.parametrize(
    "error",
    [
        StoreFullError("disk full"),
        SchemaMissingError("no table"),
        CorruptLogError("malformed"),
        StoreError("syntax"),
        VersionConflictError(None, 1),
        KeyError("a fault of ours"),
        KeyboardInterrupt(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_other_faults_fail_on_the_first_try(error: BaseException) -> None:
    """BSY-02: disk full and schema errors do not pass by waiting."""
    retry, waits = a_retry()
    write = Failing(error)

    with pytest.raises(type(error)) as raised:
        retry.run(write)

    assert raised.value is error
    assert (write.calls, waits) == (1, [])


def test_a_wait_doubles_up_to_its_cap_and_jitters_around_it() -> None:
    """BSY-03, BSY-04."""
    retry = BusyRetry(MovedClock(), SystemRandom())
    for n in range(1, 12):
        bare = min(400, 25 * 2 ** (n - 1)) / 1000
        steps = [retry.step(n) for _ in range(500)]
        assert bare / 2 <= min(steps) < bare * 0.6
        assert bare * 1.4 < max(steps) < bare * 1.5
    assert max(retry.step(9) for _ in range(500)) <= 0.6


@pytest.mark.parametrize("retry", [1, 40, 10_000])
def test_a_wait_is_never_nought_and_never_overflows(retry: int) -> None:
    for number in (0.0, 0.999_999):
        made = BusyRetry(MovedClock(), Dice(number), base_ms=1, max_ms=1)
        assert 0 < made.step(retry) < 0.0015


def test_attempts_count_the_first_try() -> None:
    retry, waits = a_retry(attempts=3, total_ms=10**9)
    write = Failing(*busy(9))

    with pytest.raises(StoreBusyError):
        retry.run(write)

    assert (write.calls, len(waits)) == (3, 2)
    assert retry.counts == {"retried": 2, "recovered": 0, "gave_up": 1}


def test_it_gives_up_where_the_next_wait_would_cross_the_budget() -> None:
    """BSY-05: 100 tries, 10 ms."""
    retry, waits = a_retry(attempts=100, total_ms=200, base_ms=25)
    write = Failing(*busy(200))

    with pytest.raises(StoreBusyError):
        retry.run(write)

    assert waits == [0.025, 0.05, 0.1]  # the next, 0.2, would make 0.375
    assert write.calls == 4


def test_at_least_one_retry_is_made_however_long_the_first_try_took() -> None:
    """BSY-06: "0 retried, N given up" is what users saw."""
    clock = MovedClock()
    waits: list[float] = []
    retry = BusyRetry(clock, Dice(), total_ms=10, base_ms=400, wait=waits.append)
    write = Failing(*busy(1), took=2.1, clock=clock)

    assert (retry.run(write), write.calls, waits) == ("done", 2, [0.4])


def test_the_last_error_is_raised_unchanged() -> None:
    """BSY-07."""
    retry, _ = a_retry(attempts=3)
    errors = busy(3)

    with pytest.raises(StoreBusyError) as raised:
        retry.run(Failing(*errors))

    assert raised.value is errors[-1]
    assert raised.value.args == ("try 2",)


def test_one_summary_a_period_and_none_about_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """BSY-09."""
    clock = MovedClock()
    retry = BusyRetry(clock, Dice(), wait=lambda _: None, log_ms=60_000)
    with caplog.at_level(logging.INFO, logger="joblog.eventstore.busy"):
        retry.run(Failing())
        assert not caplog.records
        for _ in range(5):
            retry.run(Failing(*busy(1)))
        assert [record.getMessage() for record in caplog.records] == ["busy writes: 1 retried, 1 recovered, 0 given up"]
        clock.move(60)
        retry.run(Failing(*busy(1)))

    assert caplog.records[-1].getMessage() == "busy writes: 6 retried, 6 recovered, 0 given up"
    assert len(caplog.records) == 2


def test_giving_up_is_said_each_time(caplog: pytest.LogCaptureFixture) -> None:
    retry, _ = a_retry(attempts=1)
    for _ in range(2):
        with pytest.raises(StoreBusyError):
            retry.run(Failing(*busy(9)))

    assert [record.levelname for record in caplog.records if "gave up" in record.getMessage()] == ["WARNING"] * 2


@pytest.mark.parametrize(
    ("text", "attempts"),
    [
        ("7", 7),
        ("0", 1),
        ("1", 1),
        ("", 5),
        ("-1", 5),
        ("5abc", 5),
        ("1.5", 5),
        (" 3", 5),
        ("²", 5),
        ("٣", 5),
        ("1e3", 5),
    ],
)
def test_settings_that_are_no_number_mean_the_default(text: str, attempts: int) -> None:
    """BSY-10."""
    made = BusyRetry.from_env(MovedClock(), Dice(), {"JOBLOG_DB_RETRY_ATTEMPTS": text})

    assert made.attempts == attempts


def test_every_setting_has_a_name_and_a_least_value() -> None:
    names = {"ATTEMPTS": "0", "BASE_MS": "0", "MAX_MS": "0", "TOTAL_MS": "0", "LOG_MS": "0"}
    made = BusyRetry.from_env(MovedClock(), Dice(), {f"JOBLOG_DB_RETRY_{name}": text for name, text in names.items()})
    default = BusyRetry.from_env(MovedClock(), Dice(), {})

    assert (made.attempts, made.base_ms, made.max_ms, made.total_ms, made.log_ms) == (1, 1, 1, 0, 0)
    assert (default.attempts, default.base_ms, default.max_ms) == (5, 25, 400)
    assert (default.total_ms, default.log_ms) == (2000, 60_000)


def test_the_whole_budget_fits_into_a_third_of_the_lease() -> None:
    """BSY-12: a renewal that meets contention is still in time."""
    retry, waits = a_retry()
    with pytest.raises(StoreBusyError):
        retry.run(Failing(*busy(99)))

    assert sum(waits) * 1.5 <= 2.0 < 30 / 3


# -- on the store: whole transactions, never statements (BSY-01, BSY-08, BSY-11) ----------------------------------------


class Spy:
    """A cursor that fails at chosen statements, as SQLite does."""

    def __init__(self, cursor: Any, fail: Callable[[str], BaseException | None], seen: list[str]) -> None:
        self._cursor, self._fail, self._seen = cursor, fail, seen

    def execute(self, sql: str, *more: Any) -> Any:
        self._check(sql)
        return self._cursor.execute(sql, *more)

    def executemany(self, sql: str, *more: Any) -> Any:
        self._check(sql)
        return self._cursor.executemany(sql, *more)

    def _check(self, sql: str) -> None:
        self._seen.append(sql)
        if error := self._fail(sql):
            raise error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)


@contextmanager
def failing(monkeypatch: pytest.MonkeyPatch, start: str, errors: list[BaseException]) -> Iterator[list[str]]:
    """Let statements that begin with *start* fail with *errors*, one after the other; notes what is run."""
    seen: list[str] = []
    opened = Pinned.open

    def spy(pinned: Pinned) -> Any:
        return Spy(opened(pinned), lambda sql: errors.pop(0) if errors and sql.startswith(start) else None, seen)

    with monkeypatch.context() as patch:
        patch.setattr(Pinned, "open", spy)
        yield seen


def an_error(code: int, text: str = "database is locked") -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    return error


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def log(tmp_path: Path, waits: list[float]) -> Iterator[JobLog]:
    clock = MovedClock()
    retry = BusyRetry(clock, Dice(), wait=waits.append)
    with JobLog.open(f"sqlite:///{tmp_path / 'joblog.db'}", clock=clock, busy=retry) as log:
        yield log


AT = {"BEGIN": "BEGIN", "a statement": "INSERT INTO events", "COMMIT": "COMMIT"}


@pytest.mark.parametrize("start", AT.values(), ids=AT)
@pytest.mark.parametrize("code", [sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_BUSY_SNAPSHOT])
def test_busy_anywhere_repeats_the_whole_transaction(
    log: JobLog, waits: list[float], monkeypatch: pytest.MonkeyPatch, start: str, code: int
) -> None:
    """BSY-11: busy at COMMIT leaves a transaction open, which is ended first."""
    append = an_append(size=2)

    with failing(monkeypatch, start, [an_error(code), an_error(code)]) as seen:
        answer = log.writer.append(append)

    assert answer == Stored(1)
    assert waits == [0.025, 0.05]
    assert sum(sql.startswith("BEGIN") for sql in seen) == 3
    assert [event.state for event in log.store.log(0, 9)] == [row.state for row in append.events]
    assert log.writer.append(an_append()) == Stored(3)


def test_arguments_are_the_same_on_every_try(log: JobLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """BSY-08: ids are chosen before the first."""
    given: list[Any] = []
    append = log.store.append

    def note(batch: Any, *more: Any, **options: Any) -> int:
        given.append([(one.stream_id, one.expected, one.event_id, tuple(one.events)) for one in batch])
        if len(given) < 4:
            raise StoreBusyError("busy")
        return append(batch, *more, **options)

    monkeypatch.setattr(log.store, "append", note)
    log.submit(a_spec())

    assert len(given) == 4
    assert given[1:] == given[:1] * 3


@pytest.mark.parametrize("start", AT.values(), ids=AT)
def test_a_store_that_stays_busy_is_said_so_and_nothing_is_written(
    log: JobLog, waits: list[float], monkeypatch: pytest.MonkeyPatch, start: str
) -> None:
    with failing(monkeypatch, start, [an_error(sqlite3.SQLITE_BUSY) for _ in range(99)]):
        answer = log.writer.append(an_append())

    assert isinstance(answer, StoreBusyError)
    assert len(waits) == 4
    assert log.store.head() == 0
    assert log.writer.append(an_append()) == Stored(1)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (sqlite3.SQLITE_FULL, StoreFullError),
        (sqlite3.SQLITE_READONLY, StoreFullError),
        (sqlite3.SQLITE_CORRUPT, CorruptLogError),
        (sqlite3.SQLITE_ERROR, StoreError),
    ],
)
def test_what_does_not_pass_fails_on_the_first_try(
    log: JobLog, waits: list[float], monkeypatch: pytest.MonkeyPatch, code: int, error: type[StoreError]
) -> None:
    with failing(monkeypatch, "INSERT INTO events", [an_error(code, "no") for _ in range(9)]):
        answer = log.writer.append(an_append())

    assert type(answer) is error
    assert waits == []
    assert log.writer.append(an_append()) == Stored(1)


def test_a_full_disk_at_the_commit_is_definite(
    log: JobLog, waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In WAL mode the pages are written there, so that is where it fills."""
    with failing(monkeypatch, "COMMIT", [an_error(sqlite3.SQLITE_FULL, "database or disk is full")]):
        answer = log.writer.append(an_append())

    assert isinstance(answer, StoreFullError)
    assert (waits, log.store.head()) == ([], 0)


@pytest.mark.parametrize("code", [sqlite3.SQLITE_IOERR, sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_NOMEM])
def test_another_fault_at_the_commit_is_unknown_until_read_back(
    log: JobLog, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    with failing(monkeypatch, "COMMIT", [an_error(code, "disk I/O error")]):
        assert log.writer.append(an_append()) == Stored(1)
    with failing(monkeypatch, "COMMIT", [an_error(code, "disk I/O error") for _ in range(99)]):
        assert isinstance(log.writer.append(an_append()), UnknownOutcomeError)

    assert log.store.head() == 1


WRITES: dict[str, Callable[[JobLog, Held], Any]] = {
    "submit": lambda log, _: log.submit(a_spec()),
    "claim": lambda log, _: log.claim("w"),
    "renew": lambda log, held: log.renew([held]),
    "promote": lambda log, _: log.promote(),
    "units": lambda _, held: held.complete_units([("a", 1)]),
    "command": lambda log, held: log.command("pause", held.job_id, Actor("ada")),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_writes_of_every_kind_are_tried_again(
    log: JobLog, waits: list[float], monkeypatch: pytest.MonkeyPatch, write: Callable[[JobLog, Held], Any]
) -> None:
    """BSY-01."""
    for seconds in (0, 0, 10):
        log.submit(a_spec(due_at=log.now() + timedelta(seconds=seconds)))
    [held] = log.claim("w")
    log.clock.move(10)  # type: ignore[attr-defined]

    with failing(monkeypatch, "BEGIN", [an_error(sqlite3.SQLITE_BUSY)]):
        write(log, held)

    assert waits == [0.025]


def test_reads_are_not_retried_by_it(log: JobLog, waits: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """BSY-01: a reader of a WAL waits for nobody."""
    with (
        failing(monkeypatch, "SELECT", [an_error(sqlite3.SQLITE_BUSY) for _ in range(9)]),
        pytest.raises(StoreBusyError),
    ):
        log.store.head()

    assert waits == []


def test_a_write_waits_for_a_stranger_who_holds_the_file(tmp_path: Path) -> None:
    """Not one of ours: he knows no writer lock, so SQLite says busy; the retry gets through once he is gone."""
    path = tmp_path / "joblog.db"
    with sqlite3.connect(path, isolation_level=None) as stranger:
        waited: list[float] = []

        def wait(seconds: float) -> None:
            waited.append(seconds)
            stranger.execute("ROLLBACK")

        retry = BusyRetry(MovedClock(), Dice(), wait=wait)
        with JobLog.open(f"sqlite:///{path}", clock=MovedClock(), busy=retry) as log:
            stranger.execute("BEGIN IMMEDIATE")
            assert log.writer.append(an_append()) == Stored(1)
    stranger.close()

    assert waited == [0.025]
