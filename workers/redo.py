"""A unit that was passed over, retried alone: in a job of its own, a child of the one that passed it over (STA-06).

A job that has ended stays as it ended.  The child runs the same function with the same arguments; its verbs return what the
parent recorded, pass over everything else, and run the one unit that is missing.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from ..domain import identity, storable
from ..domain.errors import WrongStateError
from ..domain.events import CheckpointAdvanced, UnitSkipped
from ..domain.spec import JobSpec
from ..domain.status import ENDED
from ..eventstore.mapper import evidence_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..domain.job import Job
    from .commands.answers import Submitted as Answer
    from .commands.log import JobLog

PREFIX: Final = "redo:"  #: of the keys of such children; a job's own children can't have it
_PAGE: Final = 1000  #: events read at a time


@dataclass(frozen=True, slots=True)
class Skipped:
    """A unit that was passed over, and where each verb stood before it."""

    unit: str
    code: str
    text: str
    marks: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Redo:
    """What a run needs to know of the job whose unit it retries."""

    parent: Job  #: the job that passed the unit over first
    skipped: Skipped
    steps: dict[str, Any]
    tried: tuple[UUID, ...]  #: that job, and those that retried the unit and passed it over again

    def batch(self, name: str) -> tuple[int, Any] | None:
        """Number and cursor of the batch of *name* that is to be run; None if the unit belongs to another verb."""
        number, cursor = self.skipped.marks.get(f"b:{name}", (0, None))
        return (number, cursor) if self.skipped.unit == f"{name}:{number}" else None

    def phases(self, log: JobLog, units: Sequence[str]) -> dict[str, bytes]:
        """What the jobs before recorded of *units*."""
        found: dict[str, bytes] = {}
        for job_id in self.tried:
            found |= log.store.unit_states(job_id, units)
        return found


def key_of(unit: str) -> str:
    """The key of the child that retries *unit*."""
    key = PREFIX + unit
    return key if len(key) <= storable.NAME_LIMIT else PREFIX + hashlib.sha256(unit.encode()).hexdigest()


def skipped_units(log: JobLog, job_id: UUID) -> Iterator[Skipped]:
    """The units that a job passed over, in order; its events are read in pages."""
    marks: dict[str, Any] = {}
    after = 0
    while rows := log.store.read(job_id, after=after, limit=_PAGE):
        for event in log.mapper.decode_all(job_id, rows):
            if isinstance(event, UnitSkipped):
                yield Skipped(event.unit, event.code, event.text, marks)
            elif isinstance(event, CheckpointAdvanced):
                marks = event.cursor if isinstance(event.cursor, dict) else {}
        after = rows[-1].version


def retry_skipped(log: JobLog, job_id: UUID, unit: str = "", *, tenant: str | None = None) -> list[Answer]:
    """Hand in one job for each unit that *job_id* passed over, or for *unit* alone; the same again is the same job.

    Raises:
        JobNotFoundError: no such job, or of another tenant.
        WrongStateError: it has not ended, or passed over no such unit.
    """
    job = log.job(job_id, tenant=tenant)
    found = [one.unit for one in skipped_units(log, job_id) if unit in ("", one.unit)] if job.status in ENDED else []
    if not found:
        what = f"retry its passed-over unit {unit!r}" if unit else "retry what it passed over"
        raise WrongStateError(job_id, what, job.status.value, job.version)
    return [log.submit(_spec(job, one)) for one in found]


def _spec(job: Job, unit: str) -> JobSpec:
    exclusive = job.exclusive_key.removeprefix(identity.exclusive(job.tenant, "-")[:-1])
    return JobSpec(
        job.kind,
        job.args,
        key=key_of(unit),
        tenant=job.tenant,
        owner=job.owner,
        queue=job.queue,
        priority=job.priority,
        exclusive_key=exclusive,
        gate=job.gate,
        tags=tuple(job.tags),
        retry=job.policy,
        parent_id=job.id,
    )


def is_one(job: Job) -> bool:
    """Whether *job* retries a unit of its parent."""
    return bool(job.parent_id) and job.key.startswith(PREFIX)


def of(log: JobLog, job: Job) -> Redo:
    """What *job* retries, if it ``is_one``."""
    parent = log.job(UUID(job.parent_id))
    skipped = next(one for one in skipped_units(log, parent.id) if key_of(one.unit) == job.key)
    states = log.store.unit_states(parent.id, prefix="step:")
    steps = {key: evidence_of(state) for key, state in states.items()}
    if is_one(parent):  # it retried the unit, too
        first = of(log, parent)
        return Redo(first.parent, first.skipped, first.steps | steps, (*first.tried, parent.id))
    return Redo(parent, skipped, steps, (parent.id,))
