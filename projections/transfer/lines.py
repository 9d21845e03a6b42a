"""Lines of events (see ``eventstore.entries``) in chunks: members of a gzip file, or so many lines of a plain one."""

from __future__ import annotations

import zlib
from gzip import compress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

CHUNK: Final = 1000  #: events of one digest, and of one member of a packed file
_READ: Final = 1 << 18
_GZIP: Final = 31  # zlib's word for a gzip member


def packed(chunk: bytes) -> bytes:
    """A member of a gzip file; the same chunk gives the same bytes."""
    return compress(chunk, compresslevel=6, mtime=0)


def members(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The whole members of a packed file, each with the offset behind it; ends before one that is torn.

    Raises:
        zlib.error: what follows is no gzip member.
    """
    offset, rest = 0, b""
    while True:
        unpacker, taken, found = zlib.decompressobj(_GZIP), 0, []
        while not unpacker.eof:
            data = rest or file.read(_READ)
            if not data:
                return
            rest = b""
            found.append(unpacker.decompress(data))
            taken += len(data)
        rest = unpacker.unused_data
        offset += taken - len(rest)
        yield offset, b"".join(found)


def chunks(file: BinaryIO, *, is_packed: bool) -> Iterator[tuple[int, bytes]]:
    """The chunks of a file, each with the offset behind it: members, or so many whole lines of a plain one."""
    if is_packed:
        yield from members(file)
        return
    offset, lines = 0, []
    for line in file:
        if not line.endswith(b"\n"):
            break
        lines.append(line)
        if len(lines) == CHUNK:
            chunk = b"".join(lines)
            offset += len(chunk)
            lines.clear()
            yield offset, chunk
    if lines:
        yield offset + sum(map(len, lines)), b"".join(lines)
