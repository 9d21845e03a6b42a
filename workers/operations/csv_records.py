"""CSV records as rows, cut by the standard library's reader."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from typing import Any, Final

from .csv_dialect import Dialect
from .decoded import Lines
from .encoding import check_text
from .line_records import Records
from .rows import FIELD_LIMIT, RECORD_LIMIT, Code, UnfitError

#: Of ``csv``, for the whole process; raised and never lowered: our own limits are smaller and come first.
READER_LIMIT: Final = 4 * RECORD_LIMIT


class CsvRecords:
    """See ``LineFormat``."""

    def __init__(self, dialect: Dialect, columns: Sequence[str], encoding: str) -> None:
        self._dialect, self._columns, self._encoding = dialect, columns, encoding
        self._width = len(columns)
        self.newline, self.escape = dialect.newline, dialect.escapechar
        self.quote = _quote(dialect)

    def cut(self, lines: Lines) -> Records:
        """Begin to cut."""
        if csv.field_size_limit() < READER_LIMIT:
            csv.field_size_limit(READER_LIMIT)
        return csv.reader(lines, **self._dialect.parameters())

    def values(self, record: list[str], *, check: bool) -> dict[str, Any]:
        """Name the fields."""
        if len(record) != self._width:
            raise UnfitError(Code.FIELD_COUNT, f"{len(record)} fields, where the header has {self._width}")
        if check:
            self._check(record)
        return dict(zip(self._columns, record, strict=True))

    def _check(self, record: list[str]) -> None:
        for column, field in zip(self._columns, record, strict=True):
            check_text(field, self._encoding, column)
            if len(field) > FIELD_LIMIT:
                raise UnfitError(Code.OVER_LONG, f"{len(field):,} characters; at most {FIELD_LIMIT:,}", column)


def _quote(dialect: Dialect) -> re.Pattern[str] | None:
    if not dialect.quotechar:
        return None
    escaped = f"{re.escape(dialect.escapechar)}.|" if dialect.escapechar else ""
    return re.compile(f"{escaped}({re.escape(dialect.quotechar)})", re.DOTALL)
