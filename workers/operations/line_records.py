"""Rows of formats whose records begin at lines: CSV and NDJSON; each record's first byte is a place to resume at."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from .decoded import Decoded, Lines, RecordTooLongError
from .encoding import size_of
from .rows import FIELD_LIMIT, RECORD_LIMIT, Code, Cursor, Row, UnfitError


class Records(Protocol):
    """What cuts lines into records."""

    @property
    def line_num(self) -> int:
        """Lines taken so far."""

    def __next__(self) -> Any: ...


class LineFormat(Protocol):
    """What one of the formats knows."""

    newline: str
    escape: str  #: takes the meaning of the character behind it; mostly empty
    quote: re.Pattern[str] | None  #: group 1 is a quote between which a line break belongs to the record

    def cut(self, lines: Lines) -> Records:
        """Begin to cut; an empty record is none."""

    def values(self, record: Any, *, check: bool) -> dict[str, Any]:
        """The row of a record; *check* says that bad characters or over-long values are possible in it.

        Raises:
            UnfitError: it is no row.
        """


class LineRows:
    """Reads rows from a cursor on."""

    def __init__(self, layout: LineFormat, open_at: Callable[[int], Decoded], at: Cursor) -> None:
        self._layout, self._open_at = layout, open_at
        self._row, self._ended = at.row, at.ended
        self._begin(at.offset, at.line)

    def _begin(self, offset: int, line: int, chars: int = 0) -> None:
        self._lines = Lines(self._open_at(offset), offset, self._layout.newline, chars)
        self._records = self._layout.cut(self._lines)
        self._line = line  # at which these records begin
        self.consumed = chars  #: characters of the rows so far

    def cursor(self, batch: int) -> Cursor:
        """The place behind the last row."""
        self._lines.start_record(self.consumed)
        line = self._line + self._records.line_num
        return Cursor(batch, self._row, line, self._lines.record_offset, self._ended)

    def next_row(self) -> Row | None:
        """The next row, or None at the end."""
        lines, records, record, line = self._lines, self._records, None, 0
        try:
            while not record:
                lines.start_record(self.consumed)
                line = self._line + records.line_num
                record = next(records)
                self.consumed = lines.chars
            if lines.is_suspect or self.consumed - lines.record_at > FIELD_LIMIT:
                values = self._checked(record)
            else:
                values = self._layout.values(record, check=False)
        except StopIteration:
            self.consumed = lines.chars
            return None
        except UnfitError as unfit:
            return self._refused(unfit, line)
        except csv.Error as problem:
            self.consumed = lines.chars
            return self._misquoted(problem, line)
        except RecordTooLongError:
            return self._pass_over(line)
        self._row += 1
        return Row(self._row, line, values)

    def _checked(self, record: Any) -> dict[str, Any]:
        if self.consumed - self._lines.record_at > RECORD_LIMIT:
            raise RecordTooLongError
        if self._lines.is_exhausted:
            raise csv.Error("unexpected end of data")  # as the reader says by itself where it is strict
        return self._layout.values(record, check=True)

    def _misquoted(self, problem: csv.Error, line: int) -> Row:
        """Reading goes on at the line behind the one where the record can't be right any more."""
        if self.consumed - self._lines.record_at > RECORD_LIMIT:
            return self._pass_over(line)
        if self._lines.is_exhausted:
            return self._unclosed(line)
        text = "text after a closing quote" if "expected after" in str(problem) else "a line break outside of quotes"
        return self._refused(UnfitError(Code.BAD_QUOTING, text), line)

    def _pass_over(self, line: int) -> Row:
        """Go behind a record that is too long to be kept, by its quotes and line breaks alone."""
        offset = self._lines.record_offset
        passed = pass_over(self._open_at(offset), self._layout)
        self._begin(offset + passed.size, line + passed.lines, self._lines.record_at)
        if not passed.is_closed:
            return self._unclosed(line)
        return self._refused(UnfitError(Code.OVER_LONG, f"a record over {RECORD_LIMIT:,} characters"), line)

    def _unclosed(self, line: int) -> Row:
        self._ended = True
        text = "a quote opens here and is never closed; correct it, or declare the dialect's quotechar"
        return self._refused(UnfitError(Code.UNCLOSED_QUOTE, text), line)

    def _refused(self, unfit: UnfitError, line: int) -> Row:
        self._row += 1
        return unfit.refuse(self._row, line)


class Passed(NamedTuple):
    """A record that was not kept."""

    size: int  #: bytes
    lines: int
    is_closed: bool


def pass_over(decoded: Decoded, layout: LineFormat) -> Passed:
    """Find a record's end in constant memory: the first line break that has an even number of quotes before it."""
    size = lines = quotes = 0
    while chunk := decoded.read():
        while layout.escape and chunk.endswith(layout.escape) and (more := decoded.read()):
            chunk += more
        start = 0
        while end := chunk.find(layout.newline, start) + 1:
            quotes += _quotes(chunk[start:end], layout)
            lines, start = lines + 1, end
            if quotes % 2 == 0:
                return Passed(size + size_of(chunk[:end], decoded.encoding), lines, is_closed=True)
        quotes += _quotes(chunk[start:], layout)
        size += size_of(chunk, decoded.encoding)
    return Passed(size, lines + 1, quotes % 2 == 0)


def _quotes(text: str, layout: LineFormat) -> int:
    return sum(1 for found in layout.quote.finditer(text) if found[1]) if layout.quote else 0
