"""What a job is: the state that its events leave, live and on replay.

Memory is O(1) in units: evidence lives in the log and in the unit results, never here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from eventsourcing.domain import BaseAggregate

from .retry import RetryPolicy
from .status import Status, Wish

if TYPE_CHECKING:
    from datetime import datetime

    from .lease import Lease

ERRORS_KEPT: Final = 20  # REC-08: bounded in entries; each entry is bounded by storable.text
TRIES_KEPT: Final = 100  # units attempted and not settled: bounded by what runs at once


class JobState(BaseAggregate[UUID]):
    """One submitted job, the lease it runs under and the checkpoint its units have reached."""

    INSTANTS = ("_created_on", "_modified_on", "due_at", "started_on", "last_attempt_on", "finished_on")

    kind: str
    tenant: str
    owner: str
    queue: str
    priority: int
    args: Any
    args_digest: str
    key: str
    exclusive_key: str
    gate: str
    tags: list[str]
    retry: dict[str, Any] | None
    total: int | None
    parent_id: str
    due_at: datetime

    def start_empty(self) -> None:
        """Everything that a job has before anything happened to it."""
        self.status: Status = Status.QUEUED
        self.wish: Wish = Wish.NONE
        self.lease: Lease | None = None
        self.epoch = self.token = 0  #: of the last grant
        self.attempt = 0  #: grants so far
        self.unit = ""  #: in flight, or last failed
        self.unit_attempt = 0  #: attempts of that unit in this cycle
        self.tries: dict[str, list[int]] = {}  #: unit not settled: attempts, grant of the last one
        self.cycle = 1  #: attempt cycles: one more for each retry by hand
        self.failures = 0  #: of units, over the whole life
        self.crashes = 0  #: of holders at this checkpoint
        self.reclaims = 0  #: over the whole life
        self.done = 0  #: units with evidence
        self.skipped = 0
        self.sequence = 0  #: units in the finished prefix
        self.cursor: Any = None  #: where the operation goes on
        self.tallies: dict[str, int] = {}
        self.lists: dict[str, dict[str, Any]] = {}
        self.cleanup = False
        self.outcome = ""
        self.result: Any = None
        self.reason = self.reason_text = ""
        self.errors: list[dict[str, Any]] = []
        self.errors_dropped = 0
        self.started_on: datetime | None = None
        self.last_attempt_on: datetime | None = None
        self.finished_on: datetime | None = None

    def note_error(self, at: datetime, unit: str, code: str, text: str) -> None:
        """Keep the newest errors, count the others."""
        self.errors_dropped += len(self.errors) >= ERRORS_KEPT
        entry = {"at": at.isoformat(), "unit": unit, "code": code, "text": text}
        self.errors = [*self.errors[1 - ERRORS_KEPT :], entry]

    def note_attempt(self, unit: str, attempt: int) -> None:
        """Keep the attempts of each unit that is not settled, of the newest ones at least."""
        self.unit, self.unit_attempt = unit, attempt
        others = [(name, tried) for name, tried in self.tries.items() if name != unit]
        self.tries = dict(others[1 - TRIES_KEPT :]) | {unit: [attempt, self.token]}

    def give_attempt_back(self, unit: str, spent: int) -> None:
        """Of *unit*, only *spent* attempts count: the last one never reached its provider."""
        self.unit_attempt = spent
        others = {name: tried for name, tried in self.tries.items() if name != unit}
        self.tries = others | {unit: [spent, 0]} if spent else others

    def settle(self, unit: str) -> None:
        """Forget the attempts of a unit that is done or skipped."""
        self.unit, self.unit_attempt = "", 0
        if unit in self.tries:
            self.tries = {name: tried for name, tried in self.tries.items() if name != unit}

    def finish(self, status: Status, at: datetime) -> None:
        """An end of the job also ends its lease."""
        self.status, self.lease, self.wish, self.finished_on = status, None, Wish.NONE, at

    @property
    def policy(self) -> RetryPolicy:
        """The retry policy stored at submit."""
        return RetryPolicy(**(self.retry or {}))

    def to_state(self) -> dict[str, Any]:
        """The state as plain values, for a snapshot."""
        state = {k: v for k, v in vars(self).items() if k not in ("_id", "_version", "_pending_events")}
        if self.lease is not None:
            lease = self.lease
            state["lease"] = [lease.worker, *lease.token, lease.since.isoformat(), lease.until.isoformat()]
        return state
