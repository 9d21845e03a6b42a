"""One line of a ``recovery-events.jsonl`` as others write it, read with care: nothing in it may stop or steer us."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import orjson

from ..domain import addresses, storable
from ..domain.errors import InputError
from ..domain.recovery import SEVERITIES

LINE_LIMIT: Final = 8192  #: bytes of a line, without its end
LIST_LIMIT: Final = 50  #: ids and titles that are kept
NAME_LIMIT: Final = 100  #: characters of a type, a source or a name
_BOM: Final = b"\xef\xbb\xbf"
_INSTANTS: Final = ("at", "time", "timestamp", "ts", "createdAt", "date")
_FIRST_MICROS, _LAST_YEAR = datetime(1970, 1, 1, tzinfo=UTC), 9998
_MILLIS: Final = 1e11  #: a number above it is in milliseconds


class Note(NamedTuple):
    """What a line says, bounded and storable."""

    type: str
    subsystem: str
    detail: str
    severity: str
    source: str
    done: bool
    deleted: bool
    actor: str
    actor_id: str
    ipv4: str
    ipv6: str
    ids: list[str]
    titles: list[str]
    happened_at: datetime | None


def parse(line: bytes) -> Note | None:
    """What *line* says; None if it is blank, too long, no JSON object or without a type."""
    if len(line) > LINE_LIMIT:
        return None
    try:
        found = orjson.loads(line.removeprefix(_BOM))
    except (orjson.JSONDecodeError, RecursionError):
        return None
    return None if not isinstance(found, dict) else of_fields(found)


def of_fields(found: dict[str, Any], *, source: str = "startup") -> Note | None:
    """What these fields say; None without a type."""
    kind = found.get("type")
    if not isinstance(kind, str) or not kind.strip():
        return None
    severity = found.get("severity")
    address = _text(found, "address", "ip", limit=NAME_LIMIT)
    v4, v6 = addresses.split(address)
    return Note(
        storable.text(kind.strip(), limit=NAME_LIMIT),
        _text(found, "database", "subsystem", limit=NAME_LIMIT),
        _text(found, "detail", "message"),
        severity if severity in SEVERITIES else "info",
        _text(found, "source", limit=NAME_LIMIT) or source,
        _done(found, kind),
        found.get("deletedData", found.get("deleted")) is True,
        _text(found, "actorName", "userName", "actor", "user", limit=NAME_LIMIT),
        _text(found, "actorId", "userId", limit=NAME_LIMIT),
        addresses.split(_text(found, "ipv4", limit=NAME_LIMIT))[0] or v4,
        addresses.split(_text(found, "ipv6", limit=NAME_LIMIT))[1] or v6,
        _texts(found.get("ids")),
        _texts(found.get("titles")),
        _instant(found),
    )


def _done(found: dict[str, Any], kind: str) -> bool:
    """As it says; a line that says nothing is done, unless its very type is a failure."""
    said = found.get("done")
    return said if isinstance(said, bool) else not kind.strip().lower().endswith(("failed", "failure", "error"))


def _text(found: dict[str, Any], *names: str, limit: int = storable.TEXT_LIMIT) -> str:
    value = next((found[name] for name in names if isinstance(found.get(name), str) and found[name]), "")
    try:
        storable.refuse_secrets(value, "detail")
    except InputError:
        return "(left out: it held a secret)"
    return storable.text(value, limit=limit)


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list):
        return []
    return [storable.text(one, limit=NAME_LIMIT) for one in value[:LIST_LIMIT] if isinstance(one, str | int)]


def _instant(found: dict[str, Any]) -> datetime | None:
    """The first instant that is one; without a zone it is UTC."""
    for name in _INSTANTS:
        value = found.get(name)
        try:
            if isinstance(value, str):
                made = datetime.fromisoformat(value.strip())
            elif isinstance(value, int | float) and not isinstance(value, bool):
                made = datetime.fromtimestamp(value / 1000 if abs(value) > _MILLIS else value, UTC)
            else:
                continue
            made = made.replace(tzinfo=UTC) if made.tzinfo is None else made.astimezone(UTC)
        except (ValueError, OverflowError, OSError):
            continue
        if made >= _FIRST_MICROS and made.year <= _LAST_YEAR:
            return made
    return None
