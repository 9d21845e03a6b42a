"""What the forms and links of the page send."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from msgspec import Meta, Struct, field

from ...domain.status import Status
from ..http.types import At, Count, JobFilters, MaybeName, Name, Text

_Key = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._:-]{20,64}$")]


class JobLinks(JobFilters, kw_only=True, forbid_unknown_fields=True):
    """Filters; an empty field of a form is none.  *told*: the job that a command to many has become."""

    told: UUID | None = None


class JobQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which part of a job's events and units; or the job as it stood."""

    at: At = ""
    verify: bool = False

    events: Count = 0
    units: Annotated[str, Meta(max_length=500)] = ""


class CommandForm(Struct, kw_only=True, forbid_unknown_fields=True):
    """A command from a button: under the key that the page was made with, so that two clicks are one command."""

    key: _Key
    reason: Text = ""
    version: Count | None = None


class BulkForm(Struct, kw_only=True, forbid_unknown_fields=True):
    """A command to the rows that were ticked, or to all under the filters that the list had."""

    key: _Key
    command: Literal["pause", "resume", "retry", "cancel"]
    scope: Literal["rows", "all"] = "rows"
    job: Annotated[list[UUID], Meta(max_length=200)] = field(default_factory=list)
    reason: Text = ""
    status: Status | None = None
    kind: Name | None = None
    queue: Name | None = None
    tenant: Name | None = None
    owner: Name | None = None
    most: Count | None = None  #: how many it was said to be when that was asked


class GateForm(Struct, kw_only=True, forbid_unknown_fields=True):
    """A button of a gate.  *span* or *until*: for how long it is closed; *resume*: what it had paused goes on, too."""

    key: _Key
    gate: Name
    reason: Text = ""
    span: Annotated[str, Meta(max_length=40)] = ""
    until: Annotated[str, Meta(max_length=40)] = ""
    resume: bool = False


class GateLinks(Struct, kw_only=True, forbid_unknown_fields=True):
    """What a button has done: how many jobs it resumed."""

    resumed: Count | None = None


class CareForm(Struct, kw_only=True, forbid_unknown_fields=True):
    """A button of a view."""

    key: _Key


class Told(Struct, kw_only=True, forbid_unknown_fields=True):
    """The job that a button has handed in."""

    told: UUID | None = None


class FeedLinks(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which events."""

    topic: MaybeName = ""
    before: Count | None = None


class AdminLinks(Struct, kw_only=True, forbid_unknown_fields=True):
    """Whether the doctor is asked."""

    doctor: bool = False


class TokenForm(Struct, kw_only=True, forbid_unknown_fields=True):
    """A token to make."""

    key: _Key
    name: Name
    scope: Annotated[list[Name], Meta(max_length=20)] = field(default_factory=list)
    tenant: MaybeName = ""
    owner: MaybeName = ""
    days: Annotated[int, Meta(ge=1, le=3650)] | None = None


class RevokeForm(Struct, kw_only=True, forbid_unknown_fields=True):
    """A token to end."""

    key: _Key


class SignIn(Struct, kw_only=True, forbid_unknown_fields=True):
    """The code of a link."""

    code: Annotated[str, Meta(max_length=100)] = ""
