"""The bytes of a source from any offset on: of a plain file, of a gzip file, or of one member of a zip file."""

from __future__ import annotations

import gzip
import lzma
import stat
import zipfile
import zlib
from io import BufferedReader
from pathlib import Path
from typing import Final, Protocol, cast

from ...domain.errors import InvalidFieldError
from .errors import SourceDamagedError, SourceMissingError
from .zip_member import find_member, open_zip

CHUNK: Final = 256 * 1024
#: What unpacks to more than this many times its size, beyond a free GiB, is a bomb (text packs 3 to 50 times).
RATIO_LIMIT: Final = 250
RATIO_FREE: Final = 1024**3

_GZIP, _ZIP = b"\x1f\x8b", (b"PK\x03\x04", b"PK\x05\x06")
_OTHERS = {b"BZh": "bzip2", b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"7z\xbc\xaf": "7z"}
_DAMAGES = (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, gzip.BadGzipFile)


class Stream(Protocol):
    """What is read from: *size* bytes at a time, fewer only at the end."""

    def read(self, size: int, /) -> bytes: ...


def split_path(path: str) -> tuple[str, str]:
    """Part ``archive.zip!member`` into both; the file that exists decides which ``!`` parts them."""
    if not path or "\0" in path:
        raise InvalidFieldError("path", "empty, or with a NUL", "give the path of a file")
    at = path.find("!", 1)
    while at > 0 and not Path(path).exists():
        if Path(path[:at]).is_file():
            return str(Path(path[:at]).absolute()), path[at + 1 :]
        at = path.find("!", at + 1)
    return str(Path(path).absolute()), ""


def open_file(path: str) -> BufferedReader:
    """Open a regular file; anything else could not be read twice.

    Raises:
        SourceMissingError: not there, or not to be opened. InvalidFieldError: no regular file.
    """
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):
            raise InvalidFieldError("path", f"{path} is no regular file", "give a file that stays while it is read")
        return Path(path).open("rb")
    except OSError as problem:
        reason = problem.strerror or type(problem).__name__
        raise SourceMissingError(path, reason, "put the file there, or let the worker read it") from None


class Container:
    """An open source file; *kind* is told by its first bytes, never by its name."""

    def __init__(self, path: str, file: BufferedReader, member: str = "") -> None:
        self._path, self._file = path, file
        self.member, self.total = "", None  # type: str, int | None
        self.kind, self._size = _kind(path, file), file.seek(0, 2)
        if self.kind == "zip":
            self._archive = open_zip(path, file)
            info = find_member(path, self._archive, member)
            self.member, self.total = info.filename, info.file_size
        elif member:
            raise InvalidFieldError("path", f"{path} is no zip file", "leave out the ! and what follows")
        elif self.kind == "plain":
            self.total = self._size

    def open_at(self, offset: int) -> Stream:
        """Read from *offset* on: O(1) in a plain file; a packed one is unpacked up to there, unparsed.

        One stream at a time: the next call takes the file from the last stream.
        """
        if self.kind == "plain":
            self._file.seek(offset)
            return self._file
        packed = Unpacking(self._path, self._unpack(), self._size)
        while offset > 0 and (passed := len(packed.read(min(offset, CHUNK)))):
            offset -= passed
        return packed

    def _unpack(self) -> Stream:
        if self.kind == "zip":
            return cast("Stream", self._archive.open(self.member))
        self._file.seek(0)
        return cast("Stream", gzip.GzipFile(fileobj=self._file))


class Unpacking:
    """Unpacked bytes, as long as they are sound and no bomb."""

    def __init__(self, path: str, stream: Stream, packed_size: int) -> None:
        self._path, self._stream = path, stream
        self._left = packed_size * RATIO_LIMIT + RATIO_FREE

    def read(self, size: int, /) -> bytes:
        """Read *size* bytes; fewer only at the end.

        Raises:
            SourceDamagedError: what is there can't be unpacked, or unpacks beyond all measure.
        """
        try:
            data = self._stream.read(size)
        except _DAMAGES as damage:
            problem = f"can't be unpacked ({type(damage).__name__})"
            raise SourceDamagedError(self._path, problem, "copy the file there again, and check it") from None
        self._left -= len(data)
        if self._left < 0:
            problem = f"unpacks to more than {RATIO_LIMIT} times its size"
            raise SourceDamagedError(self._path, problem, "unpack it yourself if that is right")
        return data


def _kind(path: str, file: BufferedReader) -> str:
    file.seek(0)
    head = file.read(8)
    if head.startswith(_GZIP):
        return "gzip"
    if head.startswith(_ZIP):
        return "zip"
    if other := next((name for magic, name in _OTHERS.items() if head.startswith(magic)), ""):
        raise InvalidFieldError("path", f"{path} is packed with {other}", "pack it with gzip or zip, or unpack it")
    return "plain"
