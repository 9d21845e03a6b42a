"""What PostgreSQL's SQLSTATEs are in our words."""

from __future__ import annotations

from typing import Final

import psycopg
import sqlalchemy as sa
from psycopg import errors as pg

from ..domain.errors import (
    CorruptLogError,
    EpochChangedError,
    GenerationChangedError,
    JobLogError,
    LogRewoundError,
    StoreBusyError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
    UnknownOutcomeError,
)
from . import postgres_functions as functions
from .store import ConflictError, LockedError

#: The server has ended an idle or overlong transaction with its connection, before any COMMIT reached it.
_IDLE_TOO_LONG: Final = ("25P03", "25P04")
#: What the server's refusals are in our words.
_OURS: Final[tuple[tuple[tuple[type[psycopg.Error], ...], type[BaseException]], ...]] = (
    ((pg.IntegrityError,), ConflictError),
    ((pg.LockNotAvailable, pg.DeadlockDetected, pg.SerializationFailure), LockedError),
    ((pg.DiskFull,), StoreFullError),
    ((pg.DataCorrupted, pg.IndexCorrupted), CorruptLogError),
    ((pg.TooManyConnections, pg.ConfigurationLimitExceeded, pg.QueryCanceled), StoreBusyError),
)


def unwrapped(error: BaseException) -> BaseException:
    """The driver's error: SQLAlchemy connects, so a connection that fails comes wrapped."""
    return error.orig if isinstance(error, sa.exc.DBAPIError) and error.orig is not None else error


def translated(error: BaseException, *, committing: bool) -> BaseException:
    """*error* as one of ours; what is none of the driver's stays as it is."""
    if isinstance(error, JobLogError):
        return error
    error = unwrapped(error)
    if not isinstance(error, psycopg.Error):
        return error
    state = error.sqlstate or ""
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    made: dict[str, BaseException] = {
        functions.NOT_AS_EXPECTED: ConflictError(text),
        functions.GENERATION: GenerationChangedError(f"the job table is in generation {text}"),
        functions.REWOUND: LogRewoundError(
            f"the log ends at {text}; if it was restored on purpose, run `joblog epoch raise`"
        ),
        functions.EPOCH: EpochChangedError(f"the log's epoch is {text} now"),
    }
    if state in made:
        return made[state]
    if isinstance(error, pg.ReadOnlySqlTransaction):
        return StoreUnavailableError(f"{text}: a standby by now, or set to read only")
    for classes, ours in _OURS:
        if isinstance(error, classes):
            return ours(text)
    if state in _IDLE_TOO_LONG:
        return StoreUnavailableError(f"{text}: this process was too slow inside a transaction, which was undone")
    lost = not state or state[:2] in ("08", "57") or isinstance(error, psycopg.InterfaceError)
    if lost:
        return UnknownOutcomeError(text) if committing else StoreUnavailableError(text)
    return StoreError(f"{state} {text}")
