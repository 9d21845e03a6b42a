"""A folder of backups: one folder each, whole or not there, the newest last by name; and a diary of what was done.

A checksum tells damage.  Who can write both data and manifest can lie: against that there are signed heads.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

import orjson

from ...domain.errors import DamagedExportError, StoreBusyError
from ...eventstore.files import sync, write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path

FORMAT: Final = "joblog-backup/1"
MANIFEST: Final = "manifest.json"
DIARY: Final = "recovery-events.jsonl"
_STAGING: Final = ".staging"


@dataclass(frozen=True, slots=True)
class BackupManifest:
    """What a backup holds; written last, so a folder without one is no backup."""

    kind: str  #: sqlite: the whole database; export: the events, of a PostgreSQL
    store_id: str
    epoch: int
    head: int
    root: str
    schema_version: int
    created_at: str
    reason: str
    file: str
    bytes: int
    sha256: str
    packed_bytes: int
    packed_sha256: str
    archives: list[str] = field(default_factory=list)  #: whose files the log needs besides
    format: str = FORMAT


@dataclass(frozen=True, slots=True)
class Generation:
    """One backup."""

    path: Path
    manifest: BackupManifest

    @property
    def name(self) -> str:
        """What it is called."""
        return self.path.name


def load(path: Path) -> Generation:
    """Read a backup's manifest.

    Raises:
        DamagedExportError: it is not whole.
    """
    try:
        found: dict[str, Any] = orjson.loads((path / MANIFEST).read_bytes())
        made = Generation(path, BackupManifest(**found))
    except (OSError, TypeError, ValueError) as error:
        raise DamagedExportError(f"{path.name}: no whole manifest ({error})") from error
    if made.manifest.format != FORMAT:
        raise DamagedExportError(
            f"{path.name}: the format {made.manifest.format!r} is not known here; use a newer joblog"
        )
    return made


class Folder:
    """Where backups lie."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def generations(self) -> list[Generation]:
        """The whole ones, oldest first."""
        found: list[Generation] = []
        for path in sorted(self.path.iterdir()) if self.path.is_dir() else ():
            try:
                if path.is_dir() and path.name != _STAGING:
                    found.append(load(path))
            except DamagedExportError:
                continue  # no candidate
        return found

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """An empty folder to make a backup in, for one process at a time.

        Raises:
            StoreBusyError: another one is made.
        """
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        staging = self.path / _STAGING
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StoreBusyError(f"another backup or archive is made in {self.path}; wait for it") from None
            shutil.rmtree(staging, ignore_errors=True)  # what a killed one has left
            staging.mkdir(mode=0o700)
            try:
                yield staging
            finally:
                shutil.rmtree(staging, ignore_errors=True)
        finally:
            os.close(descriptor)

    def publish(self, staging: Path, name: str, manifest: BackupManifest) -> Generation:
        """Write the manifest, then give the backup its name: from here on it counts."""
        text = orjson.dumps(asdict(manifest), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()
        write_whole(staging / MANIFEST, text)
        staging.rename(self.path / name)
        sync(self.path)
        return Generation(self.path / name, manifest)

    def rotate(self, keep: int) -> list[str]:
        """Remove the oldest but *keep*; returns their names."""
        old = self.generations()[:-keep]
        for generation in old:
            (generation.path / MANIFEST).unlink()  # first: half a backup must not look like one
            shutil.rmtree(generation.path)
        return [generation.name for generation in old]

    def note(self, at: datetime, kind: str, detail: str, *, done: bool, database: str) -> None:
        """A line of the diary, in the form that the recovery report takes in."""
        line = {"type": kind, "database": database, "detail": detail, "done": done, "source": "manual"}
        line |= {"severity": "info" if done else "error", "at": at.isoformat()}
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self.path / DIARY).open("ab") as file:
            file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
            file.flush()
            os.fsync(file.fileno())
