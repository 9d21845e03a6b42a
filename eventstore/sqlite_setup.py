"""SQLite connections that are fit for the log: each pragma is read back, and a file of something else is refused."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from ..domain.errors import UnsafeStoreError
from .clock import pause
from .sqlite_errors import BUSY, result_code

APPLICATION_ID: Final = 0x4A4C4F47  # "JLOG"
BUSY_TIMEOUT_MS: Final = 1000  # only foreign connections can make us wait: ours queue on the writer lock
WAL_RESET_FIXED: Final = (3, 51, 3)
_WAL_TRIES: Final = 100
_WAL_PAUSE: Final = 0.02  # seconds
_PRAGMAS: Final = {
    "synchronous": 2,  # FULL: NORMAL lost an acknowledged event in 3,684 of 5,000 power cuts
    "wal_autocheckpoint": 0,
    "recursive_triggers": 1,  # INSERT OR REPLACE would get past the delete trigger
    "foreign_keys": 1,
    "mmap_size": 0,
    "busy_timeout": BUSY_TIMEOUT_MS,
}


def make_engine(path: str | Path) -> sa.Engine:
    """An engine whose every connection is set up for the log, each pragma read back."""
    file = Path(path)
    if not file.parent.is_dir():
        raise UnsafeStoreError(f"folder {file.parent} does not exist; create it, or choose another path")
    if file.is_symlink():
        raise UnsafeStoreError(f"{file} is a symbolic link; give the real path, two names for one database corrupt it")
    _refuse_foreign(file)
    url = sa.URL.create("sqlite", database=str(file))
    arguments = {"timeout": BUSY_TIMEOUT_MS / 1000, "check_same_thread": False, "isolation_level": None}
    engine = sa.create_engine(url, connect_args=arguments, poolclass=sa.NullPool)
    sa.event.listen(engine, "connect", lambda driver, _: set_up(driver))
    return engine


def _refuse_foreign(file: Path) -> None:
    """Look before anything is changed: even the journal mode of somebody else's database is theirs."""
    if not file.is_file() or not file.stat().st_size:
        return
    try:
        with closing(sqlite3.connect(file)) as driver:
            [application] = driver.execute("PRAGMA application_id").fetchone()
            ours = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            tables = [name for (name,) in driver.execute(ours)]
    except sqlite3.DatabaseError as error:
        if result_code(error) != sqlite3.SQLITE_NOTADB:
            return  # busy, unreadable or damaged: that is told as such
        raise UnsafeStoreError(f"{file} is no SQLite database ({error}); choose another path") from error
    if application not in {0, APPLICATION_ID} or (tables and "log_state" not in tables):
        raise UnsafeStoreError(f"{file} is a database of something else; choose another path")


def set_up(driver: Any) -> None:
    """Make a driver connection fit for the log, and prove it."""
    mode = _to_wal(driver)
    if mode != "wal":
        raise UnsafeStoreError(
            f"journal_mode is {mode!r}, not 'wal'; the log needs a local file system that can do WAL"
        )
    for name, value in _PRAGMAS.items():
        driver.execute(f"PRAGMA {name}={value}").close()
        got = driver.execute(f"PRAGMA {name}").fetchone()
        if (got[0] if got else 0) != value:
            raise UnsafeStoreError(f"PRAGMA {name} is {got}, not {value}: this SQLite can't keep what it acknowledges")
    driver.execute("PRAGMA cache_size=-8000").close()


def _to_wal(driver: Any) -> str:
    """Switch to WAL.  Of two processes that open a new file at once, one is told "locked" without any waiting."""
    for last_try in [False] * _WAL_TRIES + [True]:
        try:
            return str(driver.execute("PRAGMA journal_mode=WAL").fetchone()[0])
        except sqlite3.OperationalError as error:
            if last_try or result_code(error) not in BUSY:
                raise
            pause(_WAL_PAUSE)
    raise AssertionError  # pragma: no cover - the loop returns or raises
