"""Making a backup: a copy of one moment, packed, unpacked again and verified; only then it counts, and an old one may go."""

from __future__ import annotations

import shutil
from datetime import UTC
from typing import TYPE_CHECKING, Final

from ...domain.errors import CorruptLogError, InvalidFieldError, JobLogError, StoreError, StoreFullError
from ...eventstore.archive_rows import archive_rows
from ...eventstore.clock import moment
from ...eventstore.failpoint import failpoint
from ...eventstore.opening import open_store
from ...eventstore.schema import SCHEMA_VERSION
from ...eventstore.sqlite_copy import check_pages, copy_online, make_single
from ...eventstore.sqlite_store import SqliteStore
from ..proof.check import check_log
from ..transfer.export import export
from ..transfer.manifest import manifest_of
from ..transfer.offline import check_export
from .generations import BackupManifest, Folder
from .packing import Digests, pack, unpack

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ...eventstore.store import Store
    from .generations import Generation

KEEP: Final = 7
RESERVE: Final = 64 << 20  #: bytes that a backup leaves free
DATABASE: Final = "log.db"
EXPORT: Final = "log.ndjson.gz"


def free_bytes(path: Path) -> int:
    """What the disk under *path* has left."""
    return shutil.disk_usage(path).free


def backup(
    store: Store, path: Path, *, reason: str = "", keep: int = KEEP, free: Callable[[Path], int] = free_bytes
) -> Generation:
    """Make a backup of the log in the folder *path*, and keep the newest *keep*.

    SQLite: the whole database.  PostgreSQL: the events (for the rest there is ``pg_basebackup``).

    Raises:
        CorruptLogError: the log is damaged; the backups that are there stay.
        StoreFullError: there is not enough room, found out before anything is written.
    """
    if keep < 1:
        raise InvalidFieldError("keep", f"{keep}", "at least one backup is kept")
    folder, at = Folder(path), moment(store.now()).astimezone(UTC)
    database = str(store.state().store_id)
    try:
        with folder.staging() as staging:
            made = _make(store, folder, staging, f"{at:%Y%m%dT%H%M%S.%fZ}", at.isoformat(), reason, free)
        removed = folder.rotate(keep)
    except (JobLogError, OSError) as error:
        folder.note(at, "backup-failed", f"{error}", done=False, database=database)
        raise
    detail = f"{made.name}, up to position {made.manifest.head}" + (
        f"; removed {', '.join(removed)}" if removed else ""
    )
    folder.note(at, "backup", detail, done=True, database=database)
    return made


def _make(
    store: Store, folder: Folder, staging: Path, name: str, created: str, reason: str, free: Callable[[Path], int]
) -> Generation:
    if isinstance(store, SqliteStore):
        manifest = _whole(store, staging, created, reason, free)
    elif store.dialect == "postgresql":
        manifest = _events(store, staging, created, reason)
    else:
        raise StoreError("a log in memory has no backup")
    failpoint("backup.verified")
    made = folder.publish(staging, f"{name}-{manifest.head}", manifest)
    failpoint("backup.published")
    return made


def _whole(store: SqliteStore, staging: Path, created: str, reason: str, free: Callable[[Path], int]) -> BackupManifest:
    """The database: its copy and the packed copy need room at once."""
    size = store.path.stat().st_size + _size(store.path.with_name(store.path.name + "-wal"))
    if free(staging) < 3 * size + RESERVE:
        raise StoreFullError(
            f"a backup needs up to {3 * size + RESERVE:,} bytes, {free(staging):,} are free; nothing was written"
        )
    copied, packed = staging / DATABASE, staging / f"{DATABASE}.gz"
    copy_online(store.path, copied)
    failpoint("backup.copied")
    digests = pack(copied, packed)
    copied.unlink()
    failpoint("backup.packed")
    check_digests(unpack(packed, copied), digests, packed.name)
    facts, needed = verified_facts(copied)
    copied.unlink()
    return BackupManifest("sqlite", *facts, SCHEMA_VERSION, created, reason, packed.name, *digests, needed)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def check_digests(found: Digests, expected: Digests, name: str) -> None:
    """Refuse what did not come out as it went in."""
    if found != expected:
        raise CorruptLogError(f"{name} does not come out as it went in; is the disk in order?")


def verified_facts(copied: Path) -> tuple[tuple[str, int, int, str], list[str]]:
    """Store, epoch, head and root of a copy whose every page and event was looked at, and which archives it needs.

    Raises:
        CorruptLogError: something in it is damaged.
    """
    check_pages(copied)
    store = open_store(f"sqlite:///{copied}", create=False)
    store.bodies.files.are_away = (
        True  # archives are no part of it: one that is damaged must not keep a backup from being made
    )
    try:
        report = check_log(store)
        state = store.state()
        needed = [archive.name for archive in archive_rows(store).archives()]
    finally:
        store.close()
    make_single(copied)
    copied.with_name(copied.name + ".writer").unlink(missing_ok=True)
    if report.findings:
        raise CorruptLogError(f"{report.findings[0].text}; see `joblog verify`")
    return (str(state.store_id), state.epoch, state.head, report.root.hex()), needed


def _events(store: Store, staging: Path, created: str, reason: str) -> BackupManifest:
    """The events, as an export."""
    made = export(store, staging / EXPORT)
    failpoint("backup.copied")
    for finding in check_export(staging / EXPORT).findings:
        raise CorruptLogError(f"{finding.text}; is the disk in order?")
    failpoint("backup.packed")
    facts = (made.store_id, made.epoch, made.last, made.root)
    digests = Digests(made.bytes, made.sha256, made.file_bytes, made.file_sha256)
    if not manifest_of(staging / EXPORT).is_file():
        raise CorruptLogError("the export has no manifest")
    return BackupManifest("export", *facts, SCHEMA_VERSION, created, reason, EXPORT, *digests)
