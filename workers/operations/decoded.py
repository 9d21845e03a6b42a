"""Decoded text of a source: chunks, and whole lines of which every record's first byte can be told."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from io import StringIO
from itertools import chain
from typing import Final

from .container import CHUNK, Stream
from .encoding import error_handler, is_suspect, size_of
from .rows import RECORD_LIMIT

_BROKEN_OFF: Final = "\udc80"  # stands for the half of a character at the end of a file


class RecordTooLongError(Exception):
    """The record that is being read has passed ``RECORD_LIMIT``."""


class Decoded:
    """Text in chunks; bytes that are none come as lone surrogates, and size_of() counts them right."""

    def __init__(self, stream: Stream, encoding: str) -> None:
        self._stream, self.encoding = stream, encoding
        self._decoder = codecs.getincrementaldecoder(encoding)(error_handler(encoding))
        self._is_over = False

    def read(self) -> str:
        """Some more text; empty only at the end."""
        while not self._is_over:
            data = self._stream.read(CHUNK)
            self._is_over = not data
            if text := self._decode(data):
                return text
        return ""

    def _decode(self, data: bytes) -> str:
        if data:
            return self._decoder.decode(data)
        try:
            return self._decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return _BROKEN_OFF


class Lines:
    """An iterator over lines for ``csv.reader`` and others, at the speed of ``StringIO``.

    Whoever reads calls ``start_record`` at each record's beginning; then the offset of that record, in bytes,
    can be asked for at any time until the next.
    """

    def __init__(self, decoded: Decoded, offset: int, newline: str = "\n", chars: int = 0) -> None:
        self._decoded, self._newline = decoded, newline
        self._text, self._rest = "", ""  # of the block that is being read, and what was read beyond it
        self._block: StringIO | LoneReturns = StringIO()
        self._offset, self._chars = offset, chars  # of the block's first character
        self._record_offset, self.record_at = offset, chars
        self._is_block_suspect = False
        self.is_suspect = False  #: the record may hold what check_text() refuses, or be the half of one
        self.is_exhausted = False  #: somebody asked for a line after the last
        self._all = chain.from_iterable(self._blocks())

    def __iter__(self) -> Iterator[str]:
        return self._all

    @property
    def chars(self) -> int:
        """Characters read so far."""
        return self._chars + self._block.tell()

    def start_record(self, at: int) -> None:
        """Remember that a record begins *at* this character, at which reading is now."""
        self.record_at = at
        self.is_suspect = self._is_block_suspect

    @property
    def record_offset(self) -> int:
        """First byte of the record that was started last."""
        if self.record_at < self._chars:
            return self._record_offset
        return self._offset + size_of(self._text[: self.record_at - self._chars], self._decoded.encoding)

    def _blocks(self) -> Iterator[StringIO | LoneReturns]:
        while text := self._next_block():
            self._enter(text)
            yield self._block
        self.is_exhausted = self.is_suspect = True

    def _next_block(self) -> str:
        """Whole lines, or at the end what is left."""
        self._bound("")
        text, self._rest = self._rest, ""
        while more := self._decoded.read():
            cut = more.rfind(self._newline) + 1
            if cut:
                self._rest = more[cut:]
                return text + more[:cut]
            text += more
            self._bound(text)
        return text

    def _bound(self, text: str) -> None:
        if self._chars + len(self._text) + len(text) - self.record_at > RECORD_LIMIT:
            raise RecordTooLongError

    def _enter(self, text: str) -> None:
        self._record_offset = self.record_offset
        self._offset += size_of(self._text, self._decoded.encoding)
        self._chars += len(self._text)
        self._text = text
        self._block = StringIO(text, newline="\n") if self._newline == "\n" else LoneReturns(text)
        self._is_block_suspect = is_suspect(text)
        self.is_suspect |= self._is_block_suspect


class LoneReturns:
    r"""Lines that end with ``\r`` alone, as old Macs wrote them, with the place that reading has reached."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if self._at >= len(self._text):
            raise StopIteration
        start, end = self._at, self._text.find("\r", self._at) + 1
        self._at = end or len(self._text)
        return self._text[start : self._at]

    def tell(self) -> int:
        return self._at
