"""Instants and spans as people type them: ISO 8601, or +5m from now."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from ..domain.errors import InvalidFieldError

_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(d|h|m|s)?")
_SECONDS: Final = {"d": 86400, "h": 3600, "m": 60, "s": 1, "": 1}
_LONGEST: Final = 100 * 365 * 86400


def parse_span(text: str, field: str) -> timedelta:
    """``90``, ``90s``, ``5m``, ``1h30m``, ``2d``: seconds where no letter says otherwise."""
    parts = _PART.findall(text)
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if not parts or "".join(number + unit for number, unit in parts) != text or seconds > _LONGEST:
        raise InvalidFieldError(field, f"{text[:40]!r} is no span of time", "give for example 90s, 5m, 1h30m or 2d")
    return timedelta(seconds=seconds)


def parse_instant(text: str, field: str, now: datetime, *, zone: tzinfo | None = None) -> datetime:
    """An instant; without an offset it is local time, or of *zone*, and +5m is counted from *now*."""
    if text.startswith("+"):
        return now + parse_span(text[1:], field)
    try:
        made = datetime.fromisoformat(text)
        return (made if made.tzinfo else made.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        way_out = f"give for example +5m, 2030-01-31T09:00 ({zone or 'local'}) or 2030-01-31T09:00Z"
        raise InvalidFieldError(field, f"{text[:40]!r} is no instant", way_out) from None
