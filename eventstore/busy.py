"""One bounded retry for writes that met a passing fault: whole transactions, never single statements (BSY-01…12).

Only what is keyed goes through it: every append carries event ids, so one that was stored after all is recognised.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from ..domain.errors import StoreBusyError, StoreUnavailableError, UnknownOutcomeError
from .clock import pause

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..domain.ports import Clock, Random

T = TypeVar("T")
logger = logging.getLogger(__name__)

#: Passing faults; disk full, schema errors and refusals fail on the first try.  A row lock is waited for beside.
PASSING: Final = (StoreBusyError, StoreUnavailableError, UnknownOutcomeError)
_PREFIX: Final = "JOBLOG_DB_RETRY_"


def _number(env: Mapping[str, str], name: str, default: int, least: int) -> int:
    text = env.get(_PREFIX + name, "")
    if not text.isascii() or not text.isdigit():  # "5abc", "-1" and "" mean the default
        return default
    return max(int(text), least)


@dataclass
class BusyRetry:
    """Runs a write until it passes or the budget is spent; the original error is raised unchanged.

    ``attempts`` counts the first try.  ``total_ms`` bounds the waiting; at least one retry is always made, however
    long the first try took (BSY-06).  Each wait is ``min(max_ms, base_ms * 2**(n-1))`` times a factor in [0.5, 1.5).
    """

    clock: Clock
    random: Random
    attempts: int = 5
    base_ms: int = 25
    max_ms: int = 400
    total_ms: int = 2000
    log_ms: int = 60_000
    wait: Callable[[float], None] = pause
    counts: dict[str, int] = field(default_factory=lambda: {"retried": 0, "recovered": 0, "gave_up": 0})
    _logged_at: float = float("-inf")

    @classmethod
    def from_env(cls, clock: Clock, random: Random, env: Mapping[str, str] | None = None) -> BusyRetry:
        """Settings from ``JOBLOG_DB_RETRY_{ATTEMPTS,BASE_MS,MAX_MS,TOTAL_MS,LOG_MS}``."""
        env = os.environ if env is None else env
        return cls(
            clock,
            random,
            attempts=_number(env, "ATTEMPTS", 5, 1),
            base_ms=_number(env, "BASE_MS", 25, 1),
            max_ms=_number(env, "MAX_MS", 400, 1),
            total_ms=_number(env, "TOTAL_MS", 2000, 0),
            log_ms=_number(env, "LOG_MS", 60_000, 0),
        )

    def step(self, retry: int) -> float:
        """Seconds before the *retry*-th retry (1 = the first)."""
        bare = min(self.max_ms, self.base_ms * 2 ** min(retry - 1, 32))
        return float(bare) * (0.5 + self.random.random()) / 1000

    def run(self, write: Callable[[], T]) -> T:
        """Call *write* until it passes; the same arguments on each try, as it is one closure."""
        waited = 0.0
        tries = 0
        while True:
            tries += 1
            try:
                done = write()
            except PASSING as error:
                step = self.step(tries)
                spent = tries >= self.attempts or (tries > 1 and (waited + step) * 1000 > self.total_ms)
                if spent:
                    self._give_up(error)
                    raise
                self.counts["retried"] += 1
                waited += step
                self.wait(step)
            else:
                if tries > 1:
                    self.counts["recovered"] += 1
                    self._report()
                return done

    def _give_up(self, error: BaseException) -> None:
        self.counts["gave_up"] += 1
        logger.warning("a write gave up: %s", error)
        self._report()

    def _report(self) -> None:
        """At most one summary a period."""
        now = self.clock.monotonic()
        if (now - self._logged_at) * 1000 >= self.log_ms:
            self._logged_at = now
            logger.info(
                "busy writes: %(retried)d retried, %(recovered)d recovered, %(gave_up)d given up", dict(self.counts)
            )
