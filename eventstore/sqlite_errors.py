"""What SQLite's result codes are in our words."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from ..domain.errors import (
    CorruptLogError,
    JobLogError,
    StoreBusyError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
    UnknownOutcomeError,
)
from .store import ConflictError

if TYPE_CHECKING:
    from pathlib import Path

BUSY: Final = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_FULL: Final = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY}
_IO: Final = {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM}
_CORRUPT: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def translated(error: BaseException, path: Path, *, committing: bool) -> BaseException:
    """*error* of the file at *path* as one of ours; what is none of the driver's stays as it is."""
    if isinstance(error, JobLogError):
        return error
    if isinstance(error, sa.exc.DBAPIError) and error.orig is not None:
        error = error.orig  # SQLAlchemy connects, so a connection that fails comes wrapped
    if isinstance(error, sqlite3.IntegrityError):
        return ConflictError(str(error))
    if not isinstance(error, sqlite3.Error):
        return error
    code = result_code(error)
    text = f"{path}: {error}"
    if code in BUSY:
        return StoreBusyError(text)
    if code in _CORRUPT:
        return CorruptLogError(text)
    if code in _FULL:  # also at COMMIT: a commit record that did not fit counts for nothing
        return StoreFullError(text)
    if committing:
        return UnknownOutcomeError(text)
    if code in _IO or isinstance(error, sqlite3.ProgrammingError):
        return StoreUnavailableError(text)
    return StoreError(text)


def result_code(error: sqlite3.Error) -> int:
    """The primary result code; 0 where the driver itself complains."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
