"""Values become what their column is, or the row is refused; nothing is bent to fit."""

import contextlib
import math
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joblog.domain.errors import InputError, InvalidFieldError
from joblog.workers.operations.conversion import CONVERTERS, TYPES, Conversion, check_types
from joblog.workers.operations.rows import UnfitError


def converted(kind: str, value: Any, null: str | None = None) -> Any:
    return Conversion({"c": kind}, null).apply({"c": value})["c"]


@pytest.mark.parametrize(
    ("kind", "value", "made"),
    [
        ("integer", "12", 12),
        ("integer", " -7 ", -7),
        ("integer", "+007", 7),
        ("integer", "9223372036854775807", 2**63 - 1),
        ("integer", 5, 5),
        ("integer", 5.0, 5),
        ("real", "1.5", 1.5),
        ("real", ".5", 0.5),
        ("real", "1e3", 1000.0),
        ("real", 7, 7.0),
        ("real", 1e-7, 1e-7),
        ("decimal", " 19.90 ", "19.90"),
        ("decimal", "0.12345678901234567890", "0.12345678901234567890"),
        ("decimal", 19.9, "19.9"),
        ("text", " x ", " x "),
        ("text", "", ""),
        ("text", 1, "1"),
        ("text", 2**70, str(2**70)),
        ("text", 0.1, "0.1"),
        ("text", True, "true"),
        ("text", [1, {"é": None}], '[1,{"é":null}]'),
        ("boolean", "TRUE", True),
        ("boolean", "n", False),
        ("boolean", "0", False),
        ("boolean", " Yes ", True),
        ("boolean", 1, True),
        ("boolean", False, False),
        ("date", " 2030-02-28 ", date(2030, 2, 28)),
        ("timestamp", "2013-01-01T10:00:00Z", datetime(2013, 1, 1, 10, tzinfo=UTC)),
        ("timestamp", "2013-01-01 10:00:00.5+02:00", datetime(2013, 1, 1, 8, 0, 0, 500_000, tzinfo=UTC)),
        ("timestamp", "2013-01-01T10:00", datetime(2013, 1, 1, 10, tzinfo=UTC)),
        ("timestamp", "2013-01-01", datetime(2013, 1, 1, tzinfo=UTC)),
        ("local", "2013-01-01T10:00:00+01:00", datetime(2013, 1, 1, 9)),  # noqa: DTZ001 - of a column without offsets
    ],
)
def test_a_value_of_the_type_is_converted(kind: str, value: Any, made: Any) -> None:
    found = converted(kind, value)

    assert (found, type(found)) == (made, type(made))


@pytest.mark.parametrize(
    ("kind", "value", "code"),
    [
        *((kind, "", "bad-value") for kind in CONVERTERS if kind != "text"),
        *((kind, "c4n4ry", "bad-value") for kind in CONVERTERS if kind != "text"),
        *((kind, [], "bad-value") for kind in CONVERTERS if kind != "text"),
        ("integer", "1.0", "bad-value"),
        ("integer", "1_000", "bad-value"),
        ("integer", "١٢", "bad-value"),
        ("integer", "0x10", "bad-value"),
        ("integer", True, "bad-value"),
        ("integer", 1.5, "bad-value"),
        ("integer", "9223372036854775808", "out-of-range"),
        ("integer", 2**70, "out-of-range"),
        ("integer", 1e300, "out-of-range"),
        ("integer", "9" * 100_000, "bad-value"),
        ("real", "nan", "bad-value"),
        ("real", "inf", "bad-value"),
        ("real", "1,5", "bad-value"),
        ("real", "1e999", "out-of-range"),
        ("real", True, "bad-value"),
        ("decimal", "NaN", "bad-value"),
        ("boolean", 2, "bad-value"),
        ("boolean", 1.0, "bad-value"),
        ("date", "2030-02-30", "bad-value"),
        ("date", "20300228", "bad-value"),
        ("date", "2030-W01-1", "bad-value"),
        ("date", "28.02.2030", "bad-value"),
        ("timestamp", "10:00", "bad-value"),
        ("timestamp", "0001-01-01T00:00:00+10:00", "bad-value"),
        ("timestamp", 1_700_000_000, "bad-value"),
    ],
)
def test_any_other_value_is_refused_by_its_column_and_not_repeated(kind: str, value: Any, code: str) -> None:
    with pytest.raises(UnfitError) as refused:
        converted(kind, value)

    assert (refused.value.code, refused.value.column) == (code, "c")
    assert "c4n4ry" not in refused.value.text


@pytest.mark.parametrize("kind", CONVERTERS)
def test_null_is_what_json_calls_so_and_what_is_declared(kind: str) -> None:
    assert converted(kind, None) is None
    assert converted(kind, "", null="") is None
    assert converted(kind, "NULL", null="NULL") is None


def test_an_empty_text_is_no_null_unless_declared() -> None:
    assert converted("text", "") == ""
    assert converted("text", "", null="NA") == ""


def test_a_value_that_the_row_does_not_have_is_not_made_up() -> None:
    assert Conversion({"a": "text", "b": "integer"}).apply({"b": "1"}) == {"b": 1}


def test_a_column_that_the_table_does_not_have_is_a_problem() -> None:
    with pytest.raises(UnfitError) as refused:
        Conversion({"a": "text"}).apply({"a": "1", "b": "2"})

    assert (refused.value.code, refused.value.column) == ("unknown-column", "b")


def test_there_are_six_types_to_declare() -> None:
    check_types(dict(zip("abcdef", TYPES, strict=True)))
    for bad in ("decimal", "local", "varchar", "INTEGER", "", 7):
        with pytest.raises(InvalidFieldError) as refused:
            check_types({"a": bad})  # type: ignore[dict-item]
        assert refused.value.field == "columns.a"
    with pytest.raises(InputError):
        check_types({"": "text"})


@given(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_survives_its_text(integer: int, real: float) -> None:
    assert converted("integer", str(integer)) == integer
    assert converted("real", str(real)) == real
    assert math.copysign(1, converted("real", str(real))) == math.copysign(1, real)


@given(st.sampled_from(sorted(CONVERTERS)), st.text() | st.integers() | st.floats() | st.booleans())
def test_any_value_is_converted_or_refused(kind: str, value: Any) -> None:
    with contextlib.suppress(UnfitError):
        converted(kind, value)
