"""The names of a CSV file's columns."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from typing import Final

from ...domain import storable
from ...domain.errors import InvalidFieldError, TooLargeError
from .csv_dialect import Dialect
from .csv_records import CsvRecords
from .decoded import Decoded, Lines, RecordTooLongError
from .encoding import check_text
from .rows import Cursor, UnfitError

COLUMNS_LIMIT: Final = 1600  # of a PostgreSQL table


def read_header(
    decoded: Decoded, dialect: Dialect, begin: Cursor, names: Sequence[str], *, has_header: bool
) -> tuple[tuple[str, ...], Cursor]:
    """Name the columns: by *names* if given, else by the first record, else by number; answers the place behind it.

    Raises:
        InvalidFieldError: a first record that can't be read, or names that are no names.
    """
    lines = Lines(decoded, begin.offset, dialect.newline)
    records = CsvRecords(dialect, (), decoded.encoding).cut(lines)
    first: list[str] | None = []
    try:
        while first == []:
            first = next(records, None)
    except (csv.Error, RecordTooLongError):
        raise _unreadable() from None
    if first and lines.is_exhausted:
        raise _unreadable()
    first = first or []
    lines.start_record(lines.chars)
    behind = Cursor(0, 0, begin.line + records.line_num, lines.record_offset)
    if names and first and len(names) != len(first):
        raise InvalidFieldError("names", f"{len(names)} names for {len(first)} fields", "name every column")
    if names:
        return _checked(list(names), "names"), behind
    if not has_header:
        return tuple(f"column{number}" for number, _ in enumerate(first, 1)), behind
    for number, field in enumerate(first, 1):
        try:
            check_text(field, decoded.encoding)
        except UnfitError as unfit:
            raise InvalidFieldError(f"header[{number}]", unfit.text, "correct the header, or give names") from None
    cleaned = [" ".join(field.split()) or f"column{number}" for number, field in enumerate(first, 1)]
    return _checked(cleaned, "header"), behind


def _unreadable() -> InvalidFieldError:
    return InvalidFieldError("header", "the first record can't be read", "declare the dialect: delimiter, quotechar")


def _checked(names: list[str], where: str) -> tuple[str, ...]:
    if len(names) > COLUMNS_LIMIT:
        raise TooLargeError(where, f"{len(names):,} columns", f"at most {COLUMNS_LIMIT:,} fit into a table")
    for number, name in enumerate(names, 1):
        storable.name(name, f"{where}[{number}]")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InvalidFieldError(where, f"two columns {twice[0]!r}", "give names, one for each column")
    return tuple(names)
