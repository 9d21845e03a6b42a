"""How things are written for people: instants, spans, counts; nothing from the log may steer a terminal."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
#: Glyph and colour of each status; never the colour alone.
STATUS: Final = {
    "queued": ("◔", "blue"),
    "running": ("●", "cyan"),
    "waiting": ("◷", "yellow"),
    "paused": ("‖", "yellow"),
    "completed": ("✓", "green"),
    "failed": ("✕", "red"),
    "cancelled": ("⊘", "bright_black"),
}
_PRINTABLE: Final = re.compile(r"[ -~]*")


def clean(text: str) -> str:
    """Show control, format and surrogate characters as escapes: they could move the cursor or reorder the line."""
    if _PRINTABLE.fullmatch(text):
        return text
    return "".join(_escape(char) if _steers(char) else char for char in text)


def _steers(char: str) -> bool:
    kind = unicodedata.category(char)
    return kind[0] == "C" or kind in {"Zl", "Zp"}


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode()


def iso(micros: int | None) -> str | None:
    """Microseconds since 1970 as RFC 3339, UTC: how instants stand in JSON."""
    return None if micros is None else stamp(_EPOCH + timedelta(microseconds=micros))


def stamp(moment: datetime) -> str:
    """An instant as RFC 3339, UTC."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def moment(micros: int) -> datetime:
    """Microseconds since 1970 as an instant."""
    return _EPOCH + timedelta(microseconds=micros)


def clock_time(at: datetime, now: datetime) -> str:
    """An instant in local time: the time alone if it is today's."""
    local = at.astimezone()
    return local.strftime("%H:%M:%S" if local.date() == now.astimezone().date() else "%Y-%m-%d %H:%M:%S")


def span(seconds: float) -> str:
    """A span of time in at most two units."""
    if seconds < 0:
        return f"-{span(-seconds)}"
    if seconds < 10:  # noqa: PLR2004 - below it a tenth matters
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE} s"
    if whole < _DAY:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE} min"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR} h"


def size(count: float) -> str:
    """Bytes, for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:  # noqa: PLR2004 - decimal units
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def counted(number: int, noun: str) -> str:
    """A number with its noun: 1 job, 2 jobs."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
