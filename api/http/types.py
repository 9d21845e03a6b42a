"""Jobs as they go in and out: requests are checked against these types, the OpenAPI document is made of them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType, field

from ...domain.status import Status

Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Limit = Annotated[int, Meta(ge=1, le=200, description="Items on a page.")]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
MaybeName = Annotated[str, Meta(max_length=200)]
Text = Annotated[str, Meta(max_length=2000)]
Cursor = Annotated[str, Meta(max_length=300, description="From an answer: `next`, or a Link.")]


# -- jobs ------------------------------------------------------------------------------------------------------------


class JobItem(Struct, kw_only=True):
    """A job as a list shows it.  One that is still in the outbox has little to say."""

    id: UUID
    kind: str
    queue: str | None
    tenant: str
    owner: str | None
    key: str | None
    priority: int | None
    exclusive_key: str | None
    gate: str | None
    status: Status
    wish: str | None
    outcome: str | None
    reason: str | None
    reason_text: str | None
    worker: str | None
    attempt: int | None
    unit_attempt: int | None
    crashes: int | None
    reclaims: int | None
    failures: int | None
    done: int | None
    skipped: int | None
    total: int | None
    due_at: datetime | None
    created_at: datetime | None
    updated_at: datetime | None
    started_at: datetime | None
    last_attempt_at: datetime | None
    finished_at: datetime | None
    checkpoint: int | None
    version: int | None
    parent_id: UUID | None
    tags: list[str]
    in_outbox: bool


class Lease(Struct):
    """Who works on a job; how long it holds is told by /api/v1/leases."""

    worker: str
    epoch: int
    token: int


class HeldNow(Lease):
    """A lease as it stands now."""

    seconds_left: float


class Job(JobItem, kw_only=True):
    """A job, with what only its events know (null where they are of a newer joblog)."""

    args: Any
    cursor: Any
    tallies: Any
    result: Any
    errors: Any
    errors_dropped: Any
    cycle: Any
    unit: str | None
    lease: Lease | None


class JobPage(Struct):
    """Jobs, newest first."""

    items: list[JobItem]
    next: str | None
    position: int


At = Annotated[
    str,
    Meta(
        max_length=40,
        description="A position of the log, or an instant: jobs as they stood then; what is not known of it is null.",
    ),
]


class JobFilters(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which jobs."""

    id: (
        Annotated[
            str,
            Meta(
                pattern=r"^[0-9a-fA-F][0-9a-fA-F-]{3,35}$",
                description="How the id begins, in four or more digits; goes alone.",
            ),
        ]
        | None
    ) = None
    at: At = ""
    after: Annotated[UUID, Meta(description="The page behind this job; instead of a cursor.")] | None = None
    status: Status | None = None
    kind: Name | None = None
    queue: Name | None = None
    tenant: Name | None = None
    owner: Name | None = None
    limit: Limit = 25
    cursor: Cursor = ""


class AsOf(Struct, kw_only=True, forbid_unknown_fields=True):
    """When."""

    at: At = ""


class AfterJob(Struct, kw_only=True, forbid_unknown_fields=True):
    """Where to go on."""

    after: UUID | None = None
    limit: Limit = 100


class LeaseNow(Struct):
    """Who holds a job now, if somebody does."""

    lease: HeldNow | None


class NewJob(Struct, kw_only=True, forbid_unknown_fields=True):
    """A job to hand in.  `args` refers to the work (ids, paths, keys), it is not the work's data."""

    kind: Name
    args: Any = None
    queue: Name | None = None
    priority: Annotated[int, Meta(ge=0, le=9)] | None = None
    tenant: Name | None = None
    owner: MaybeName | None = None
    due_at: datetime | None = None
    exclusive_key: MaybeName = ""
    tags: Annotated[list[Name], Meta(max_length=20)] = field(default_factory=list)
    total: Count | None = None


class KeyedJob(NewJob, kw_only=True, forbid_unknown_fields=True):
    """A job of a batch, with its own idempotency key."""

    key: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._:-]{20,64}$")]


class NewJobs(Struct, kw_only=True, forbid_unknown_fields=True):
    """Many jobs, each with its own answer."""

    jobs: Annotated[list[KeyedJob], Meta(min_length=1, max_length=500)]


class Submitted(Struct):
    """A job that is in the log."""

    id: UUID
    created: bool
    position: int
    kind: str
    queue: str
    key: str


class Problem(Struct):
    """A refusal (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    request_id: str
    errors: list[dict[str, str]] | UnsetType = UNSET
    retry_after: int | UnsetType = UNSET


class BatchItem(Struct):
    """A job of a batch: submitted, or the code and text of its refusal."""

    id: UUID | UnsetType = UNSET
    created: bool | UnsetType = UNSET
    position: int | UnsetType = UNSET
    kind: str | UnsetType = UNSET
    queue: str | UnsetType = UNSET
    key: str | UnsetType = UNSET
    code: str | UnsetType = UNSET
    error: str | UnsetType = UNSET


class Batch(Struct):
    """The answers to a batch, in its order."""

    items: list[BatchItem]
    created: int
    refused: int


class Event(Struct):
    """An event as stored."""

    position: int
    job: UUID
    version: int
    topic: str
    time: datetime
    event_id: str | None
    data: dict[str, Any]
    class_version: int | UnsetType = UNSET


class EventPage(Struct):
    """Events of one job, oldest first."""

    items: list[Event]
    next: int | None


class AfterVersion(Struct, kw_only=True, forbid_unknown_fields=True):
    """Where to go on."""

    after: Count = 0
    limit: Limit = 100


class Unit(Struct):
    """A finished unit and its evidence."""

    unit: str
    version: int
    time: datetime
    evidence: Any


class UnitPage(Struct):
    """Finished units, by key."""

    items: list[Unit]
    next: str | None


class AfterUnit(Struct, kw_only=True, forbid_unknown_fields=True):
    """Where to go on."""

    after: Annotated[str, Meta(max_length=500)] = ""
    limit: Limit = 100


class Attempt(Struct):
    """One holder's time with a job."""

    attempt: int
    worker: str
    token: int
    claimed_at: datetime
    ended_at: datetime | None
    ended_by: str | None
    text: str


class Attempts(Struct):
    """The newest attempts, oldest first."""

    items: list[Attempt]


class Turn(Struct):
    """A turning point of a job's life, or the steady work before the next one."""

    time: datetime | None
    version: int
    topic: str
    text: str


class History(Struct):
    """What happened to a job."""

    items: list[Turn]


class Reason(Struct):
    """One condition that keeps a job where it is."""

    code: str
    text: str
    until: datetime | None
    evidence: list[int]


class Why(Struct):
    """Why a job stands where it stands."""

    id: UUID
    status: Status
    text: str
    reasons: list[Reason]


class Command(Struct, kw_only=True, forbid_unknown_fields=True):
    """What an operator says to it."""

    reason: Text = ""
    cleanup: bool = False


class Commanded(Struct):
    """What a command did; the same Idempotency-Key again gives the same."""

    id: UUID
    action: str
    status: Status
    wish: str
    version: int
    repeated: bool


class RetrySkipped(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which of the units that were passed over: all, or one."""

    unit: Annotated[str, Meta(max_length=500)] = ""


class Retrying(Struct):
    """A job that retries a unit."""

    id: UUID
    created: bool


class Retried(Struct):
    """The jobs that retry what one has passed over."""

    id: UUID
    action: str
    items: list[Retrying]


# -- commands to many jobs -------------------------------------------------------------------------------------------


class Chosen(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which jobs: all that fit; of none is said, those that the command means something to."""

    status: Status | None = None
    kind: Name | None = None
    queue: Name | None = None
    tenant: Name | None = None
    owner: Name | None = None


class Expected(Struct, kw_only=True, forbid_unknown_fields=True):
    """How many there may be; nothing is done if there are more."""

    max: Count


class BulkCommand(Struct, kw_only=True, forbid_unknown_fields=True):
    """One command to the jobs of a filter, or to these."""

    command: Literal["pause", "resume", "cancel", "retry"]
    filter: Chosen | None = None
    ids: Annotated[list[UUID], Meta(min_length=1, max_length=1000)] | None = None
    reason: Text = ""
    expect: Expected | None = None
    dry_run: bool = False


class Total(Struct):
    """How many: exactly, or at least."""

    value: int
    relation: Literal["eq", "gte"]


class DryRun(Struct):
    """What a command would reach."""

    command: str
    total: Total
    examples: list[JobItem]
    position: int
