"""How far something has come, and how long it still takes."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joblog.api.cli import progress as progressing
from joblog.api.cli.progress import Progress, Rate, line
from joblog.api.cli.settings import Settings
from joblog.api.measure import Measure, Measuring
from joblog.workers.commands.log import JobLog
from tests.api.cli.terminal import claimed, submit


class Ticking:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_rate_is_that_of_the_last_seconds() -> None:
    clock = Ticking()
    rate = Rate(clock)

    assert rate.add(0) == 0.0
    clock.now += 1
    assert rate.add(100) == 100.0
    for second in range(40):
        clock.now += 1
        last = rate.add(100 + 10 * (second + 1))
    assert last == pytest.approx(10.0)


@pytest.mark.parametrize(
    ("measure", "rate", "shown"),
    [
        (Measure(5, None, "unit"), 0.0, "x  5 units"),
        (Measure(1, None, "unit"), 2.5, "x  1 unit  2.5/s"),
        (Measure(50, 200, "row"), 10.0, "x  50/200 rows  25%  10/s  15 s left"),
        (Measure(50, 200, "row", is_estimate=True), 0.0, "x  50/~200 rows  25%"),
        (Measure(200, 200, "row"), 1000.0, "x  200/200 rows 100%  1,000/s"),
        (Measure(0, 0, "row"), 0.0, "x  0 rows"),
    ],
)
def test_a_line(measure: Measure, rate: float, shown: str) -> None:
    assert line("x", measure, rate, "", bar=False) == shown


@given(st.integers(0, 10**12), st.integers(0, 10**12), st.floats(0, 10**9))
def test_any_numbers_make_a_line(done: int, total: int, rate: float) -> None:
    shown = line("x", Measure(done, total, "row"), rate, "(waiting)", bar=True)

    assert shown.endswith("(waiting)")
    assert "-" not in shown


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Settings:
    made = Settings()
    monkeypatch.setattr(progressing, "current", lambda: made)
    return made


def test_elsewhere_it_is_a_plain_line_now_and_then(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    del settings
    clock = Ticking()
    progress = Progress("x", clock=clock)
    for done in range(120):
        progress.update(Measure(done, 120, "unit"))
        clock.now += 0.1
    progress.end()

    lines = capsys.readouterr().err.splitlines()

    assert len(lines) == 3
    assert lines[-1].startswith("x  11")
    assert "/120 units  9" in lines[-1]
    assert "10/s" in lines[-1]


def test_on_a_terminal_one_line_is_redrawn(
    settings: Settings, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    del settings
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    clock = Ticking()
    progress = Progress("x", clock=clock)
    for done in range(3):
        progress.update(Measure(done, 3, "unit"))
        clock.now += 1
    progress.end()
    progress.end()

    said = capsys.readouterr().err

    assert "\n" not in said
    assert said.count("\r") == 4
    assert said.endswith("\r\x1b[K")
    assert "████████░░░░░░░░░░░░░░░░  1/3 units  33%" in said


def test_quiet_is_quiet(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    settings.quiet = True
    progress = Progress("x", clock=Ticking())
    progress.update(Measure(1, 2, "unit"))
    progress.end()

    assert capsys.readouterr().err == ""


# -- measures --------------------------------------------------------------------------------------------------------


@pytest.fixture
def measured(sqlite_log: JobLog) -> Callable[..., Measure]:
    """The measure of a job after some units with this cursor and plan."""

    def measure(*, total: int | None = None, cursor: Any = None, plan: Any = None) -> Measure:
        job_id = submit(sqlite_log, total=total)
        held = claimed(sqlite_log)
        if plan is not None:
            held.complete_units([("step:plan", plan)])
        held.complete_units([("rows:0", {})], cursor=cursor)
        row = sqlite_log.row(held.job_id)
        assert str(row["id"]) == job_id
        return Measuring(sqlite_log).of(row)

    return measure


def at(row: int, offset: int) -> dict[str, Any]:
    return {"b:rows": [1, {"batch": 1, "row": row, "line": row, "offset": offset}]}


def test_units_where_their_number_is_known(measured: Callable[..., Measure]) -> None:
    assert measured(total=7) == Measure(1, 7, "unit")


@pytest.mark.parametrize(
    "cursor", [None, 5, {"b:rows": [1, 17]}, {"b:rows": 3}, {"other": [1, {"row": 1, "offset": 1}]}]
)
def test_units_where_no_file_is_read(measured: Callable[..., Measure], cursor: Any) -> None:
    assert measured(cursor=cursor) == Measure(1, None, "unit")


def test_rows_of_a_file_are_estimated_by_its_bytes(measured: Callable[..., Measure]) -> None:
    plan = {"total": 1100, "start": {"offset": 100}}

    assert measured(cursor=at(50, 600), plan=plan) == Measure(50, 100, "row", is_estimate=True)


def test_at_its_end_the_number_is_known(measured: Callable[..., Measure]) -> None:
    assert measured(cursor=at(97, 1100), plan={"total": 1100, "start": None}) == Measure(97, 97, "row")


@pytest.mark.parametrize("plan", [None, "other", {"total": None, "start": {"offset": 0}}])
def test_rows_of_a_packed_file_have_no_total(measured: Callable[..., Measure], plan: Any) -> None:
    assert measured(cursor=at(50, 600), plan=plan) == Measure(50, None, "row")
