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

    def _element(self) -> Row:
        line = self._line
        try:
            value, end = self._decode_in_place()
        except (ValueError, RecursionError, UnfitError):
            return self._framed(line)
        text = self._text[self._at : end]
        self._pass(end)
        return self._row_of(value, text, line)

    def _decode_in_place(self) -> tuple[Any, int]:
        """A bare word or number has no end mark of its own: more of it may be unread yet."""
        if self._text[self._at] not in '{["':
            raise ValueError
        return DECODER.raw_decode(self._text, self._at)

    def _framed(self, line: int) -> Row:
        """Read the element once its end is found."""
        end, dropped = self._find_end()
        text = self._text[self._at : end]
        self._pass(end)
        try:
            if dropped or len(text) > RECORD_LIMIT:
                raise _too_long()
            value = decode(text)
        except UnfitError as unfit:
            return self._refused(unfit, line)
        return self._row_of(value, text, line)

    def _find_end(self) -> tuple[int, bool]:
        """The element's end in the text, and whether its beginning had to be dropped because it is too long."""
        end_of, start, dropped, line = ElementEnd(), self._at, False, self._line
        begin = self._offset + size_of(self._text[: self._at], self._encoding)
        while (end := end_of.find(self._text, start)) is None:
            if len(self._text) - self._at > RECORD_LIMIT:
                dropped = True
                self._pass(len(self._text))
            start = len(self._text) - self._at
            if not self._grow():
                self._offset, self._line, self._text, self._at = begin, line, "", 0
                raise UnfitError(Code.BROKEN_JSON, f"the file ends inside of element {self._row + 1}")
        return end, dropped

    def _row_of(self, value: Any, text: str, line: int) -> Row:
        try:
            if len(text) > RECORD_LIMIT:
                raise _too_long()
            check = is_suspect(text) or len(text) > FIELD_LIMIT
            if check:
                check_text(text, self._encoding)
            values = as_row(value, text, check=check)
        except UnfitError as unfit:
            return self._refused(unfit, line)
        self._row += 1
        return Row(self._row, line, values)

    def _refused(self, unfit: UnfitError, line: int) -> Row:
        self._row += 1
        return unfit.refuse(self._row, line)

    def _peek(self) -> str:
        """The next character that is no blank; empty at the end of the file."""
        while True:
            self._pass(_SPACE.match(self._text, self._at).end())  # type: ignore[union-attr]
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._grow():
                return ""

    def _pass(self, to: int) -> None:
        self._line += self._text.count("\n", self._at, to)
        self.consumed += to - self._at
        self._at = to

    def _grow(self) -> bool:
        """Read on; what was passed is forgotten."""
        more = self._decoded.read()
        self._offset += size_of(self._text[: self._at], self._encoding)
        self._text, self._at = self._text[self._at :] + more, 0
        return bool(more)


def _too_long() -> UnfitError:
    return UnfitError(Code.OVER_LONG, f"a record over {RECORD_LIMIT:,} characters")


class ElementEnd:
    """Finds where an element ends, by its brackets and quotes, in text that comes in pieces."""

    _IN_STRING = re.compile(r'["\\]')
    _NESTED = re.compile(r'["\[\]{}]')
    _BARE = re.compile(r'["\[\]{}, \t\r\n]')

    def __init__(self) -> None:
        self._depth, self._in_string, self._is_escaped = 0, False, False

    def find(self, text: str, at: int) -> int | None:
        """The end in *text*, of which the part before *at* was searched before; None if it is not in there."""
        if self._is_escaped and at < len(text):
            self._is_escaped, at = False, at + 1
        while found := self._pattern.search(text, at):
            at = found.end()
            if found[0] == "\\":
                self._is_escaped = at == len(text)
                at += 1
            elif found[0] == '"':
                self._in_string = not self._in_string
                if not self._in_string and not self._depth:
                    return at
            elif found[0] in "[{":
                self._depth += 1
            elif not self._depth:
                return found.start()
            else:
                self._depth -= 1
                if not self._depth:
                    return at
        return None

    @property
    def _pattern(self) -> re.Pattern[str]:
        if self._in_string:
            return self._IN_STRING
        return self._NESTED if self._depth else self._BARE
