"""The door to a log in a database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from ...domain.errors import JobNotFoundError, UnknownOutcomeError
from .. import documents, history, past
from ..job_list import JobPage
from .local_care import LocalCare
from .output import say
from .session import actor, find_job, is_id, user, user_jobs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from ...eventstore.store import JobRow
    from .door import Asked, Document, NewJob, TailPage, TailStart


class Local(LocalCare):
    """See ``Door``."""

    def now(self) -> datetime:
        """See ``Door``."""
        return self.log.now()

    # -- jobs --------------------------------------------------------------------------------------------------------

    def find(self, text: str) -> str:
        """See ``Door``."""
        return str(find_job(self.log, text))

    def _row(self, job_id: str) -> JobRow:
        return self.log.row(UUID(job_id))

    def jobs(self, filters: dict[str, str | None], *, limit: int, after: str, at: str) -> Document:
        """See ``Door``."""
        log = self.log
        if at:
            position = past.position_of(log, at)
            return past.page(log, position, filters, lambda _: True, limit=limit, cursor=after)
        behind = log.row(find_job(log, after)) if is_id(after) else None
        page = JobPage(log, filters, limit=limit, cursor="" if behind else after, after=behind)
        return page.document(log.store.head())

    def job(self, job_id: str, *, at: str = "") -> Document:
        """See ``Door``."""
        row = self._row(job_id)
        if at:
            made = past.job(self.log, row, past.position_of(self.log, at))
            if made is None:
                raise JobNotFoundError(row["id"])
            return made
        return documents.job(self.log, row, now=True)

    def history(self, job_id: str) -> list[Document]:
        """See ``Door``."""
        items: list[Document] = documents.turns(self.log, UUID(job_id))["items"]
        return items

    def events(self, job_id: str) -> Iterator[Document]:
        """See ``Door``."""
        from ..shapes import of_event

        return (of_event(event, stream_key="job") for event in history.events(self.log, UUID(job_id)))

    def why(self, job_id: str) -> Document:
        """See ``Door``."""
        return documents.why(self.log, self._row(job_id))

    def submit(self, job: NewJob) -> Document:
        """See ``Door``."""
        from dataclasses import replace

        options: dict[str, Any] = {"key": job.key, "queue": job.queue, "priority": job.priority, "tags": job.tags}
        spec = user_jobs().spec(job.kind, job.args, owner=user(), tenant=job.tenant, **options)
        spec = replace(spec, key=spec.key or self.log.ids.next(), due_at=job.due_at)
        try:
            return documents.submitted(spec, self.log.submit(spec))
        except UnknownOutcomeError:
            say(f"it may or may not be in the log; the same command with --key {spec.key} finds out and is safe")
            raise

    def command(self, action: str, job_id: str, asked: Asked, *, if_version: int | None, cleanup: bool) -> Document:
        """See ``Door``."""
        more = {"cleanup": True} if cleanup else {}
        who = actor(request_id=asked.request_id, reason=asked.reason)
        return documents.commanded(action, self.log.command(action, UUID(job_id), who, if_version=if_version, **more))

    def retry_skipped(self, job_id: str, unit: str) -> Document:
        """See ``Door``."""
        from ...workers.redo import retry_skipped

        return documents.retried(UUID(job_id), retry_skipped(self.log, UUID(job_id), unit))

    # -- queues, workers, gates --------------------------------------------------------------------------------------

    def queues(self) -> Document:
        """See ``Door``."""
        return documents.queues(self.log)

    def command_queue(self, queue: str, action: str, asked: Asked, **options: Any) -> Document:
        """See ``Door``."""
        who = actor(request_id=asked.request_id, reason=asked.reason)
        return self.log.control_queue(queue, action, who, **options)

    def command_jobs(self, action: str, queue: str, asked: Asked) -> Document:
        """See ``Door``."""
        made = self.log.command_queue(queue, action, actor(request_id=asked.request_id, reason=asked.reason))
        return {"queue": queue, "action": action, **made._asdict()}

    def workers(self) -> Document:
        """See ``Door``."""
        return {"items": documents.workers(documents.leases(self.log))}

    def gates(self) -> Document:
        """See ``Door``."""
        return documents.gates(self.log)

    def open_gate(self, gate: str, asked: Asked, *, resume: bool) -> Document:
        """See ``Door``."""
        from ...workers.commands import gating

        who = actor(request_id=asked.request_id, reason=asked.reason)
        made = gating.open_(self.log, gate, who, resume=resume)
        return documents.gate(self.log, gate) | {"resumed": made.resumed}

    def close_gate(self, gate: str, asked: Asked, until: datetime) -> Document:
        """See ``Door``."""
        from ...workers.commands import gating

        gating.close(self.log, gate, actor(request_id=asked.request_id, reason=asked.reason), until)
        return documents.gate(self.log, gate)

    def limit_gate(self, gate: str, asked: Asked, given: dict[str, Any]) -> Document:
        """See ``Door``."""
        from ...workers.commands import gating

        who = actor(request_id=asked.request_id, reason=asked.reason)
        gating.limit(self.log, gate, who, gating.with_limits(self.log, gate, given))
        return documents.gate(self.log, gate)

    # -- the log -----------------------------------------------------------------------------------------------------

    def follow(self, start: TailStart, *, waiting: bool) -> Iterator[TailPage]:
        """See ``Door``."""
        from .tail import Tail, begin

        only = UUID(start.job) if start.job else None
        return Tail(self.log, begin(self.log, start.after, only), start, job=only).pages(follow=waiting)
