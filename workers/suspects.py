"""When a worker keeps its slots free for a job that must run alone, and when others go before it.

A suspect is a ready job whose holders died twice at one checkpoint: it is claimed into an idle worker only, so that a third
death takes nobody with it.  It must not hold up the queue for that: not behind jobs that come first, not behind a shut
gate, and not for as long as another job happens to run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ..domain.ports import Clock

#: So long a busy worker claims nothing while it waits to be idle (seconds).
QUIET: Final = 30.0
#: If it was not idle by then, so long it claims others; whoever is idle meanwhile takes the suspect (seconds).
BUSY: Final = 300.0
#: So long it claims others after another job came before the suspect (seconds).
PASSED_OVER: Final = 10.0


class Suspects:
    """One worker's patience with them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._quiet_since: float | None = None
        self._not_before = clock.monotonic()

    def have_a_turn(self, *, wait: bool, is_idle: bool) -> bool:
        """Whether the next claim is meant for a suspect; a worker that is not idle then claims nothing."""
        now = self._clock.monotonic()
        if not wait or now < self._not_before:
            self._quiet_since = None
            return False
        if is_idle:
            self._quiet_since = None
            return True
        if self._quiet_since is None:
            self._quiet_since = now
        if now - self._quiet_since < QUIET:
            return True
        self._quiet_since, self._not_before = None, now + BUSY
        return False

    def were_passed_over(self) -> None:
        """Another job came first, or theirs can't be claimed for now."""
        self._not_before = self._clock.monotonic() + PASSED_OVER

    def are_alone(self) -> None:
        """Nothing else can be claimed and nothing runs: it is their turn at once."""
        self._not_before = self._clock.monotonic()

    @property
    def seconds_left(self) -> float:
        """Until they may have a turn, or a quiet worker takes others again; 0 if nothing of the kind is under way."""
        now = self._clock.monotonic()
        end = self._not_before if self._quiet_since is None else self._quiet_since + QUIET
        return max(end - now, 0.0)
