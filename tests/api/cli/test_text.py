"""How things are written for people, and read from them."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joblog.api.cli.terminal import table
from joblog.api.instants import parse_instant, parse_span
from joblog.api.text import clean, clock_time, counted, iso, size, span
from joblog.domain.errors import InvalidFieldError

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


@given(st.text())
def test_nothing_that_steers_a_terminal_gets_through(text: str) -> None:
    shown = clean(text)

    assert shown.isprintable() or "\u3000" in shown or any(char.isspace() for char in shown)
    assert not {"\x1b", "\n", "\r", "\x08", "\x9b", "\u202e", "\u2028"} & set(shown)


@given(st.text(st.characters(categories=["L", "N", "P", "S"])))
def test_letters_of_every_language_stay(text: str) -> None:
    assert clean(text) == text


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0.0 s"),
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (59.4, "59 s"),
        (61, "1 min 1 s"),
        (3600, "1 h 0 min"),
        (90000, "1 d 1 h"),
    ],
)
def test_spans(seconds: float, shown: str) -> None:
    assert span(seconds) == shown
    assert span(-seconds) in {shown, f"-{shown}"}


@given(st.floats(0, 10**9))
def test_a_span_never_shows_sixty_of_anything(seconds: float) -> None:
    assert "60 s" not in span(seconds)
    assert "60 min" not in span(seconds)


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (16_400_000, "16.4 MB"), (2 * 10**12, "2.0 TB")]
)
def test_sizes(count: int, shown: str) -> None:
    assert size(count) == shown


def test_counts_and_instants() -> None:
    assert (counted(1, "job"), counted(2000, "job")) == ("1 job", "2,000 jobs")
    assert iso(0) == "1970-01-01T00:00:00Z"
    assert iso(None) is None
    assert len(clock_time(NOW, NOW)) == 8
    assert clock_time(NOW - timedelta(days=400), NOW).startswith("2028-11-2")


def test_a_table_aligns_whatever_its_colours_and_keeps_its_head_without_rows() -> None:
    assert table(["A", "B"], []) == ["A  B"]
    assert table(["A", "B"], [["\x1b[31mlong\x1b[0m", "x"], ["y", "z"]]) == [
        "A     B",
        "\x1b[31mlong\x1b[0m  x",
        "y     z",
    ]


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("5m", 300), ("1h30m", 5400), ("2d", 172_800), ("0.5s", 0.5)]
)
def test_spans_as_people_type_them(text: str, seconds: float) -> None:
    assert parse_span(text, "timeout") == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "soon", "5 m", "-5m", "5x", "1e9", "9" * 400])
def test_what_is_no_span(text: str) -> None:
    with pytest.raises(InvalidFieldError, match="no span"):
        parse_span(text, "timeout")


def test_instants_as_people_type_them() -> None:
    assert parse_instant("+5m", "at", NOW) == NOW + timedelta(minutes=5)
    assert parse_instant("2030-01-31T09:00Z", "at", NOW) == datetime(2030, 1, 31, 9, tzinfo=UTC)
    assert parse_instant("2030-01-31T09:00+02:00", "at", NOW) == datetime(2030, 1, 31, 7, tzinfo=UTC)
    assert parse_instant("2030-01-31", "at", NOW) == datetime(2030, 1, 31).astimezone(UTC)


@pytest.mark.parametrize("text", ["", "tomorrow", "2030-13-01", "0001-01-01T00:00+14:00", "+"])
def test_what_is_no_instant(text: str) -> None:
    with pytest.raises(InvalidFieldError):
        parse_instant(text, "at", NOW)
