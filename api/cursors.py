"""Places in lists and in the log, as text that clients keep and send back."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

import orjson

from .http.errors import BadCursorError, StaleCursorError

if TYPE_CHECKING:
    from ..eventstore.store import LogState

_LIMIT: Final = 2**63 - 1


class Place(NamedTuple):
    """The key of a row at the edge of a page, and which way the next page lies."""

    at: int
    id: UUID
    back: bool = False


def digest(filters: dict[str, Any]) -> str:
    """Which list a cursor is of."""
    return hashlib.sha256(orjson.dumps(filters, option=orjson.OPT_SORT_KEYS)).hexdigest()[:12]


def encode(place: Place, filters: dict[str, Any]) -> str:
    """A place, bound to its list."""
    raw = orjson.dumps([place.at, place.id.hex, int(place.back), digest(filters)])
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def decode(text: str, filters: dict[str, Any]) -> Place:
    """And back.

    Raises:
        BadCursorError: no cursor, or one of another list.
    """
    try:
        at, job_id, back, of = orjson.loads(base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4)))
        place = Place(int(at), UUID(job_id), bool(back))
    except (ValueError, TypeError, AttributeError):
        raise BadCursorError("this is no cursor; take the one of an answer, or begin without") from None
    if of != digest(filters) or not 0 <= place.at <= _LIMIT:
        raise BadCursorError("this cursor is of a list with other filters; begin that list without a cursor")
    return place


# -- in the log ------------------------------------------------------------------------------------------------------


def log_place(text: str, state: LogState) -> int:
    """A position, or ``epoch:position``, to go on behind.

    Raises:
        BadCursorError: neither.
        StaleCursorError: of another epoch, or past the end.
    """
    epoch, colon, position = text.rpartition(":")
    is_number = position.isascii() and position.isdecimal() and len(position) < 19  # noqa: PLR2004 - 63 bits
    if not is_number or (colon and not (epoch.isascii() and epoch.isdecimal() and len(epoch) < 19)):  # noqa: PLR2004
        raise BadCursorError("give a position, or epoch:position as an answer has it")
    if colon and int(epoch) != state.epoch:
        raise StaleCursorError(
            f"the place is of epoch {epoch}, the log is in epoch {state.epoch}: what followed may be other events; "
            f"begin again at 0, or accept it with {state.epoch}:{position}"
        )
    if int(position) > state.head:
        raise StaleCursorError(
            f"the log ends at {state.head}, before position {position}; if it was restored, begin at 0"
        )
    return int(position)
