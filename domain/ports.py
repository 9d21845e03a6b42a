"""What the rules need from outside: time, randomness and ids come in through these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from datetime import datetime


class Clock(Protocol):
    """Three readings of time, each for one purpose."""

    def now(self) -> datetime:
        """Wall clock, aware, UTC: due times and what people read."""

    def monotonic(self) -> float:
        """Seconds that never jump: a process' own deadlines."""

    def boottime(self) -> float:
        """Seconds since this machine's boot, counted through suspend: leases on an embedded store."""

    def boot_id(self) -> str:
        """Name of this boot; another name means every lease of an embedded store is void."""


class Random(Protocol):
    """A source of jitter."""

    def random(self) -> float:
        """A number in [0, 1)."""


class Ids(Protocol):
    """A source of ids that never repeat."""

    def next(self) -> str:
        """A short printable id, unique over processes, forks and restarts."""
