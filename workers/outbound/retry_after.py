"""When a provider allows the next request: Retry-After and the reset headers, read strictly.

One pure function that never raises, whatever a server sends.  What it answers is what the fields say; that a wait over
a day parks the job, and that a gate closes, is the policy of the caller.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Final, Literal

from .http_date import http_date, rfc3339
from .structured import Bare, MalformedError, dictionary, items

if TYPE_CHECKING:
    from collections.abc import Iterable

Origin = Literal["delta", "date", "reset"]
#: How a provider writes its reset field, where that is known; empty: told by its range.
ResetForm = Literal["", "delta", "epoch", "epoch-ms", "rfc3339"]

#: Longer than this, a job is parked for an operator instead of waiting.
CAP_SECONDS: Final = 86_400
#: What an endless number counts as (RFC 9111 1.2.2): 68 years, so that no sum with a date overflows.
ENDLESS_SECONDS: Final = 2**31
READ_ON: Final = frozenset({403, 408, 413, 425, 429, 500, 502, 503, 504})
_QUOTA_STATUSES: Final = frozenset({429, 503})
_FORBIDDEN: Final = 403

_OWS: Final = " \t"
_DIGITS: Final = re.compile(r"[0-9]+")
_NUMBER: Final = re.compile(r"[0-9]{1,20}(?:\.[0-9]{1,20})?")
_YEAR: Final = 31_536_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_RESETS: Final = ("x-ratelimit-reset", "x-rate-limit-reset")
_REMAINING: Final = ("x-ratelimit-remaining", "x-rate-limit-remaining", "ratelimit-remaining")


@dataclass(frozen=True, slots=True)
class Wait:
    """No request before ``delay`` seconds from the moment the answer came.

    *authoritative*: a Retry-After was given, so this replaces the caller's own back-off, also when it is shorter;
    else only a reset was, which may lengthen that back-off and never shorten it.
    """

    delay: float
    origin: Origin
    authoritative: bool

    @property
    def over_cap(self) -> bool:
        """Whether it is too long to wait for without asking an operator."""
        return self.delay > CAP_SECONDS

    def until(self, now: datetime) -> datetime:
        """The first instant allowed, to the microsecond, rounded up."""
        return now + timedelta(microseconds=math.ceil(Decimal(self.delay) * 1_000_000))


def parse(headers: Iterable[tuple[str, str]], status: int, now: datetime, *, reset_form: ResetForm = "") -> Wait | None:
    """What the *headers* of an answer with *status*, received at *now*, ask for; None if they give nothing usable.

    The longest usable wait counts.
    """
    if status not in READ_ON:
        return None
    fields: dict[str, list[str]] = {}
    for name, value in headers:
        fields.setdefault(name.lower(), []).append(value.strip(_OWS))
    now = now.astimezone(UTC)
    given = _retry_after(fields, now)
    waits: list[tuple[Decimal, Origin]] = [
        *given,
        *((delay, "reset") for delay in _resets(fields, status, now, reset_form)),
    ]
    if not waits:
        return None
    delay, origin = max(waits, key=lambda wait: wait[0])
    return Wait(float(min(max(delay, Decimal(0)), Decimal(ENDLESS_SECONDS))), origin, authoritative=bool(given))


# -- Retry-After ---------------------------------------------------------------------------------------------------


def _retry_after(fields: dict[str, list[str]], now: datetime) -> list[tuple[Decimal, Origin]]:
    dates = [date for text in fields.get("date", ()) if (date := http_date(text, now)) is not None]
    found: list[tuple[Decimal, Origin]] = []
    for value in fields.get("retry-after", ()):
        members = [member.strip(_OWS) for member in value.split(",")]
        if all(map(_DIGITS.fullmatch, members)):
            found.append((Decimal(max(map(_saturated, members))), "delta"))
        elif (moment := http_date(value, now)) is not None:
            # Against the server's own Date too: a clock that is off never shortens the wait.
            found.append((max(_seconds(moment - start) for start in (now, *dates)), "date"))
    return found


def _saturated(digits: str) -> int:
    digits = digits.lstrip("0")
    return ENDLESS_SECONDS if len(digits) > len(str(ENDLESS_SECONDS)) else min(int(digits or "0"), ENDLESS_SECONDS)


def _seconds(span: timedelta) -> Decimal:
    return Decimal(span // timedelta(microseconds=1)) / 1_000_000


# -- resets --------------------------------------------------------------------------------------------------------


def _resets(fields: dict[str, list[str]], status: int, now: datetime, form: ResetForm) -> list[Decimal]:
    found = _spent_policies(", ".join(fields.get("ratelimit", ())))
    if _is_quota_spent(fields, status):
        moments = [_reset(fields[name], now, form) for name in _RESETS if name in fields]
        deltas = [_delta(fields.get("ratelimit-reset", []), whole=True)]
        deltas += [_delta(fields.get("x-ratelimit-reset-after", []), whole=False)]
        found += [delay for delay in (*moments, *deltas) if delay is not None]
    return found


def _is_quota_spent(fields: dict[str, list[str]], status: int) -> bool:
    """Whether the older fields speak of this answer: with quota left, a reset is no reason to wait."""
    left = [value.strip("0") for name in _REMAINING for value in fields.get(name, ()) if _DIGITS.fullmatch(value)]
    if any(left):
        return False
    return status in _QUOTA_STATUSES or (status == _FORBIDDEN and bool(left))


def _reset(values: list[str], now: datetime, form: ResetForm) -> Decimal | None:
    """Seconds until the reset; several values are several windows, and nothing says which one is spent."""
    if len(values) != 1:
        return None
    if not _NUMBER.fullmatch(values[0]):
        moment = rfc3339(values[0]) if form in {"", "rfc3339"} else None
        return None if moment is None else _seconds(moment - now)
    number, clock = Decimal(values[0]), _seconds(now - _EPOCH)
    if number <= _YEAR:
        return number if form in {"", "delta"} else None
    if 10**9 <= number < 10**11:
        return number - clock if form in {"", "epoch"} else None
    if 10**12 <= number < 10**14:
        return number / 1000 - clock if form in {"", "epoch-ms"} else None
    return None


def _delta(values: list[str], *, whole: bool) -> Decimal | None:
    pattern = _DIGITS if whole else _NUMBER
    if len(values) != 1 or not pattern.fullmatch(values[0]) or len(values[0]) > len("31536000.") + 20:
        return None
    number = Decimal(values[0])
    return number if number <= _YEAR else None


def _spent_policies(field: str) -> list[Decimal]:
    """From the RateLimit field: the seconds of each policy that has nothing left; draft 7 wrote a dictionary."""
    try:
        members = [(item.value.kind == "text", item.parameters, "r", "t") for item in items(field)]
    except MalformedError:
        try:
            values = {key: item.value for key, item in dictionary(field).items()}
        except MalformedError:
            return []
        members = [(True, values, "remaining", "reset")]
    spent = [
        _whole(values.get(reset))
        for is_named, values, remaining, reset in members
        if is_named and _whole(values.get(remaining)) == 0
    ]
    return [delay for delay in spent if delay is not None and delay >= 0]


def _whole(value: Bare | None) -> Decimal | None:
    return Decimal(value.raw) if value is not None and value.kind == "integer" else None
