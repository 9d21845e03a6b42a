"""Rows of a file that is one JSON array of objects, an element at a time: the file is never in memory.

An element is decoded where it lies in the text.  Where that fails (its end is not read yet, or it is no JSON),
its end is found by brackets and quotes alone, so that one bad element costs one row.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from .decoded import Decoded
from .encoding import check_text, is_suspect, size_of
from .json_values import DECODER, as_row, decode
from .rows import FIELD_LIMIT, RECORD_LIMIT, Code, Cursor, Row, UnfitError

_SPACE = re.compile(r"[ \t\r\n]*")


class JsonArrayRows:
    """Reads rows from a cursor on; the first cursor stands behind the array's opening bracket."""

    def __init__(self, encoding: str, open_at: Callable[[int], Decoded], at: Cursor) -> None:
        self._encoding, self._decoded = encoding, open_at(at.offset)
        self._text, self._at = "", 0  # what is read and not yet passed, and the place in it
        self._row, self._line, self._ended = at.row, at.line, at.ended
        self._offset = at.offset  # of the text's first character
        self.consumed = 0  #: characters so far

    def cursor(self, batch: int) -> Cursor:
        """The place behind the last row."""
        offset = self._offset + size_of(self._text[: self._at], self._encoding)
        return Cursor(batch, self._row, self._line, offset, self._ended)

    def next_row(self) -> Row | None:
        """The next row, or None at the end."""
        if self._ended:
            return None
        try:
            if not self._find_element():
                self._ended = True
                return None
            return self._element()
        except UnfitError as unfit:
            self._ended = True
            return self._refused(unfit, self._line)

    def _find_element(self) -> bool:
        """Go to the next element; False behind the array's end."""
        mark = self._peek()
        if mark == "]":
            self._pass(self._at + 1)
            if self._peek():
                raise UnfitError(Code.BROKEN_JSON, "text behind the end of the array")
            return False
        if self._row:
            if mark != ",":
                raise UnfitError(Code.BROKEN_JSON, f"no comma or bracket behind element {self._row}")
            self._pass(self._at + 1)
            mark = self._peek()
        if mark in {"", ",", "]"}:
            raise UnfitError(Code.BROKEN_JSON, f"no element where element {self._row + 1} should be")
        return True
