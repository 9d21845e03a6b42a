"""The gate for texts and payloads: kept exactly, or refused by path."""

import math
import sys
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from joblog.domain import storable
from joblog.domain.errors import InputError, InvalidFieldError, TooLargeError, UnstorableError

ANY_TEXT = st.text(st.characters(exclude_categories=()))  # lone surrogates, NUL and all
HARD_TEXT = st.text(st.sampled_from(["\\", "u", "0", "\0", "\ud800", "\udfff", "d", "é"]))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text().filter(lambda key: "\0" not in key), inner),
)


def nested(depth: int, innermost: Any) -> Any:
    value = innermost
    for _ in range(depth):
        value = [value]
    return value


@given(ANY_TEXT | HARD_TEXT)
@example("\\\0")
@example("\\u0000\0\\\\\ud800")
@example("\\u")
def test_an_escaped_text_is_storable_and_comes_back(value: str) -> None:
    escaped = storable.escape(value)

    assert "\0" not in escaped
    escaped.encode()
    assert storable.unescape(escaped) == value


@given(HARD_TEXT, HARD_TEXT)
@example("\\\0", "\\u0000")
def test_two_texts_never_meet_in_one_escaped_text(one: str, other: str) -> None:
    assert (storable.escape(one) == storable.escape(other)) == (one == other)


@given(st.text())
def test_what_no_escape_made_is_left_alone(value: str) -> None:
    """Reading back a text that somebody else wrote must not raise."""
    storable.unescape(value)
    assert storable.unescape("\\uXYZ") == "\\uXYZ"


def test_a_long_run_of_backslashes_is_no_burden() -> None:
    """A quadratic pattern would take minutes on this."""
    run = "\\" * 1_000_000

    assert storable.escape(run) == storable.unescape(run) == run


@given(ANY_TEXT, st.integers(1, 50))
def test_a_failure_text_is_always_storable_and_bounded(value: str, limit: int) -> None:
    made = storable.text(value, limit=limit)

    assert "\0" not in made
    assert len(made.encode()) <= 12 * limit


def test_a_long_text_is_cut_with_a_mark() -> None:
    assert storable.text("x" * 501) == "x" * 499 + "…"
    assert storable.text("x" * 500) == "x" * 500


def test_even_an_exception_without_a_text_has_one() -> None:
    class Mute(Exception):  # noqa: N818
        def __str__(self) -> str:
            raise ValueError

    assert storable.text(Mute()) == "<Mute without a text>"
    assert storable.text(ValueError("no")) == "no"
    assert storable.text(10**5000) == "<int without a text>"


@given(VALUES)
def test_an_accepted_value_survives_json_exactly(value: Any) -> None:
    assert storable.payload(value, "args") is value

    again = orjson.loads(orjson.dumps(value))
    assert again == value
    assert repr(again) == repr(value)


@pytest.mark.parametrize(
    ("bad", "path"),
    [
        (math.nan, "args"),
        ([1, math.inf], "args[1]"),
        ({"a": -math.inf}, "args.a"),
        ({"rows": [{}, {"name": b"x"}]}, "args.rows[1].name"),
        ({"a": "\ud800"}, "args.a"),
        ({"a": "\0\ud800"}, "args.a"),
        ({"a": "é\0\udfff"}, "args.a"),
        ([2**63], "args[0]"),
        ([-(2**63) - 1], "args[0]"),
        ([2**70], "args[0]"),
        ({"a": (1, 2)}, "args.a"),
        ({"a": {1}}, "args.a"),
        ({"a": object}, "args.a"),
        ({"a": {1: "x"}}, "args.a.1"),
        ({"a": {None: "x"}}, "args.a.None"),
        ({"a\0": 1}, r"args.a\u0000"),
        ({"\ud800": 1}, r"args.\ud800"),
        ([[{"deep": [complex(1)]}]], "args[0][0].deep[0]"),
    ],
)
def test_a_value_that_no_store_keeps_is_refused_by_its_path(bad: Any, path: str) -> None:
    with pytest.raises(UnstorableError) as refused:
        storable.payload(bad, "args")

    assert refused.value.field == path
    assert str(refused.value).startswith(f"{path}: ")
    str(refused.value).encode()


def test_a_tuple_is_refused_because_a_resumed_run_would_get_a_list() -> None:
    with pytest.raises(UnstorableError, match="args: a tuple would come back as a list; pass a list"):
        storable.payload((1, 2), "args")


def test_a_long_key_is_cut_in_the_path() -> None:
    with pytest.raises(UnstorableError) as refused:
        storable.payload({"k" * 1000: math.nan}, "args")
    assert len(refused.value.field) < 100


def test_64_levels_are_kept_and_65_are_not() -> None:
    storable.payload(nested(64, 1), "args")
    storable.payload(nested(63, {}), "args")

    for too_deep in (nested(65, 1), nested(64, {})):
        with pytest.raises(TooLargeError, match="nested deeper than 64 levels"):
            storable.payload(too_deep, "args")


def test_a_value_inside_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)

    with pytest.raises(TooLargeError):
        storable.payload(endless, "args")
    assert sys.getrecursionlimit() > 64


@pytest.mark.parametrize("limit", [2, 3])
def test_the_encoded_size_is_bounded_in_bytes(limit: int) -> None:
    assert storable.bounded(b"x" * limit, "args", limit) == b"x" * limit
    with pytest.raises(TooLargeError, match=f"^args: {limit + 1} bytes; at most {limit} are kept"):
        storable.bounded(b"x" * (limit + 1), "args", limit)


@pytest.mark.parametrize("good", ["a", "x" * 200, "é ü/…", "a b", "\N{PILE OF POO}"])
def test_a_printable_name_is_kept(good: str) -> None:
    assert storable.name(good, "kind") == good


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        ("", InvalidFieldError),
        (None, InvalidFieldError),
        (7, InvalidFieldError),
        (b"x", InvalidFieldError),
        ("x" * 201, TooLargeError),
        ("a\0", UnstorableError),
        ("a\n", UnstorableError),
        ("\x7f", UnstorableError),
        ("\ud800", UnstorableError),
    ],
)
def test_a_name_that_some_database_cannot_keep_is_refused(bad: object, error: type[InputError]) -> None:
    """SEC-12: no line breaks either."""
    with pytest.raises(error) as refused:
        storable.name(bad, "kind")
    assert refused.value.field == "kind"


def test_a_name_may_be_empty_where_it_is_optional() -> None:
    assert storable.name("", "owner", empty=True) == ""
