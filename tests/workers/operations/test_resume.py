"""From any cursor on a source reads what an undisturbed reading would have read there (UNI-13)."""

import csv
import io
import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from joblog.domain.errors import JobLogError
from joblog.workers.operations.plan import Plan
from joblog.workers.operations.rows import Cursor
from joblog.workers.operations.sources import FileSource
from tests.workers.operations.source_files import CONTAINERS, limits, planned, read, write

CHARS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
HARD = st.sampled_from(
    ['"', "'", ",", ";", "\n", "\r\n", "\r", "\\", "é", "\u2028", "\x85", "\x0b", "😀", "਀", " ", "x"]
)
FIELDS = st.lists(HARD | st.text(CHARS, max_size=3), max_size=5).map("".join)
SHORT = st.text("ab,\"'\n\r\\;[]{}: \0é\t1", max_size=12)
TABLES = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.lists(FIELDS, min_size=width, max_size=width), min_size=1, max_size=12)
)
ENCODINGS = st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
CHUNKS = st.sampled_from([1, 2, 3, 7, 16, 64, 256 * 1024])
SIZES = st.integers(1, 5)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | FIELDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(FIELDS, inner, max_size=2),
    max_leaves=4,
)
OBJECTS = st.lists(st.dictionaries(FIELDS, JSON_VALUES, max_size=3), max_size=10)


def check_every_cursor(plan: Plan, size: int) -> None:
    batches = read(plan, size)
    assert [batch.index for batch in batches] == list(range(len(batches)))
    assert [row.number for batch in batches for row in batch.rows] == list(
        range(1, 1 + sum(len(batch.rows) for batch in batches))
    )
    for done, batch in enumerate(batches, 1):
        cursor = Cursor.from_state(json.loads(json.dumps(batch.cursor.to_state())))
        assert list(FileSource(plan).read(size, cursor)) == batches[done:]


def check_file(content: bytes, name: str, kind: str, chunk: int, size: int, **declared: Any) -> None:
    """Whatever is in the file: every cursor holds, and how it is cut into chunks changes nothing."""
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder, name), content, kind)
        try:
            plan = planned(path, **declared)
        except JobLogError:
            return
        with limits(chunk=chunk):
            assert planned(path, **declared) == plan
            check_every_cursor(plan, size)
            in_chunks = read(plan, size)
        assert read(plan, size) == in_chunks


def as_csv(table: list[list[str]], **dialect: Any) -> str:
    written = io.StringIO(newline="")
    csv.writer(written, quoting=csv.QUOTE_ALL, **dialect).writerows(table)
    return written.getvalue()


@given(TABLES, ENCODINGS, st.sampled_from(CONTAINERS), CHUNKS, SIZES, st.sampled_from(["\n", "\r\n"]))
def test_any_table_comes_back_from_csv_at_any_cursor(
    table: list[list[str]], encoding: str, kind: str, chunk: int, size: int, newline: str
) -> None:
    names = [f"c{number}" for number, _ in enumerate(table[0])]
    content = as_csv([names, *table], lineterminator=newline).encode(encoding)
    declared = {} if encoding in {"utf-8-sig", "utf-16"} else {"encoding": encoding}
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder, "t.csv"), content, kind)
        plan = planned(path, dialect={"delimiter": ",", "quotechar": '"', "escapechar": ""}, **declared)
        with limits(chunk=chunk):
            found = [list(row.values.values()) for batch in read(plan, size) for row in batch.rows]
            check_every_cursor(plan, size)

    assert plan.columns == tuple(names)
    assert found == table


@given(OBJECTS, st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]), st.sampled_from(CONTAINERS), CHUNKS, SIZES)
def test_any_objects_come_back_from_ndjson_at_any_cursor(
    objects: list[dict[str, Any]], encoding: str, kind: str, chunk: int, size: int
) -> None:
    content = "".join(f"{json.dumps(each, ensure_ascii=False)}\r\n\n" for each in objects).encode(encoding)
    check_json(objects, content, "t.ndjson", kind, chunk, size)


@given(
    OBJECTS,
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    st.sampled_from(CONTAINERS),
    CHUNKS,
    SIZES,
    st.sampled_from([None, 0, 2]),
    st.booleans(),
)
def test_any_objects_come_back_from_a_json_array_at_any_cursor(
    objects: list[dict[str, Any]], encoding: str, kind: str, chunk: int, size: int, indent: int | None, ascii_only: bool
) -> None:
    content = f"\n {json.dumps(objects, ensure_ascii=ascii_only, indent=indent)} \n".encode(encoding)
    check_json(objects, content, "t.json", kind, chunk, size)


def check_json(objects: list[dict[str, Any]], content: bytes, name: str, kind: str, chunk: int, size: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        plan = planned(write(Path(folder, name), content, kind), format=name.removeprefix("t."))
        with limits(chunk=chunk):
            found = [row.values for batch in read(plan, size) for row in batch.rows]
            check_every_cursor(plan, size)
    assert found == objects


@given(st.binary(max_size=80) | st.lists(SHORT).map(lambda parts: "".join(parts).encode()), CHUNKS, SIZES, st.data())
@example(b'a,b\n1,"2', 1, 1, None)
def test_a_cursor_holds_in_any_bytes_that_are_called_csv(
    content: bytes, chunk: int, size: int, data: st.DataObject | None
) -> None:
    encoding = data.draw(st.sampled_from(["", "latin-1", "utf-8", "utf-16-le", "cp1252"])) if data else ""
    dialect = (
        data.draw(st.sampled_from([{}, {"strict": False}, {"escapechar": "\\"}, {"newline": "\r"}])) if data else {}
    )
    check_file(b"a,b\n" + content, "t.csv", "plain", chunk, size, format="csv", encoding=encoding, dialect=dialect)


@given(st.binary(max_size=80) | st.lists(SHORT).map(lambda parts: "".join(parts).encode()), CHUNKS, SIZES)
def test_a_cursor_holds_in_any_bytes_that_are_called_ndjson(content: bytes, chunk: int, size: int) -> None:
    check_file(b'{"a":1}\n' + content, "t.ndjson", "plain", chunk, size)


JSON_PIECES = st.lists(
    st.sampled_from(
        ['{"a":1}', '{"a":"é"}', "[1]", "12", "1.5e3", "nul", "true", ",", ",", " ", "\n", "]", "{", '"', "\\"]
    ),
    max_size=14,
).map(lambda parts: "".join(parts).encode())


@given(JSON_PIECES | st.binary(max_size=40), CHUNKS, SIZES, st.sampled_from([4, 8, 1000]))
def test_a_cursor_holds_in_any_bytes_that_are_called_an_array(
    content: bytes, chunk: int, size: int, record: int
) -> None:
    with limits(record=record, field=4, batch=15):
        check_file(b'[{"a":1},' + content, "t.json", "plain", chunk, size)


@given(st.lists(st.text('ab"\n,', max_size=30)), CHUNKS, SIZES, st.sampled_from([3, 10, 20]), st.sampled_from([2, 3]))
def test_a_cursor_holds_where_records_are_too_long(
    lines: list[str], chunk: int, size: int, record: int, field: int
) -> None:
    content = "\n".join(lines).encode()
    with limits(record=record, field=field, batch=15):
        check_file(b"a,b\n" + content, "t.csv", "plain", chunk, size, dialect={"delimiter": ",", "quotechar": '"'})
        check_file(content, "t.ndjson", "plain", chunk, size)
