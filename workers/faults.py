"""What a failure says of itself: its kind, its text, its place, and when to try again."""

from __future__ import annotations

import hashlib
import traceback
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from .errors import ProviderWaits

if TYPE_CHECKING:
    from datetime import datetime

    from .errors import RetryLater


def asked_for(later: RetryLater, now: datetime) -> dict[str, Any]:
    """When the operation or its provider wants to be tried again, and who says so."""
    if isinstance(later, ProviderWaits):
        return {"next_attempt_at": later.until, "origin": later.origin, "lengthens": later.lengthens}
    if later.at is not None:
        return {"next_attempt_at": later.at, "origin": "date"}
    return {"next_attempt_at": now + later.after, "origin": "delta"} if later.after else {}


def category_of(error: BaseException) -> str:
    """What kind of fault an exception of the user's is; by its class, never by its text."""
    if isinstance(error, ConnectionError | TimeoutError):
        return "network"
    if isinstance(error, OSError | sa.exc.OperationalError | sa.exc.InterfaceError | sa.exc.TimeoutError):
        return "storage"
    return "error"


def describe(error: BaseException) -> str:
    """The text of any exception, also of one whose ``__str__`` is broken: a failure can always be stored."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - the user's own; its class must do
        return f"{type(error).__qualname__} (its text can't be read)"


def fingerprint(error: BaseException) -> str:
    """Same place, same fingerprint: a hash over file and function of the frames."""
    frames = traceback.extract_tb(error.__traceback__)
    place = "|".join(f"{frame.filename.rsplit('/', 1)[-1]}:{frame.name}" for frame in frames)
    return hashlib.sha256(f"{type(error).__qualname__}|{place}".encode()).hexdigest()[:12]
