"""An archive as a file: lines of events in members of a gzip file, and beside it a manifest that says where each member is.

The manifest is written last; the log keeps its SHA-256.  One position is read without unpacking the others.
"""

from __future__ import annotations

import threading
import zlib
from bisect import bisect_right
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from ..domain.errors import ArchiveDamagedError, ArchiveMissingError
from .entries import Entry, from_line

if TYPE_CHECKING:
    from collections.abc import Iterable

FORMAT: Final = "joblog-archive/1"
SUFFIX: Final = ".ndjson.gz"
_CHUNKS_KEPT: Final = 8
_LONGEST: Final = 1 << 30  #: bytes that a member may come to
_GZIP: Final = 31


class ArchiveRow(NamedTuple):
    """An archive as the log knows it, by the position of its event."""

    event: int
    name: str
    first: int
    last: int
    events: int  #: how many
    digest: str  #: SHA-256 of the manifest
    folder: str  #: where it was put


class Member(NamedTuple):
    """A part of the file that is unpacked by itself."""

    first: int  #: positions
    last: int
    offset: int  #: bytes, in the file
    size: int


@dataclass(frozen=True, slots=True)
class ArchiveManifest:
    """What an archive holds."""

    store_id: str
    epoch: int
    name: str
    first: int
    last: int
    events: int  #: how many
    streams: int
    rows: str  #: see ``Archived.rows``
    head: str  #: the signed head that covers it
    sha256: str  #: of the unpacked lines
    size: int  #: bytes of the unpacked lines
    file_sha256: str
    file_size: int
    members: list[list[int]]
    format: str = FORMAT

    def encoded(self) -> bytes:
        """As its file has it."""
        return orjson.dumps(asdict(self), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)

    @property
    def digest(self) -> str:
        """What the log keeps of it."""
        return sha256(self.encoded()).hexdigest()


def file_of(folder: Path, name: str) -> Path:
    """Where the lines of an archive are."""
    return folder / (name + SUFFIX)


def manifest_of(folder: Path, name: str) -> Path:
    """Where its manifest is."""
    return folder / f"{name}{SUFFIX}.manifest.json"


class ArchiveFile:
    """An archive that is at hand, to be read by position."""

    def __init__(self, path: Path, manifest: ArchiveManifest) -> None:
        self._path, self.manifest = path, manifest
        self._members = [Member(*member) for member in manifest.members]
        self._firsts = [member.first for member in self._members]
        self._kept: dict[int, dict[int, Entry]] = {}
        self._guard = threading.Lock()

    def entry(self, position: int) -> Entry | None:
        """The event at *position*; None if the archive has none there.

        Raises:
            ArchiveDamagedError: what holds it can't be unpacked.
        """
        number = bisect_right(self._firsts, position) - 1
        if number < 0 or position > self._members[number].last:
            return None
        with self._guard:
            kept = self._kept.pop(number, None)
            if kept is None:
                kept = {entry.position: entry for entry in self.read(self._members[number])}
            self._kept[number] = kept  # the newest at the end
            while len(self._kept) > _CHUNKS_KEPT:
                del self._kept[next(iter(self._kept))]
        return kept.get(position)

    def read(self, member: Member) -> list[Entry]:
        """The events of one member."""
        try:
            with self._path.open("rb") as file:
                file.seek(member.offset)
                return [from_line(line) for line in _unpacked(file.read(member.size)).splitlines()]
        except (OSError, ValueError, zlib.error) as error:
            text = f"positions {member.first} to {member.last} can't be read ({error})"
            raise ArchiveDamagedError(self.manifest.name, member.first, text) from error

    def entries(self) -> Iterable[Entry]:
        """All of it, in order."""
        for member in self._members:
            yield from self.read(member)


def _unpacked(data: bytes) -> bytes:
    unpacker = zlib.decompressobj(_GZIP)
    lines = unpacker.decompress(data, _LONGEST)
    if not unpacker.eof:
        raise ValueError("it is torn")
    return lines


class ArchiveFiles:
    """The archives that are at hand: in *folders*, else where they were put."""

    def __init__(self) -> None:
        self.folders: tuple[Path, ...] = ()
        self.are_away = False  #: look for none of them
        self._open: dict[int, tuple[Any, ArchiveFile]] = {}

    def find(self, row: ArchiveRow) -> tuple[Path, Path] | None:
        """Where the file and the manifest of an archive are."""
        for folder in () if self.are_away else (*self.folders, Path(row.folder)):
            file, manifest = file_of(folder, row.name), manifest_of(folder, row.name)
            if file.is_file() and manifest.is_file():
                return file, manifest
        return None

    def open(self, row: ArchiveRow) -> ArchiveFile:
        """An archive, to read from.

        Raises:
            ArchiveMissingError: it is not at hand.
            ArchiveDamagedError: its manifest is not the one that the log has recorded.
        """
        found = self.find(row)
        if found is None:
            raise ArchiveMissingError(row.name, row.folder)
        stamp = tuple((path, (about := path.stat()).st_size, about.st_mtime_ns) for path in found)
        kept = self._open.get(row.event)
        if kept is None or kept[0] != stamp:
            kept = self._open[row.event] = stamp, ArchiveFile(found[0], _manifest(row, found[1]))
        return kept[1]


def _manifest(row: ArchiveRow, path: Path) -> ArchiveManifest:
    data = path.read_bytes()
    if sha256(data).hexdigest() != row.digest:
        raise ArchiveDamagedError(row.name, 0, "its manifest is not the one that the log has recorded")
    return ArchiveManifest(**orjson.loads(data))
