"""Who may work on a job, until when: leases and fencing tokens.

A lease is a promise with an end (Gray and Cheriton 1989).  Its end is judged by the store's clock alone; the
holder counts its own deadline on its monotonic clock from *before* it asked.  The fencing token (Kleppmann
2016) names the grant: every append of a holder carries it, and only the newest one is accepted.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from .errors import InvalidFieldError


class Token(NamedTuple):
    """A fencing token: the log's epoch, then the number of the grant within the job.  Compares as a pair."""

    epoch: int
    grant: int


@dataclass(frozen=True, slots=True)
class Lease:
    """The grant a job is running under, as the log tells it."""

    worker: str
    token: Token
    since: datetime
    until: datetime  #: as granted; renewals are not in the log, the lease row has the live end


@dataclass(frozen=True, slots=True)
class LeasePolicy:
    """How long a lease lasts and when it is renewed.

    A worker stops touching a job at 2/3 of the lease without a successful renewal (``stop_after``).
    """

    lease: timedelta = timedelta(seconds=30)
    heartbeat: timedelta = timedelta(seconds=10)

    def __post_init__(self) -> None:
        """Refuse a heartbeat that leaves no second chance (LEA-05)."""
        if self.lease <= timedelta(0):
            raise InvalidFieldError("lease", f"{self.lease} is no positive span", "the default is 30 s")
        if not timedelta(0) < self.heartbeat < self.lease / 2:
            raise InvalidFieldError(
                "heartbeat",
                f"{self.heartbeat} is not below half the lease of {self.lease}",
                "the default is a third",
            )

    @property
    def stop_after(self) -> timedelta:
        """Span without a successful renewal after which the holder no longer touches the job."""
        return self.lease * 2 / 3
