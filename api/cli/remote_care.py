"""The door to a service: the half that looks after the log, and how its jobs are waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

from ...domain.errors import LogRewoundError, RefusedError, StoreBusyError, StoreUnavailableError
from ...domain.status import Status
from ...eventstore.clock import SystemClock, SystemIds, pause
from ..text import clean
from .exits import OF_STATUS
from .output import say

if TYPE_CHECKING:
    from .door import Asked, Document, Report
    from .http_client import HttpClient

_STANDING: Final = ("name", "position", "behind", "generation", "rebuild", "seconds", "stopped_at", "reason")
_AWAY_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.1  #: between two looks at a job that is waited for


class RemoteCare:
    """See ``Door``."""

    def __init__(self, client: HttpClient) -> None:
        self.http = client
        self.clock, self.ids = SystemClock(), SystemIds()

    def command_at(self, path: str, body: Document, asked: Asked, headers: dict[str, str] | None = None) -> Document:
        """A command, under the request id that was given or one of our own."""
        return self.http.post(path, body, asked.request_id or self.ids.next(), headers)

    def verify(self, job_id: str, first: int | None, last: int | None, report: Report) -> Document:
        """See ``Door``."""
        del report
        given = {"job": job_id or None, "first": first, "last": last}
        body = {name: value for name, value in given.items() if value is not None}
        made = self.http.post("/api/v1/verify", body, self.ids.next())
        return made if "findings" in made else self.result(made["id"])

    def archives(self) -> Document:
        """See ``Door``."""
        return self.http.get("/api/v1/archives")

    def projections(self) -> Document:
        """See ``Door``."""
        made = self.http.get("/api/v1/projections")
        items = [made["job_table"]]
        for one in made["items"]:
            kept = {name: one[name] for name in _STANDING}
            items.append(kept | {"owner": one["owner"] if one["leads"] else None})
        return {"items": [*items, *made["followers"]], "head": made["head"]}

    def rebuild(self, name: str, report: Report) -> Document:
        """See ``Door``."""
        del report
        return self.result(self.http.post(f"/api/v1/projections/{name}/rebuild", {}, self.ids.next())["id"])

    def compare(self, name: str, *, units: bool, report: Report) -> Document:
        """See ``Door``."""
        del report
        made = self.http.post(f"/api/v1/projections/{name}/diff", {"units": units}, self.ids.next())
        return self.result(made["id"])

    def note(self, fields: Document, asked: Asked) -> Document:
        """See ``Door``."""
        return self.command_at("/api/v1/recovery", fields, asked)

    def consumer(self, name: str) -> str:
        """See ``Door``."""
        for one in self.consumers()["items"]:
            if one["name"] == name:
                if one["rewound"]:
                    text = f"{name} was at {one['cursor']} of a log that was put back since"
                    raise LogRewoundError(f"{text}; `joblog --db … consumers rejoin {name}` goes on from there")
                return str(one["cursor"])
        return "0"

    def move_consumer(self, name: str, cursor: str) -> None:
        """See ``Door``."""
        self.http.put(f"/api/v1/consumers/{quote(name, safe='')}", {"cursor": cursor})

    def consumers(self) -> Document:
        """See ``Door``."""
        return self.http.get("/api/v1/consumers")

    def drop_consumer(self, name: str) -> None:
        """See ``Door``."""
        self.http.delete(f"/api/v1/consumers/{quote(name, safe='')}")

    def recovery(self, chosen: str, search: str, page: str) -> Document:
        """See ``Door``."""
        return self.http.get(f"/api/v1/recovery?{urlencode({'filter': chosen, 'q': search, 'page': page})}")

    def result(self, job_id: str) -> Document:
        """What a job about the log has found or done, once it has ended."""
        while True:
            job = self.patient(f"/api/v1/jobs/{job_id}")
            if job["status"] == Status.COMPLETED:
                result: Document = job["result"]
                return result
            if job["status"] in OF_STATUS:
                said = ": ".join(part for part in (job["reason"], job["reason_text"]) if part)
                raise RefusedError(f"job {job_id} is {job['status']}{clean(f' ({said})' if said else '')}")
            pause(_LOOK_SECONDS)

    def patient(self, path: str) -> Document:
        """No follower ends because a service restarts."""
        is_away = False
        while True:
            try:
                page = self.http.get(path)
            except (StoreBusyError, StoreUnavailableError) as error:
                if not is_away:
                    say(f"the service does not answer: {clean(str(error))}; trying again")
                is_away = True
                pause(_AWAY_SECONDS)
                continue
            if is_away:
                say("the service answers again")
            return page
