"""Gates, views, the report and consumers as they go in and out (see ``types``)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType

from .types import Count, Cursor, Limit, Name, Text


class Gate(Struct):
    """A provider's gate."""

    gate: str
    closed: bool
    closed_until: datetime | None
    closed_by: str | None
    closed_reason: str | None
    closed_at: datetime | None
    slots: int | None
    spacing_seconds: float
    set_by: str
    requests: int
    jobs: int
    turns: int


class Gates(Struct):
    """Every gate that was ever used with limits, closed or set."""

    items: list[Gate]


class OneGate(Gate):
    """A gate after a command."""

    resumed: int | UnsetType = UNSET


class OpenGate(Struct, kw_only=True, forbid_unknown_fields=True):
    """Why; and whether the jobs that it had paused for more than a day start again."""

    reason: Text = ""
    resume: bool = False


class CloseGate(Struct, kw_only=True, forbid_unknown_fields=True):
    """Why, and for how long: seconds, or until an instant."""

    reason: Text = ""
    seconds: Annotated[float, Meta(gt=0, le=604800)] | None = None
    until: datetime | None = None


class LimitGate(Struct, kw_only=True, forbid_unknown_fields=True):
    """How many requests at once (null: any number), and how far apart."""

    reason: Text = ""
    slots: Count | UnsetType | None = UNSET
    spacing_seconds: Annotated[float, Meta(ge=0, le=86400)] | UnsetType = UNSET


class VerifyRange(Struct, kw_only=True, forbid_unknown_fields=True):
    """What to verify: nothing for the whole log, a range, or one job."""

    first: Annotated[int, Meta(ge=1, le=2**63 - 1)] | None = None
    last: Annotated[int, Meta(ge=1, le=2**63 - 1)] | None = None
    job: UUID | None = None


class Finding(Struct):
    """Something that is not as it was, and where."""

    kind: str
    first: int
    last: int
    text: str


class Verification(Struct):
    """What a verification came to; no findings is good."""

    epoch: int
    end: int
    checked: int
    tree: int
    root: str | None
    heads: int
    proven: int
    unsigned: int
    findings: int
    archived: dict[str, int]
    items: list[Finding]
    known: int


class ScheduleQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which of what is due."""

    status: Literal["queued", "waiting"] | None = None
    kind: Name | None = None
    queue: Name | None = None
    tenant: Name | None = None
    limit: Limit = 25
    cursor: Cursor = ""


class DueJob(Struct):
    """A job that is due, or will be."""

    job: UUID
    due_at: datetime
    status: str
    reason: str
    kind: str
    queue: str
    tenant: str
    priority: int


class Schedule(Struct):
    """What is due, the first at the front."""

    items: list[DueJob]
    next: str | None


class ExportRange(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which positions; by default all there are."""

    first: Annotated[int, Meta(ge=1, le=2**63 - 1)] = 1
    last: Annotated[int, Meta(ge=1, le=2**63 - 1)] | None = None


class ManifestRange(ExportRange, kw_only=True, forbid_unknown_fields=True):
    """And under which name the lines were kept."""

    file: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,100}$")] = "log.ndjson"


class Rebuilding(Struct):
    """A rebuild that is under way, or died: then the next one goes on there."""

    position: int
    owner: str
    alive_until: datetime
    alive: bool


class Followed(Struct):
    """The job table, or whoever follows the log by position without being a view."""

    name: str
    position: int
    behind: int
    rebuild: Rebuilding | None


class JobTable(Followed):
    """The job table: never behind."""

    generation: int


class Care(Struct, kw_only=True, forbid_unknown_fields=True):
    """Whether every stored unit result is compared with its event, too (of the job table)."""

    units: bool = True


class Projection(Struct):
    """How far one view is."""

    name: str
    generation: int
    position: int
    events: int
    seconds: float
    owner: str
    leads: bool
    stopped_at: int | None
    reason: str
    behind: int
    rebuild: Rebuilding | None


class Projections(Struct):
    """Every view that follows the log."""

    items: list[Projection]
    head: int
    job_table: JobTable
    followers: list[Followed]


class RecoveryQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which page of the report."""

    filter: Literal["all", "done", "failed", "deleted"] = "all"
    q: Annotated[str, Meta(max_length=200, description="Literally, in event, detail and database.")] = ""
    page: Annotated[str, Meta(max_length=20)] = "1"
    total: Annotated[Count, Meta(description="As an answer had it: then it is not counted again.")] | None = None


class RecoveryRow(Struct):
    """What was taken back, tried again, given up, or reported."""

    position: int
    at: datetime
    recorded_at: datetime | None
    type: str
    database: str
    detail: str
    severity: str
    source: str
    done: bool
    deleted: bool
    actor_id: str
    actor_name: str
    ipv4: str
    ipv6: str
    ids: list[Any]
    titles: list[Any]
    job_id: str
    operation: str
    provider: str
    checkpoint: int | None
    attempt: int | None
    next_retry_at: datetime | None
    reason: str
    reclaimed: bool
    tenant: str


class RecoveryReport(Struct):
    """A page of it."""

    items: list[RecoveryRow]
    total: int
    page: int
    pages: int
    position: int
    head: int


class Note(Struct, kw_only=True, forbid_unknown_fields=True):
    """What an administrator reports."""

    type: Name
    detail: Text = ""
    database: Text = ""
    severity: Literal["info", "warning", "error"] = "info"
    done: bool = True
    deleted: bool = False


class Noted(Struct):
    """Where it is in the log."""

    position: int


class SecurityQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """Where to go on."""

    below: Count | None = None
    limit: Limit = 25


class SecurityPage(Struct):
    """Refusals that somebody should look at, by kind."""

    items: list[dict[str, Any]]
    next: int | None


class Consumer(Struct):
    """A named reader of the log."""

    name: str
    cursor: str
    behind: int
    moved_at: datetime
    rewound: bool


class Consumers(Struct):
    """All of them, by name."""

    items: list[Consumer]


class Move(Struct, kw_only=True, forbid_unknown_fields=True):
    """How far it has come."""

    cursor: Annotated[str, Meta(min_length=1, max_length=40, description="epoch:position, as a page said it.")]
