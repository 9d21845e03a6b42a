"""CSV as it is written in the wild."""

from pathlib import Path
from typing import Any

import pytest

from joblog.domain.errors import InputError, InvalidFieldError, TooLargeError, UnstorableError
from joblog.workers.operations.rows import FIELD_LIMIT
from joblog.workers.operations.sources import FileSource
from tests.workers.operations.source_files import limits, planned, problems, read, rows, values, write


def a_plan(tmp_path: Path, content: str | bytes, name: str = "t.csv", **declared: Any) -> Any:
    content = content.encode() if isinstance(content, str) else content
    return planned(write(tmp_path / name, content), **declared)


def test_the_header_names_the_values_and_all_are_text(tmp_path: Path) -> None:
    plan = a_plan(tmp_path, "id,name\n1,Ada\n2, Bob \n")

    assert plan.columns == ("id", "name")
    assert values(plan) == [{"id": "1", "name": "Ada"}, {"id": "2", "name": " Bob "}]


def test_without_a_header_columns_are_numbered(tmp_path: Path) -> None:
    plan = a_plan(tmp_path, "1,Ada\n2,Bob\n", header=False)

    assert values(plan) == [{"column1": "1", "column2": "Ada"}, {"column1": "2", "column2": "Bob"}]
    assert [row.line for row in rows(plan)] == [1, 2]


@pytest.mark.parametrize(("header", "first"), [(True, "1"), (False, "x")])
def test_given_names_stand_in_place_of_the_headers(tmp_path: Path, header: bool, first: str) -> None:
    plan = a_plan(tmp_path, "x,y\n1,2\n", header=header, names=["a", "b"])

    assert values(plan)[0]["a"] == first


def test_names_in_the_header_are_trimmed_and_kept_on_one_line(tmp_path: Path) -> None:
    assert a_plan(tmp_path, ' id ,"Amount\n (EUR)",\n1,2,3\n').columns == ("id", "Amount (EUR)", "column3")


def test_a_value_may_hold_line_breaks_and_a_row_knows_its_first_line(tmp_path: Path) -> None:
    plan = a_plan(tmp_path, 'a,b\n1,"x\ny\r\nz"\n\n\n2,"""q"""\n')

    assert values(plan) == [{"a": "1", "b": "x\ny\r\nz"}, {"a": "2", "b": '"q"'}]
    assert [(row.number, row.line) for row in rows(plan)] == [(1, 2), (2, 7)]


def test_unusual_line_separators_are_part_of_a_value(tmp_path: Path) -> None:
    assert values(a_plan(tmp_path, "a,b\nx\u2028y\x85\x0b,\x1c\n")) == [{"a": "x\u2028y\x85\x0b", "b": "\x1c"}]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_every_line_end_is_told_apart_from_a_value(tmp_path: Path, newline: str) -> None:
    plan = a_plan(tmp_path, newline.join(["a,b", '1,"x"', "", "2,y"]))

    assert values(plan) == [{"a": "1", "b": "x"}, {"a": "2", "b": "y"}]
    assert [row.line for row in rows(plan)] == [2, 4]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_sniffed(tmp_path: Path, delimiter: str) -> None:
    lines = [("id", "text"), ("1", '"a,b;c\t|"'), ("2", "x"), ("3", '"1,5"')]
    plan = a_plan(tmp_path, "\n".join(map(delimiter.join, lines)))

    assert plan.dialect.delimiter == delimiter
    assert values(plan)[0] == {"id": "1", "text": "a,b;c\t|"}


def test_decimal_commas_do_not_make_a_comma_the_delimiter(tmp_path: Path) -> None:
    assert a_plan(tmp_path, "id;price\n1;1,5\n2;2,5\n3;4\n").dialect.delimiter == ";"


def test_a_file_of_one_column_has_commas_by_default(tmp_path: Path) -> None:
    assert values(a_plan(tmp_path, "name\nAda\nBob\n")) == [{"name": "Ada"}, {"name": "Bob"}]


def test_a_tab_separated_file_is_told_by_its_name(tmp_path: Path) -> None:
    assert values(a_plan(tmp_path, "a\tb,c\n1\t2,3\n", "t.tsv")) == [{"a": "1", "b,c": "2,3"}]


def test_excels_hint_is_obeyed_and_no_row(tmp_path: Path) -> None:
    plan = a_plan(tmp_path, "sep=|\r\na,b|c\r\n1,2|3\r\n")

    assert values(plan) == [{"a,b": "1,2", "c": "3"}]
    assert rows(plan)[0].line == 3


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("a,b\n'x, y','z'\n'1','2'\n", {"a": "x, y", "b": "z"}),
        ('a,b\n"say \\"x, y\\"",2\n"1",2\n', {"a": 'say "x, y"', "b": "2"}),
        ('a, b\n1, "x, y"\n2, "z"\n', {"a": "1", "b": "x, y"}),
        ("a,b\nO'Hara,'s\n'tis,2\n", {"a": "O'Hara", "b": "'s"}),
        ('a,b\n"C:\\dir\\",2\n"D:\\",3\n', {"a": "C:\\dir\\", "b": "2"}),
    ],
)
def test_quotes_escapes_and_blanks_are_sniffed(tmp_path: Path, content: str, found: dict[str, str]) -> None:
    assert values(a_plan(tmp_path, content))[0] == found


@pytest.mark.parametrize("hint", ["sep='", 'sep="', "sep=x", "sep=\\", "sep="])
def test_a_hint_that_is_no_delimiter_is_a_line_like_any_other(tmp_path: Path, hint: str) -> None:
    plan = a_plan(tmp_path, f"{hint}\n1\n", header=False, dialect={"quotechar": ""})

    assert values(plan) == [{"column1": hint}, {"column1": "1"}]


def test_a_hint_that_contradicts_the_declared_quote_is_passed_over(tmp_path: Path) -> None:
    assert a_plan(tmp_path, "sep=;\na,b\n", dialect={"quotechar": ";"}).columns == ("a", "b")


def test_what_is_declared_is_not_sniffed(tmp_path: Path) -> None:
    declared = {"delimiter": ",", "quotechar": None}
    plan = a_plan(tmp_path, 'a;b,c"\n1;"2,3\n', dialect=declared)

    assert values(plan) == [{"a;b": '1;"2', 'c"': "3"}]
    assert plan.dialect.quotechar == ""


def test_the_dialect_is_frozen_whatever_the_rest_of_the_file_looks_like(tmp_path: Path) -> None:
    content = "a;b\n" + "1;2\n" * 20_000 + "3,3,3;4\n" * 80_000
    plan = a_plan(tmp_path, content)
    batches = read(plan, 20_000)

    assert list(FileSource(plan).read(20_000, batches[0].cursor)) == batches[1:]
    assert batches[-1].rows[-1].values == {"a": "3,3,3", "b": "4"}


def test_a_file_without_rows_has_no_batch(tmp_path: Path) -> None:
    assert a_plan(tmp_path, "").columns == ()
    for content in ("", "a,b", "a,b\n\n\n", "\ufeff"):
        assert not read(a_plan(tmp_path, content))


@pytest.mark.parametrize(
    ("content", "bad"),
    [
        ("1\n", ("field-count", "")),
        ("1,2,3\n", ("field-count", "")),
        ('"1"x,2\n', ("bad-quoting", "")),
        ("1,2\rx\n", ("bad-quoting", "")),
        ("1,\0x\n", ("unstorable", "b")),
        (b"1,\xe9t\xe9\n", ("undecodable", "b")),
        (b"1,\xed\xa0\x80\n", ("undecodable", "b")),
        ("1,\ud800\n".encode("utf-8", "surrogatepass"), ("undecodable", "b")),
    ],
)
def test_a_bad_row_costs_one_row_and_counts(tmp_path: Path, content: str | bytes, bad: tuple[str, str]) -> None:
    content = content.encode() if isinstance(content, str) else content
    plan = a_plan(tmp_path, b"a,b\n0,0\n" + content + b"8,8\n9,9\n", dialect={"delimiter": ","})

    assert problems(plan) == [(2, 3, *bad)]
    assert [row.values.get("a") for row in rows(plan)] == ["0", None, "8", "9"]
    assert [row.line for row in rows(plan)] == [2, 3, 4, 5]
    assert not rows(plan)[1].problem.ends_reading  # type: ignore[union-attr]


def test_a_problems_text_never_repeats_the_rows_data(tmp_path: Path) -> None:
    content = b'a,b\nc4n4ry\n"c4n4ry"c4n4ry,2\nc4n4ry\0,2\nc4n4ry\xff,2\n2,"c4n4ry'
    found = [row.problem for row in rows(a_plan(tmp_path, content))]

    assert len(found) == 5
    assert all(problem and problem.text and "c4n4ry" not in repr(problem) for problem in found)


def test_a_quote_that_is_never_closed_can_not_be_skipped(tmp_path: Path) -> None:
    """All that follows would vanish in one skipped row."""
    for dialect in ({}, {"strict": False}):
        plan = a_plan(tmp_path, 'a,b\n1,2\n3,"4\n5,6\n7,8\n', dialect={"delimiter": ",", **dialect})
        (batch,) = read(plan)

        assert problems(plan) == [(2, 3, "unclosed-quote", "")]
        assert batch.problems[0].ends_reading
        assert batch.cursor.ended
        assert not list(FileSource(plan).read(500, batch.cursor))


def test_text_behind_a_closing_quote_is_glued_on_where_that_is_declared(tmp_path: Path) -> None:
    plan = a_plan(tmp_path, 'a,b\n"1"x,2\n', dialect={"strict": False, "delimiter": ","})

    assert values(plan) == [{"a": "1x", "b": "2"}]


def test_a_value_of_a_mebibyte_is_read_and_a_longer_one_is_not(tmp_path: Path) -> None:
    content = f'a,b\n1,{"x" * FIELD_LIMIT}\n2,"{"y" * 2 * FIELD_LIMIT}\n"\n3,4\n'
    plan = a_plan(tmp_path, content)

    assert problems(plan) == [(2, 3, "over-long", "b")]
    assert [len(row.values.get("b", "")) for row in rows(plan)] == [FIELD_LIMIT, 0, 1]
    assert rows(plan)[2].line == 5


@pytest.mark.parametrize("escape", ["", "\\"])
def test_a_record_of_any_length_is_passed_over_to_its_end(tmp_path: Path, escape: str) -> None:
    quoted = f'{escape or chr(34)}"'
    long = f'"{"x,1" * 20}{quoted}\n{"y,2" * 20}\n{quoted}{quoted}{quoted}"'
    dialect = {"delimiter": ",", "escapechar": escape, "doublequote": not escape}
    plan = a_plan(tmp_path, f"a,b\n1,2\n3,{long}\n5,6\n\n7,8\n", dialect=dialect)

    for chunk in (1, 10, 1000):
        with limits(chunk=chunk, record=50, field=50):
            assert problems(plan) == [(2, 3, "over-long", "")]
            assert [(row.line, row.values.get("b")) for row in rows(plan)] == [(2, "2"), (3, None), (6, "6"), (8, "8")]


def test_a_too_long_record_with_an_open_quote_ends_reading(tmp_path: Path) -> None:
    plan = a_plan(tmp_path, 'a,b\n1,2\n3,"' + "x\n" * 50, dialect={"delimiter": ","})

    with limits(chunk=8, record=50, field=50):
        assert problems(plan) == [(2, 3, "unclosed-quote", "")]


def test_a_batch_is_closed_by_the_row_that_fills_it(tmp_path: Path) -> None:
    """So a batch is bounded in memory however long its rows are."""
    plan = a_plan(tmp_path, "a,b\n" + "".join(f"{number},{'x' * 10}\n" for number in range(10)))

    with limits(batch=30):
        batches = read(plan, 4)
        assert [(batch.index, batch.first_row, len(batch.rows)) for batch in batches] == [
            (0, 1, 3),
            (1, 4, 3),
            (2, 7, 3),
            (3, 10, 1),
        ]
        assert list(FileSource(plan).read(4, batches[1].cursor)) == batches[2:]


@pytest.mark.parametrize(
    ("content", "declared", "error", "field"),
    [
        ("a,a\n1,2\n", {}, InvalidFieldError, "header"),
        (b"a,b\xff\n1,2\n", {}, InvalidFieldError, "header[2]"),
        (b"a,\0\n1,2\n", {}, InvalidFieldError, "header[2]"),
        ('a,"b\n1,2\n', {}, InvalidFieldError, "header"),
        ('a,"b\n1,2\n', {"dialect": {"strict": False}}, InvalidFieldError, "header"),
        ('a,"b"x\n1,2\n', {"dialect": {"delimiter": ","}}, InvalidFieldError, "header"),
        (f"{'x' * 201},b\n1,2\n", {}, TooLargeError, "header[1]"),
        ("a\x01,b\n", {}, UnstorableError, "header[1]"),
        (",".join(map(str, range(1601))), {}, TooLargeError, "header"),
        ("a,b\n", {"names": ["x"]}, InvalidFieldError, "names"),
        ("a,b\n", {"names": ["x", "x"]}, InvalidFieldError, "names"),
        ("a,b\n", {"dialect": {"delimiter": ""}}, InvalidFieldError, "dialect.delimiter"),
        ("a,b\n", {"dialect": {"delimiter": ",,"}}, InvalidFieldError, "dialect"),
        ("a,b\n", {"dialect": {"delimiter": '"', "quotechar": '"'}}, InvalidFieldError, "dialect"),
        ("a,b\n", {"dialect": {"quotechar": "\n"}}, InvalidFieldError, "dialect"),
        ("a,b\n", {"dialect": {"delimiter": 7}}, InvalidFieldError, "dialect.delimiter"),
        ("a,b\n", {"dialect": {"strict": "no"}}, InvalidFieldError, "dialect.strict"),
        ("a,b\n", {"dialect": {"newline": "\x0b"}}, InvalidFieldError, "dialect.newline"),
        ("a,b\n", {"dialect": {"quoting": 1}}, InvalidFieldError, "dialect.quoting"),
        ("a,b\n", {"format": "xml"}, InvalidFieldError, "format"),
    ],
)
def test_what_can_not_be_planned_is_refused_with_a_way_out(
    tmp_path: Path, content: str | bytes, declared: dict[str, Any], error: type[InputError], field: str
) -> None:
    with pytest.raises(error) as refused:
        a_plan(tmp_path, content, **declared)

    assert refused.value.field == field
    assert refused.value.way_out


@pytest.mark.parametrize("size", [0, -1, 100_001, 1.5, True, None])
def test_a_batch_has_1_to_100000_rows(tmp_path: Path, size: Any) -> None:
    with pytest.raises(InvalidFieldError):
        FileSource(a_plan(tmp_path, "a\n1\n")).read(size)


def test_a_lower_limit_of_the_csv_module_is_raised_and_a_higher_one_is_kept(tmp_path: Path) -> None:
    import csv

    before = csv.field_size_limit()
    try:
        csv.field_size_limit(10)
        assert values(a_plan(tmp_path, f"a\n{'x' * 100}\n")) == [{"a": "x" * 100}]
        csv.field_size_limit(2**40)
        assert values(a_plan(tmp_path, f"a\n{'x' * 100}\n")) == [{"a": "x" * 100}]
        assert csv.field_size_limit() == 2**40
    finally:
        csv.field_size_limit(before)
