"""The door to a service: the same questions over HTTP."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode
from uuid import UUID

from ...domain.errors import (
    InvalidFieldError,
    JobNotFoundError,
    StoreBusyError,
    StoreUnavailableError,
)
from .door import Asked, TailPage
from .http_client import HttpClient, token_of
from .output import say
from .remote_care import RemoteCare
from .session import DIGITS, digits_of, is_id

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from .door import Document, NewJob, TailStart
    from .settings import Settings

_PAGE: Final = 200
_WAIT: Final = 20  #: seconds that a request waits at the end of the log


class Remote(RemoteCare):
    """See ``Door``."""

    @classmethod
    @contextmanager
    def open(cls, settings: Settings) -> Iterator[Self]:
        """Ask the service of `--server`, with the token of the environment or of a file."""
        client = HttpClient(settings.server, token_of(settings))
        try:
            yield cls(client)
        finally:
            client.close()

    def now(self) -> datetime:
        """See ``Door``."""
        return self.clock.now()

    # -- jobs --------------------------------------------------------------------------------------------------------

    def find(self, text: str) -> str:
        """See ``Door``."""
        digits = digits_of(text)
        if len(digits) == DIGITS:
            return str(UUID(digits))
        found = self.http.get(f"/api/v1/jobs?{urlencode({'id': digits, 'limit': 3})}")["items"]
        if len(found) == 1:
            return str(found[0]["id"])
        if found:
            raise InvalidFieldError("id", f"{text!r} begins {len(found)} or more ids", "give more digits")
        raise JobNotFoundError(text)  # type: ignore[arg-type]

    def jobs(self, filters: dict[str, str | None], *, limit: int, after: str, at: str) -> Document:
        """See ``Door``."""
        query: dict[str, Any] = {name: value for name, value in filters.items() if value is not None}
        query["limit"] = limit
        if at:
            query["at"] = at
        if after:
            query |= {"after": self.find(after)} if is_id(after) else {"cursor": after}
        return self.http.get(f"/api/v1/jobs?{urlencode(query)}")

    def job(self, job_id: str, *, at: str = "") -> Document:
        """See ``Door``."""
        if at:
            return self.http.get(f"/api/v1/jobs/{job_id}?{urlencode({'at': at})}")
        made = self.http.get(f"/api/v1/jobs/{job_id}")
        return made | (self.http.get(f"/api/v1/jobs/{job_id}/lease") if not made["in_outbox"] else {})

    def history(self, job_id: str) -> list[Document]:
        """See ``Door``."""
        items: list[Document] = self.http.get(f"/api/v1/jobs/{job_id}/history")["items"]
        return items

    def events(self, job_id: str) -> Iterator[Document]:
        """See ``Door``."""
        after = 0
        while after is not None:
            page = self.http.get(f"/api/v1/jobs/{job_id}/events?after={after}&limit={_PAGE}")
            yield from page["items"]
            after = page["next"]

    def why(self, job_id: str) -> Document:
        """See ``Door``."""
        return self.http.get(f"/api/v1/jobs/{job_id}/why")

    def submit(self, job: NewJob) -> Document:
        """See ``Door``."""
        body: dict[str, Any] = {"kind": job.kind, "args": job.args, "tags": list(job.tags)}
        given = {
            "queue": job.queue,
            "priority": job.priority,
            "tenant": None if job.tenant == "default" else job.tenant,
        }
        body |= {name: value for name, value in given.items() if value is not None}
        if job.due_at is not None:
            body["due_at"] = job.due_at.astimezone(UTC).isoformat()
        key = job.key or self.ids.next()
        try:
            return self.http.post("/api/v1/jobs", body, key)
        except (StoreUnavailableError, StoreBusyError):
            say(f"it may or may not be in the log; the same command with --key {key} finds out and is safe")
            raise

    def command(self, action: str, job_id: str, asked: Asked, *, if_version: int | None, cleanup: bool) -> Document:
        """See ``Door``."""
        headers = {} if if_version is None else {"If-Match": f'"v{if_version}"'}
        body = {"reason": asked.reason, "cleanup": cleanup}
        return self.command_at(f"/api/v1/jobs/{job_id}/{action}", body, asked, headers)

    def retry_skipped(self, job_id: str, unit: str) -> Document:
        """See ``Door``."""
        return self.command_at(f"/api/v1/jobs/{job_id}/retry-skipped", {"unit": unit}, Asked())

    # -- queues, workers, gates --------------------------------------------------------------------------------------

    def queues(self) -> Document:
        """See ``Door``."""
        return self.http.get("/api/v1/queues")

    def command_queue(self, queue: str, action: str, asked: Asked, **options: Any) -> Document:
        """See ``Door``."""
        path = f"/api/v1/queues/{quote(queue, safe='')}/{action}"
        return self.command_at(path, {"reason": asked.reason, **options}, asked)

    def command_jobs(self, action: str, queue: str, asked: Asked) -> Document:
        """See ``Door``.  There it is a job, which goes on whatever becomes of us."""
        key = asked.request_id or self.ids.next()
        path = f"/api/v1/queues/{quote(queue, safe='')}/jobs/{action}"
        job = self.http.post(path, {"reason": asked.reason}, key)
        say(f"job {job['id']} does it; the same command with --request-id {key} finds it again")
        return self.result(job["id"])

    def workers(self) -> Document:
        """See ``Door``."""
        return self.http.get("/api/v1/workers")

    def gates(self) -> Document:
        """See ``Door``."""
        return self.http.get("/api/v1/gates")

    def open_gate(self, gate: str, asked: Asked, *, resume: bool) -> Document:
        """See ``Door``."""
        return self._gate(gate, "open", asked, {"resume": resume})

    def close_gate(self, gate: str, asked: Asked, until: datetime) -> Document:
        """See ``Door``."""
        return self._gate(gate, "close", asked, {"until": until.astimezone(UTC).isoformat()})

    def limit_gate(self, gate: str, asked: Asked, given: dict[str, Any]) -> Document:
        """See ``Door``."""
        return self._gate(gate, "limit", asked, given)

    def _gate(self, gate: str, action: str, asked: Asked, body: Document) -> Document:
        return self.command_at(f"/api/v1/gates/{quote(gate)}/{action}", {"reason": asked.reason, **body}, asked)

    # -- the log -----------------------------------------------------------------------------------------------------

    def follow(self, start: TailStart, *, waiting: bool) -> Iterator[TailPage]:
        """See ``Door``."""
        query: dict[str, Any] = {"limit": 500}
        query |= {"topics": ",".join(start.topics)} if start.topics else {}
        query |= {"job": start.job} if start.job else {}
        query |= {"tenant": start.tenant} if start.tenant is not None else {}
        after, where = start.after or self._begin(start.job), "feed" if start.cloudevents else "log"
        while True:
            wait = {"wait": _WAIT} if waiting else {}
            path = f"/api/v1/{where}?{urlencode(query | wait | {'after': after})}"
            page = self.patient(path) if waiting else self.http.get(path)
            is_end = page["next"] == after or int(page["next"].partition(":")[2]) >= page["high_water"]
            after = page["next"]
            yield TailPage(page["items"], after)
            if is_end and not waiting:
                return

    def _begin(self, job_id: str) -> str:
        """The end of the log, or the beginning of a job."""
        if not job_id:
            return str(self.http.get("/api/v1/jobs?limit=1")["position"])
        items = self.http.get(f"/api/v1/jobs/{job_id}/events?limit=1")["items"]  # none of one in the outbox
        return str(items[0]["position"] - 1) if items else "0"
