"""NDJSON and arrays of objects, exact as they stand in the file."""

import json
from pathlib import Path
from typing import Any

import pytest

from joblog.domain.errors import InvalidFieldError
from joblog.workers.operations.rows import FIELD_LIMIT, RECORD_LIMIT
from joblog.workers.operations.sources import FileSource
from tests.workers.operations.source_files import limits, planned, problems, read, rows, values, write


def lines(tmp_path: Path, *elements: str) -> Any:
    return planned(write(tmp_path / "t.ndjson", "\n".join(elements).encode("utf-8", "surrogatepass")))


def array(tmp_path: Path, *elements: str) -> Any:
    content = "[\n" + ",\n".join(elements) + "\n]\n"
    return planned(write(tmp_path / "t.json", content.encode("utf-8", "surrogatepass")))


BOTH = pytest.mark.parametrize("made", [lines, array])


@BOTH
def test_values_keep_their_type(tmp_path: Path, made: Any) -> None:
    element = {"a": 1, "b": 1.5, "c": True, "d": None, "e": "é\n", "f": [1, {"g": 2}], "": 0}

    assert values(made(tmp_path, json.dumps(element), "{}")) == [element, {}]


@BOTH
@pytest.mark.parametrize(
    ("literal", "found"),
    [
        ("1180591620717411303424", 2**70),
        ("0.1", 0.1),
        ("19.90", 19.9),
        ("1e3", 1000.0),
        ("-0.0", -0.0),
        ("0.12345678901234567890", "0.12345678901234567890"),
        ("9007199254740993.0", "9007199254740993.0"),
        ("1e400", "1e400"),
        ("-1e-400", "-1e-400"),
        ("1e-99999999999999999999", "1e-99999999999999999999"),
    ],
)
def test_a_number_that_no_float_keeps_stays_as_it_is_written(
    tmp_path: Path, made: Any, literal: str, found: Any
) -> None:
    (row,) = values(made(tmp_path, f'{{"a": {literal}}}'))

    assert repr(row["a"]) == repr(found)


@BOTH
def test_the_columns_are_those_of_the_first_rows_in_their_order(tmp_path: Path, made: Any) -> None:
    plan = made(tmp_path, '{"b": 1}', '{"a": 1, "b": 2}', "[]", '{"c": 3}')

    assert plan.columns == ("b", "a", "c")
    assert not plan.is_fixed


@BOTH
@pytest.mark.parametrize(
    ("bad", "code", "column"),
    [
        ('{"a": }', "invalid-json", ""),
        ('{"a": 01}', "invalid-json", ""),
        ('{"a": NaN}', "invalid-json", ""),
        ('{"a": -Infinity}', "invalid-json", ""),
        ("{'a': 1}", "invalid-json", ""),
        ("nul", "invalid-json", ""),
        ('{"a": "\t"}', "invalid-json", ""),
        (f'{{"a": {"9" * 5000}}}', "invalid-json", ""),
        ("[1, 2]", "not-an-object", ""),
        ('"text, with [brackets]"', "not-an-object", ""),
        ("12", "not-an-object", ""),
        ("-1.5", "not-an-object", ""),
        ("true", "not-an-object", ""),
        ("null", "not-an-object", ""),
        (r'{"a": "\u0000"}', "unstorable", "a"),
        (r'{"a": "\ud800"}', "unstorable", "a"),
        (r'{"a": [{"b": "\udc80"}]}', "unstorable", "a"),
        (r'{"\u0000": 1}', "unstorable", ""),
        ('{"a": "\ud800"}', "undecodable", ""),
        ('{"a": ' + "[" * 64 + "]" * 64 + "}", "too-deep", ""),
        ('{"a": ' + "[" * 5000 + "]" * 5000 + "}", "too-deep", ""),
        ('{"a": ' + '{"b":' * 5000 + "1" + "}" * 5001, "too-deep", ""),
    ],
)
def test_a_bad_element_costs_one_row_and_counts(tmp_path: Path, made: Any, bad: str, code: str, column: str) -> None:
    plan = made(tmp_path, '{"a": 1}', bad, '{"a": 3}')

    assert problems(plan) == [(2, plan.start.line + 1 + (made is array), code, column)]
    assert [row.values.get("a") for row in rows(plan)] == [1, None, 3]
    for chunk in (1, 2, 5):
        with limits(chunk=chunk):
            assert problems(plan) == problems(plan)
            assert len(rows(plan)) == 3


@BOTH
def test_64_levels_are_kept(tmp_path: Path, made: Any) -> None:
    deep = '{"a": ' + "[" * 63 + "]" * 63 + "}"
    assert values(made(tmp_path, deep)) == [json.loads(deep)]


@BOTH
def test_a_problems_text_never_repeats_the_rows_data(tmp_path: Path, made: Any) -> None:
    bad = ['{"a": "c4n4ry", }', '"c4n4ry"', r'{"a": "c4n4ry\u0000"}', '{"a": "c4n4ry\ud800"}']
    found = [row.problem for row in rows(made(tmp_path, *bad))]

    assert len(found) == 4
    assert all(problem and problem.text and "c4n4ry" not in repr(problem) for problem in found)


@BOTH
def test_a_value_over_a_mebibyte_is_refused(tmp_path: Path, made: Any) -> None:
    fits = json.dumps({"a": "x" * FIELD_LIMIT, "b": 1})
    long = json.dumps({"b": 2, "a": "x" * (FIELD_LIMIT + 1)})
    nested = json.dumps({"b": 3, "a": ["x" * 1000] * 1100})
    plan = made(tmp_path, fits, long, nested, '{"b": 4}')

    assert [problem[2:] for problem in problems(plan)] == [("over-long", "a")] * 2
    assert [row.values.get("b") for row in rows(plan)] == [1, None, None, 4]


@BOTH
def test_an_element_of_any_length_is_passed_over_to_its_end(tmp_path: Path, made: Any) -> None:
    assert RECORD_LIMIT == 8 * FIELD_LIMIT
    long = json.dumps({"b": '}],"' * 300, "c": [{}, "\\"], "d": 1.5}) + "  "
    plan = made(tmp_path, '{"b": 1}', long, '{"b": 3}')

    for chunk in (1, 7, 100, 5000):
        with limits(chunk=chunk, record=100, field=50):
            assert [problem[2] for problem in problems(plan)] == ["over-long"]
            assert [row.values.get("b") for row in rows(plan)] == [1, None, 3]


def test_blank_lines_are_no_rows(tmp_path: Path) -> None:
    plan = lines(tmp_path, "", ' {"a": 1} \r', "  \t", '{"a": 2}', "", "")

    assert [(row.number, row.line) for row in rows(plan)] == [(1, 2), (2, 4)]


def test_an_element_knows_the_line_it_begins_at(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", b'\n[ {"a":\n 1}, {"a": 2},\n\n{"a":\n"x"}\n,{}]')

    assert [row.line for row in rows(planned(path))] == [2, 3, 5, 7]
    with limits(chunk=3):
        assert [row.line for row in rows(planned(path))] == [2, 3, 5, 7]


def test_an_empty_array_has_no_batch(tmp_path: Path) -> None:
    for content in (b"[]", b" [ \n ] ", b"\xef\xbb\xbf[]"):
        assert not read(planned(write(tmp_path / "t.json", content)))


@pytest.mark.parametrize(
    ("content", "row", "line"),
    [
        ('[{"a": 1}', 2, 1),
        ('[{"a": 1},', 2, 1),
        ('[{"a": 1}\n,{"a": "2', 2, 2),
        ('[{"a": 1},]', 2, 1),
        ("[,]", 1, 1),
        ("[", 1, 1),
        ('[{"a": 1}\n{"a": 2}]', 2, 2),
        ('[{"a": 1}] [{"a": 2}]', 2, 1),
        ('[{"a": 1}}', 2, 1),
    ],
)
def test_a_broken_array_ends_reading_and_can_not_be_skipped(tmp_path: Path, content: str, row: int, line: int) -> None:
    plan = planned(write(tmp_path / "t.json", content.encode()))

    for chunk in (1, 2, 1000):
        with limits(chunk=chunk):
            assert problems(plan) == [(row, line, "broken-json", "")]
            batches = read(plan, 1)
            assert batches[-1].rows[0].problem.ends_reading  # type: ignore[union-attr]
            assert not list(FileSource(plan).read(1, batches[-1].cursor))


def test_the_end_of_a_file_inside_of_a_long_element_is_told_at_its_beginning(tmp_path: Path) -> None:
    plan = planned(write(tmp_path / "t.json", b'[{"a": 1},\n{"a": "' + b"x\n" * 500))

    for chunk in (1, 30, 5000):
        with limits(chunk=chunk, record=100, field=50):
            (batch,) = read(plan)
            assert problems(plan) == [(2, 2, "broken-json", "")]
            assert (batch.cursor.offset, batch.cursor.line) == (11, 2)


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("t.json", '[{"a": 1}]', "json"),
        ("t.json", "[1]", "json"),
        ("t.json", '{"a": 1}\n{"a": 2}\n', "ndjson"),
        ("t.jsonl", '{"a": 1}', "ndjson"),
        ("t.dat", ' \n[ {"a": 1}]', "json"),
        ("t.dat", '{"a": 1}', "ndjson"),
        ("t.dat", "a,b\n1,2", "csv"),
        ("t.dat", "[a],b\n1,2", "csv"),
        ("t.dat", "{a},b\n1,2", "csv"),
        ("t", "", "csv"),
        ("T.CSV", '{"a": 1}', "csv"),
        ("t.tab", '{"a": 1}', "csv"),
    ],
)
def test_the_format_is_told_by_the_name_and_else_by_content(
    tmp_path: Path, name: str, content: str, found: str
) -> None:
    assert planned(write(tmp_path / name, content.encode())).format == found


def test_a_declared_format_goes_before_the_name(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", b'[{"a": 1}]')

    assert values(planned(path, format="json")) == [{"a": 1}]


@pytest.mark.parametrize("content", ['{\n "rows": []\n}', "1", "", "nonsense"])
def test_a_json_file_that_is_no_array_is_refused(tmp_path: Path, content: str) -> None:
    for declared in ({}, {"format": "json"}):
        with pytest.raises(InvalidFieldError, match="array"):
            planned(write(tmp_path / "t.json", content.encode()), **declared)
