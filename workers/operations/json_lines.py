"""NDJSON: one JSON object a line."""

from __future__ import annotations

import re
from typing import Any

from .decoded import Lines
from .encoding import check_text
from .json_values import as_row, decode
from .line_records import Records


class JsonLines:
    """See ``LineFormat``."""

    newline = "\n"
    escape = ""
    quote: re.Pattern[str] | None = None

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding

    def cut(self, lines: Lines) -> Records:
        """Begin to cut."""
        return OneByOne(lines)

    def values(self, record: str, *, check: bool) -> dict[str, Any]:
        """Read a line."""
        if check:
            check_text(record, self._encoding)
        return as_row(decode(record), record, check=check)


class OneByOne:
    """Lines without the blanks around them, counted."""

    def __init__(self, lines: Lines) -> None:
        self._lines = iter(lines)
        self.line_num = 0

    def __next__(self) -> str:
        line = next(self._lines)
        self.line_num += 1
        return line.strip(" \t\r\n")
