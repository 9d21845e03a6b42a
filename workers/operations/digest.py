"""What a source file is told by: the SHA-256 of its bytes; size and time of change are hints only."""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict, dataclass
from io import BufferedReader
from typing import Any, Final

from .errors import SourceChangedError

_CHUNK: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Digest:
    """The content of a file, raw (packed) as it lies there."""

    sha256: str
    size: int
    mtime_ns: int  #: a hint: another one is a reason to hash again, the same one proves nothing

    def to_state(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Digest:
        return cls(**state)

    def is_content_of(self, other: Digest) -> bool:
        """Whether both are of the same bytes."""
        return self.sha256 == other.sha256 and self.size == other.size


def measure(file: BufferedReader) -> Digest:
    """Hash an open file as a whole; whoever is reading it stays at its place."""
    stat = os.fstat(file.fileno())
    digest, at = hashlib.sha256(), 0
    while data := os.pread(file.fileno(), _CHUNK, at):
        digest.update(data)
        at += len(data)
    return Digest(digest.hexdigest(), at, stat.st_mtime_ns)


def verify(file: BufferedReader, path: str, planned: Digest) -> Digest:
    """Hash *file* again and compare; answers today's digest, whose hint is today's.

    Raises:
        SourceChangedError: other bytes than were planned on.
    """
    if (size := os.fstat(file.fileno()).st_size) != planned.size:
        _refuse(path, f"{size:,} bytes, but {planned.size:,} when the job was planned")
    found = measure(file)
    if not found.is_content_of(planned):
        _refuse(path, f"SHA-256 is {found.sha256[:12]}…, but {planned.sha256[:12]}… when the job was planned")
    return found


def is_touched(file: BufferedReader, since: Digest) -> bool:
    """Whether the hints say that somebody wrote to the file; cheap enough to ask for every batch."""
    stat = os.fstat(file.fileno())
    return (stat.st_size, stat.st_mtime_ns) != (since.size, since.mtime_ns)


def _refuse(path: str, problem: str) -> None:
    raise SourceChangedError(path, problem, "put the old file back, or submit a new job for the new one")
