"""A source is read in constant memory."""

import gc
import json
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from joblog.workers.operations.sources import FileSource
from tests.workers.operations.source_files import planned, write

ROWS = 30_000


def csv_lines(count: int) -> Iterator[str]:
    yield "id,name,text\n"
    for number in range(count):
        yield f'{number},"name\n{number}",{"x" * 80}\n'


def json_lines(count: int) -> Iterator[str]:
    return (json.dumps({"id": number, "text": "é" * 50}) + "\n" for number in range(count))


def json_array(count: int) -> Iterator[str]:
    yield "["
    yield from (f"{',' if number else ''}{json.dumps({'id': number, 'text': 'x' * 80})}" for number in range(count))
    yield "]"


def peak(path: Path, kind: str, lines: Iterable[str]) -> int:
    """Write the file, read it all, and give the most memory that took."""
    path = write(path, "".join(lines).encode(), kind)
    gc.collect()
    tracemalloc.start()
    try:
        for batch in FileSource(planned(path)).read(100):
            assert not batch.problems
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("name", "kind", "made"),
    [
        ("t.csv", "plain", csv_lines),
        ("t.csv", "gzip", csv_lines),
        ("t.csv", "zip", csv_lines),
        ("t.ndjson", "plain", json_lines),
        ("t.json", "plain", json_array),
    ],
)
def test_a_file_four_times_as_long_takes_no_more_memory(
    tmp_path: Path, name: str, kind: str, made: Callable[[int], Iterator[str]]
) -> None:
    short = peak(tmp_path / name, kind, made(ROWS // 4))
    long = peak(tmp_path / name, kind, made(ROWS))

    assert long < 6_000_000
    assert long < short + 500_000


@pytest.mark.parametrize(("name", "begin"), [("t.csv", 'a,b\n1,"'), ("t.ndjson", '{"a": "'), ("t.json", '[{"a": "')])
def test_a_record_without_an_end_is_not_kept(tmp_path: Path, name: str, begin: str) -> None:
    path = tmp_path / name
    with path.open("w", encoding="utf-8") as file:
        file.write(begin)
        for _ in range(40):
            file.write("x" * 1_000_000)
    plan = planned(path)
    tracemalloc.start()
    try:
        (batch,) = FileSource(plan).read(100)
        assert tracemalloc.get_traced_memory()[1] < 80_000_000
    finally:
        tracemalloc.stop()
    assert len(batch.problems) == 1
