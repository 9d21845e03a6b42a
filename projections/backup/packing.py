"""Packing a file on the way, and unpacking it, with the digests of both forms."""

from __future__ import annotations

import os
import zlib
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

from ...domain.errors import DamagedExportError

if TYPE_CHECKING:
    from pathlib import Path

_BLOCK: Final = 1 << 20
_GZIP: Final = 31


class Digests(NamedTuple):
    """Sizes and SHA-256 of a file, plain and packed."""

    bytes: int
    sha256: str
    packed_bytes: int
    packed_sha256: str


def pack(source: Path, target: Path) -> Digests:
    """Write *source* packed into *target*, to the disk."""
    plain, packed, size, packed_size = sha256(), sha256(), 0, 0
    packer = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
    with source.open("rb") as reading, target.open("xb") as writing:
        while True:
            block = reading.read(_BLOCK)
            plain.update(block)
            size += len(block)
            made = packer.compress(block) if block else packer.flush()
            packed.update(made)
            packed_size += writing.write(made)
            if not block:
                break
        writing.flush()
        os.fsync(writing.fileno())
    return Digests(size, plain.hexdigest(), packed_size, packed.hexdigest())


def unpack(source: Path, target: Path) -> Digests:
    """Write *source* unpacked into *target*, to the disk.

    Raises:
        DamagedExportError: it is torn, or no packed file.
    """
    plain, packed, size, packed_size = sha256(), sha256(), 0, 0
    unpacker = zlib.decompressobj(_GZIP)
    try:
        with source.open("rb") as reading, target.open("wb") as writing:
            while block := reading.read(_BLOCK):
                packed.update(block)
                packed_size += len(block)
                made = unpacker.decompress(block)
                plain.update(made)
                size += writing.write(made)
            writing.flush()
            os.fsync(writing.fileno())
    except (OSError, zlib.error) as error:
        raise DamagedExportError(f"{source.name} can't be unpacked: {error}") from error
    if not unpacker.eof:
        raise DamagedExportError(f"{source.name} is torn")
    return Digests(size, plain.hexdigest(), packed_size, packed.hexdigest())
