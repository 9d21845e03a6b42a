"""Whole copies of a SQLite log: taken through SQLite's online backup while others write, and put in the place of one."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..domain.errors import CorruptLogError, StoreBusyError
from .failpoint import failpoint
from .files import sync

if TYPE_CHECKING:
    from collections.abc import Iterator

_SIDES: Final = ("-wal", "-shm", "-journal")


def copy_online(source: Path, target: Path) -> None:
    """A copy of the log as it is at one moment; writers go on meanwhile."""
    with (
        closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as reading,
        closing(sqlite3.connect(target)) as writing,
    ):
        reading.backup(writing)
    make_single(target)


def make_single(path: Path) -> None:
    """Have all of a log that nobody else uses in its one file.

    Raises:
        StoreBusyError: somebody has it open.
        CorruptLogError: SQLite says that the file is damaged.
    """
    with closing(sqlite3.connect(path, timeout=0)) as driver:
        try:
            [mode] = driver.execute("PRAGMA journal_mode=DELETE").fetchone()
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
                raise StoreBusyError(f"{path} is in use; stop every process that has it open") from error
            raise CorruptLogError(f"{path}: {error}") from error
    if mode != "delete":
        raise StoreBusyError(f"{path} is in use; stop every process that has it open")


def check_pages(path: Path) -> None:
    """Have SQLite look at every page.

    Raises:
        CorruptLogError: it found damage.
    """
    with closing(sqlite3.connect(path)) as driver:
        try:
            found = [row[0] for row in driver.execute("PRAGMA integrity_check(5)")]
        except sqlite3.DatabaseError as error:
            found = [str(error)]
    if found != ["ok"]:
        raise CorruptLogError(f"{path.name}: {'; '.join(found)}")


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Keep our own writers away from *path*.

    Raises:
        StoreBusyError: one is at work.
    """
    descriptor = os.open(path.with_name(path.name + ".writer"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise StoreBusyError(f"{path} is being written to; stop every process that has it open") from None
    finally:
        os.close(descriptor)


def put_in_place(staged: Path, target: Path, kept: Path | None) -> None:
    """Put the log *staged* where *target* is, which lives on as *kept*; there is always one of them in its place.

    Side files of the old one are moved away before: SQLite would play an old WAL into the new file.
    """
    sync(staged)
    if kept is not None:
        os.link(target, kept)
        for side in _SIDES:
            path = Path(f"{target}{side}")
            if path.exists():
                path.rename(f"{kept}{side}")
        sync(target.parent)
        failpoint("restore.kept")
    staged.replace(target)
    sync(target.parent)
    failpoint("restore.replaced")
