"""The state of a job at a version, so that replay stays short."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from eventsourcing.domain import CanSnapshotAggregate, DomainEvent

from .events import CODE_VOCABULARY
from .job import Job
from .lease import Lease, Token
from .making import made
from .status import Status, Wish

if TYPE_CHECKING:
    from typing import Self


class JobSnapshot(CanSnapshotAggregate[UUID], DomainEvent):
    """Bounds replay, never the truth: snapshot + tail = state from the log, at every version (S15)."""

    TOPIC = "joblog.job.snapshot"

    topic: str
    state: Any
    vocabulary: int = CODE_VOCABULARY

    @classmethod
    def take(cls, job: Any) -> Self:
        """Freeze *job* as it stands; its instant is that of its last event."""
        held = {"topic": Job.TOPIC, "state": job.to_state(), "vocabulary": CODE_VOCABULARY}
        return made(cls, job.id, job.version, job.modified_on, **held)

    def mutate(self, _: None) -> Job:
        """The job again, at that version; what an older snapshot does not hold starts as in a new job."""
        state = dict(self.state)
        for name in Job.INSTANTS:
            if isinstance(value := state.get(name), str):
                state[name] = datetime.fromisoformat(value)
        state["status"], state["wish"] = Status(state["status"]), Wish(state["wish"])
        if state["lease"] is not None:
            worker, epoch, grant, since, until = state["lease"]
            span = datetime.fromisoformat(since), datetime.fromisoformat(until)
            state["lease"] = Lease(worker, Token(epoch, grant), *span)
        job = object.__new__(Job)
        job.__base_init__(self.originator_id, self.originator_version, state["_created_on"])
        job.start_empty()
        vars(job).update(state)
        return job
