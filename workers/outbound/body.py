"""A response's body, bounded in bytes while it comes and while it is unpacked (BND-03…05)."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

#: What we offer, and the window of each for zlib.
ENCODINGS: Final = {"gzip": 31, "x-gzip": 31, "deflate": 15}
ACCEPT_ENCODING: Final = "gzip, deflate"
_RAW_DEFLATE: Final = -15
_ZLIB_METHOD: Final = 8  # in the low half of the first byte


class TooLargeBodyError(Exception):
    """More bytes than allowed (internal)."""


class BrokenBodyError(Exception):
    """Not what its Content-Encoding says, or cut off (internal)."""


class UnknownEncodingError(Exception):
    """An encoding that we did not offer (internal)."""


async def read(chunks: AsyncIterator[bytes], encoding: str, limit: int, into: bytearray) -> None:
    """Put the unpacked body into *into*, which keeps what had come before an error.

    Raises:
        TooLargeBodyError: over *limit* bytes, as sent or unpacked.
        BrokenBodyError: can't be unpacked to its end.
        UnknownEncodingError: an encoding that was not offered.
    """
    encoding = encoding.strip().lower()
    if encoding not in {"", "identity", *ENCODINGS}:
        raise UnknownEncodingError
    unpacker = _Unpacker(ENCODINGS[encoding], limit, into) if encoding in ENCODINGS else None
    received = 0
    async for chunk in chunks:
        received += len(chunk)
        if received > limit:
            into += b"" if unpacker else chunk[: limit - len(into)]
            raise TooLargeBodyError
        if unpacker is None:
            into += chunk
        else:
            unpacker.feed(chunk)
    if unpacker is not None and received and not unpacker.is_whole:
        raise BrokenBodyError


class _Unpacker:
    """zlib never gives more than is asked for, so a bomb costs no more memory than the limit."""

    def __init__(self, window: int, limit: int, into: bytearray) -> None:
        self._window, self._limit, self._into = window, limit, into
        self._stream: zlib._Decompress | None = None

    @property
    def is_whole(self) -> bool:
        return self._stream is None or self._stream.eof

    def feed(self, data: bytes) -> None:
        try:
            while data:
                data = self._unpacked(data)
        except zlib.error as error:
            raise BrokenBodyError from error

    def _unpacked(self, data: bytes) -> bytes:
        """Unpack a part; returns what is left to unpack."""
        if self._stream is None or self._stream.eof:  # gzip may have members one after another
            self._stream = zlib.decompressobj(self._window_of(data))
        room = self._limit - len(self._into)
        made = self._stream.decompress(data, room + 1)
        self._into += made[:room]
        if len(made) > room:
            raise TooLargeBodyError
        return self._stream.unused_data if self._stream.eof else self._stream.unconsumed_tail

    def _window_of(self, data: bytes) -> int:
        is_raw = self._window == ENCODINGS["deflate"] and data[0] & 0x0F != _ZLIB_METHOD
        return _RAW_DEFLATE if is_raw else self._window
