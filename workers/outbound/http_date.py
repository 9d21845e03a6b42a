"""The instants that HTTP fields name: the three forms of an HTTP-date (RFC 9110 5.6.7) and RFC 3339.

Strictly by the grammar: a sloppy date names no instant, because guessing could only be wrong by hours.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_SHORT: Final = tuple(day[:3] for day in _DAYS)
_LAST_HOUR: Final = 23
_LAST_MINUTE: Final = 59
_LEAP_SECOND: Final = 60
_WINDOW_YEARS: Final = 50  # a two-digit year further ahead lies in the past

_NAME: Final = f"(?P<name>{'|'.join(_SHORT)})"
_MONTH: Final = f"(?P<month>{'|'.join(_MONTHS)})"
_TIME: Final = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
_FIXDATE: Final = re.compile(rf"{_NAME}, (?P<day>[0-9]{{2}}) {_MONTH} (?P<year>[0-9]{{4}}) {_TIME} GMT")
_RFC850: Final = re.compile(
    rf"(?P<name>{'|'.join(_DAYS)}), (?P<day>[0-9]{{2}})-{_MONTH}-(?P<year>[0-9]{{2}}) {_TIME} GMT"
)
_ASCTIME: Final = re.compile(rf"{_NAME} {_MONTH} (?P<day>[0-9]{{2}}| [0-9]) {_TIME} (?P<year>[0-9]{{4}})")
_RFC3339: Final = re.compile(
    r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})[Tt]"
    rf"{_TIME}(?:\.(?P<fraction>[0-9]{{1,20}}))?(?:[Zz]|(?P<sign>[+-])(?P<ahead>[0-9]{{2}}):(?P<minutes>[0-9]{{2}}))"
)


def http_date(text: str, now: datetime) -> datetime | None:
    """The instant of an HTTP-date; *now* tells which century a two-digit year is of."""
    if match := _FIXDATE.fullmatch(text) or _ASCTIME.fullmatch(text):
        return _instant(int(match["year"]), match)
    if match := _RFC850.fullmatch(text):
        year = _year_of_century(int(match["year"]), match, now)
        return _instant(year, match)
    return None


def rfc3339(text: str) -> datetime | None:
    """The instant of an RFC 3339 time; fractions of a microsecond are rounded up, never earlier."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        return None
    offset = 0
    if match["sign"]:
        hours, minutes = int(match["ahead"]), int(match["minutes"])
        if hours > _LAST_HOUR or minutes > _LAST_MINUTE:
            return None
        offset = (hours * 60 + minutes) * (1 if match["sign"] == "+" else -1)
    fraction = match["fraction"] or ""
    micros = int(fraction[:6].ljust(6, "0")) + (fraction[6:].strip("0") != "")
    local = _clock(int(match["year"]), int(match["month"]), match, leap=offset == 0)
    return _shifted(local, timedelta(microseconds=micros) - timedelta(minutes=offset))


def _shifted(moment: datetime | None, by: timedelta) -> datetime | None:
    if moment is None:
        return None
    try:
        return moment + by
    except OverflowError:
        return None


def _year_of_century(two_digits: int, match: re.Match[str], now: datetime) -> int:
    """The latest year with these digits in which the instant is not more than 50 years ahead."""
    now = now.astimezone(UTC)
    limit = (now.year + _WINDOW_YEARS, now.month, now.day, now.hour, now.minute, now.second)
    month = _MONTHS.index(match["month"]) + 1
    rest = (month, int(match["day"]), int(match["hour"]), int(match["minute"]), int(match["second"]))
    year = limit[0] - (limit[0] - two_digits) % 100
    return year if (year, *rest) <= limit else year - 100


def _instant(year: int, match: re.Match[str]) -> datetime | None:
    moment = _clock(year, _MONTHS.index(match["month"]) + 1, match, leap=True)
    if moment is None:
        return None
    # A leap second already counts to the next day, so the day's name is of the day as written.
    written = moment - timedelta(seconds=1) if int(match["second"]) == _LEAP_SECOND else moment
    return moment if _DAYS[written.weekday()][:3] == match["name"][:3] else None


def _clock(year: int, month: int, match: re.Match[str], *, leap: bool) -> datetime | None:
    """The time as written, as if UTC; a leap second is the second after 23:59:59."""
    hour, minute, second = int(match["hour"]), int(match["minute"]), int(match["second"])
    extra = timedelta(0)
    if leap and (hour, minute, second) == (_LAST_HOUR, _LAST_MINUTE, _LEAP_SECOND):
        second, extra = _LAST_MINUTE, timedelta(seconds=1)
    try:
        made = datetime(year, month, int(match["day"]), hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    return _shifted(made, extra)
