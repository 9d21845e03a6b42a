"""A route as data: what it takes, what it answers, who may; and one call of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import msgspec

from ...domain.errors import InvalidFieldError, JobNotFoundError
from ...domain.job import Actor
from .errors import KeyMissingError

if TYPE_CHECKING:
    from aiohttp import web

    from ...eventstore.store import JobRow
    from ...workers.commands.log import JobLog
    from .auth import Principal
    from .service import Service

_KEY: Final = re.compile(r"[A-Za-z0-9._:-]{20,64}")


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """No parameters, or an empty body."""


@dataclass(slots=True)
class Answer:
    """What a handler gives back."""

    body: Any = None  #: made JSON, unless bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    media: str = "application/json"


@dataclass(frozen=True)
class Route:
    """One way in.  ``handler`` runs in a thread that may ask the store; ``on_loop`` ones are coroutines."""

    method: str
    path: str
    scope: str  #: empty: open to everybody
    handler: Callable[[Any], Any]
    summary: str
    answer: Any = None  #: the type of its body; None for none or no JSON
    query: type[msgspec.Struct] = Nothing
    body: type[msgspec.Struct] | None = None
    status: int = 200
    other_status: tuple[int, ...] = ()  #: more good answers
    other: tuple[tuple[int, Any], ...] = ()  #: more good answers, each of a type of its own
    whole: bool = False  #: about all tenants
    needs_key: bool = False
    on_loop: bool = False
    asks: bool = (
        False  #: it asks ``Call.may`` itself, right before its effect; of every other command that is asked first
    )
    media: str = "application/json"
    page: bool = False  #: HTML for people, in no document for programs
    is_form: bool = False  #: its body comes from a form

    @property
    def name(self) -> str:
        """For the document: the handler's own."""
        return self.handler.__name__

    @property
    def is_command(self) -> bool:
        """Whether it changes something."""
        return self.method not in {"GET", "HEAD"}


@dataclass
class Call:
    """One request to a route."""

    service: Service
    request: web.Request
    route: Route
    request_id: str
    address: str
    principal: Principal
    query: Any = None
    body: Any = None
    place: str = ""  #: epoch and position of the log when its page was begun
    form_key: str = ""  #: the key that a form brought

    @property
    def log(self) -> JobLog:
        return self.service.log

    @property
    def key(self) -> str:
        """The Idempotency-Key: a structured-field string, or bare.

        Raises:
            KeyMissingError: there is none.
        """
        given = self.form_key or self.request.headers.get("Idempotency-Key", "").strip()
        key = given[1:-1] if len(given) > 1 and given[0] == given[-1] == '"' else given
        if not key:
            raise KeyMissingError("send an Idempotency-Key of your own making: the same key again is the same command")
        if not _KEY.fullmatch(key):
            raise InvalidFieldError(
                "Idempotency-Key", "not 20 to 64 safe characters", "use letters, digits, '.', '_', ':', '-'"
            )
        return key

    def actor(self, reason: str = "", *, key: str = "") -> Actor:
        """Who commands, from where, under which request id: that of the request, or *key*."""
        return Actor(self.principal.name, key or self.key, self.address, reason)

    @property
    def may(self) -> Callable[[], bool]:
        """Asked again right before the effect."""
        return partial(self.service.auth.may, self.principal, self.route.scope)

    @property
    def job_id(self) -> UUID:
        """The id in the path."""
        text = self.request.match_info["id"]
        try:
            return UUID(text)
        except ValueError:
            raise JobNotFoundError(text[:60]) from None  # type: ignore[arg-type]

    def row(self) -> JobRow:
        """The row of the job in the path, if it is theirs to see; else it is as if there were none."""
        return self.row_of(self.job_id)

    def row_of(self, job_id: UUID) -> JobRow:
        """The same of any job."""
        row = self.log.row(job_id)
        if not self.principal.sees(row):
            raise JobNotFoundError(job_id)
        return row

    @property
    def if_version(self) -> int | None:
        """The version that If-Match names."""
        given = self.request.headers.get("If-Match", "").strip()
        if not given or given == "*":
            return None
        if not (found := re.fullmatch(r'"v(\d{1,18})"', given)):
            raise InvalidFieldError("If-Match", "no ETag of a job", 'send one such as "v17"')
        return int(found[1])

    def is_known(self, etag: str) -> bool:
        """Whether the client has this representation already (If-None-Match)."""
        given = self.request.headers.get("If-None-Match", "")
        return given.strip() == "*" or etag.removeprefix("W/") in [
            one.strip().removeprefix("W/") for one in given.split(",")
        ]


def etag(version: int) -> str:
    """A job's, from its version."""
    return f'"v{version}"'
