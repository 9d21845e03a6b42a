"""Which reader a format has, and how its rows are taken in batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from .csv_dialect import Dialect
from .csv_records import CsvRecords
from .decoded import Decoded
from .json_array import JsonArrayRows
from .json_lines import JsonLines
from .line_records import LineRows
from .rows import Cursor, Row


class RowReader(Protocol):
    """Reads one row after the other from a cursor on."""

    @property
    def consumed(self) -> int:
        """Characters so far; between two rows the same whatever cursor the reading began at."""

    def next_row(self) -> Row | None: ...

    def cursor(self, batch: int) -> Cursor: ...


def row_reader(
    layout: Dialect | str, columns: tuple[str, ...], encoding: str, open_at: Callable[[int], Decoded], at: Cursor
) -> RowReader:
    """Read CSV in the dialect *layout*, or one of the JSON formats, from *at* on."""
    if isinstance(layout, Dialect):
        return LineRows(CsvRecords(layout, columns, encoding), open_at, at)
    if layout == "ndjson":
        return LineRows(JsonLines(encoding), open_at, at)
    return JsonArrayRows(encoding, open_at, at)


def take(reader: RowReader, count: int, limit: int) -> list[Row]:
    """At most *count* rows; the one that reaches *limit* characters is the last."""
    rows: list[Row] = []
    next_row, end = reader.next_row, reader.consumed + limit
    while len(rows) < count and reader.consumed < end and (row := next_row()):
        rows.append(row)
    return rows
