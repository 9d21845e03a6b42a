"""When a failed unit is due again: a pure function of the attempt."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from .errors import InvalidFieldError

_LIMIT: Final = 10_000_000  # seconds are 115 days: no wait overflows a datetime, no count 64 bits


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Doubling back-off with jitter that only lengthens.

    ``retries`` counts the tries *after* the first: 5 retries are at most 6 attempts.  The stored wait of
    retry *n* is ``first * factor**(n-1)``, capped so that ``ceiling_seconds`` holds with the jitter included
    and the jitter still spreads retries at the ceiling (RTY-05…08).
    """

    first_seconds: float = 1.0
    factor: float = 2.0
    ceiling_seconds: float = 37.5
    retries: int = 5
    jitter: float = 0.25

    def __post_init__(self) -> None:
        """Refuse a policy that can't be computed."""
        for name in ("first_seconds", "factor", "ceiling_seconds", "jitter"):
            value = getattr(self, name)
            if type(value) not in {int, float} or not 0 <= value <= _LIMIT:
                problem = f"{value!r} is no number from 0 to {_LIMIT:,}"
                raise InvalidFieldError(f"retry.{name}", problem, "give seconds or a ratio")
        if type(self.retries) is not int or not 0 <= self.retries <= _LIMIT:
            problem = f"{self.retries!r} is no whole number from 0 to {_LIMIT:,}"
            raise InvalidFieldError("retry.retries", problem, "0 means one attempt")
        if self.factor < 1:
            problem = f"{self.factor!r} would shrink the wait"
            raise InvalidFieldError("retry.factor", problem, "give 1 or more")

    @property
    def max_attempts(self) -> int:
        """Attempts of one unit in one cycle, the first included."""
        return self.retries + 1

    def is_exhausted(self, attempts: int) -> bool:
        """Whether *attempts* spent leave no retry."""
        return attempts >= self.max_attempts

    def delay(self, attempt: int, random: float) -> timedelta:
        """How long to wait after the failed *attempt* (1 = the first), given a random number in [0, 1).

        A random number that is none (NaN, out of range) is taken as the nearest bound, never as a shorter
        wait.
        """
        try:
            growth = float(self.factor) ** min(max(attempt, 1) - 1, _LIMIT)
        except OverflowError:
            growth = math.inf
        longest = self.ceiling_seconds / (1 + self.jitter)
        base = min(self.first_seconds * growth, longest) if self.first_seconds else 0.0
        share = 0.0 if math.isnan(random) else min(max(random, 0.0), 1.0)
        return timedelta(seconds=min(base * (1 + self.jitter * share), self.ceiling_seconds))

    def to_state(self) -> dict[str, Any]:
        """Only what differs from the default, as stored with the job."""
        if self is DEFAULT_RETRY:
            return {}
        names = ("first_seconds", "factor", "ceiling_seconds", "retries", "jitter")
        return {name: getattr(self, name) for name in names if getattr(self, name) != getattr(DEFAULT_RETRY, name)}


DEFAULT_RETRY: Final = RetryPolicy()
