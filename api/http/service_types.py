"""Queues, workers, claims and the log as they go in and out (see ``types``)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType, field

from ...domain.status import Status
from .types import Count, Name, Text

FencingToken = Annotated[str, Meta(pattern=r"^[0-9]{1,18}\.[0-9]{1,18}$", description="Of the claim: epoch.grant.")]


# -- queues, workers -------------------------------------------------------------------------------------------------


class Queue(Struct):
    """What waits and runs in a queue."""

    queue: str
    paused: bool
    slots: int | None
    running: int
    ready: int
    ready_is_exact: bool
    oldest_due_at: datetime | None


class Queues(Struct):
    """Every queue that holds something or was ever paused or limited."""

    items: list[Queue]


class QueueCommand(Struct, kw_only=True, forbid_unknown_fields=True):
    """Why, and for a limit how many."""

    reason: Text = ""
    slots: Count | None = None


class Reason(Struct, kw_only=True, forbid_unknown_fields=True):
    """Why."""

    reason: Text = ""


class QueueState(Struct):
    """A queue after a command."""

    queue: str
    paused: bool
    slots: int | None
    generation: int


class HeldJob(Struct):
    """A lease as it stands now."""

    job: UUID
    worker: str
    epoch: int
    token: int
    seconds_left: float


class Leases(Struct):
    """The leases, the one that ends first at the front."""

    items: list[HeldJob]
    more: bool


class LeaseLimit(Struct, kw_only=True, forbid_unknown_fields=True):
    """How many."""

    limit: Annotated[int, Meta(ge=1, le=1000)] = 200


class WorkerItem(Struct):
    """A worker that holds jobs."""

    worker: str
    jobs: int
    seconds_left: float


class Workers(Struct):
    """The workers that hold jobs now."""

    items: list[WorkerItem]


# -- the log ---------------------------------------------------------------------------------------------------------


class FeedQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """Where to begin, and what of it."""

    after: Annotated[str, Meta(max_length=40, description="A position, or epoch:position.")] = ""
    limit: Annotated[int, Meta(ge=1, le=500)] = 100
    topics: Annotated[str, Meta(max_length=2000, description="Topics, with commas between.")] = ""
    wait: Annotated[float, Meta(ge=0, le=60, description="Seconds to wait at the end of the log.")] = 0
    job: Annotated[UUID, Meta(description="Only events of this job.")] | None = None
    tenant: Annotated[Name, Meta(description="Only events of jobs of this tenant.")] | None = None


class CloudEvent(Struct):
    """An event of the log (CloudEvents 1.0); `data` is the event as stored, null where it is in an `archive` not at hand."""

    specversion: Literal["1.0"]
    id: str
    source: str
    type: str
    subject: str
    datacontenttype: str
    sequence: str
    epoch: str
    version: str
    data: Any
    time: str | UnsetType = UNSET
    archive: str | UnsetType = UNSET


class Archive(Struct):
    """Bodies of finished jobs that were moved out of the log, and whether their file is at hand."""

    name: str
    position: int
    first: int
    last: int
    events: int
    digest: str
    folder: str
    here: bool


class Archives(Struct):
    """Every archive of the log, the oldest first."""

    items: list[Archive]


class FeedPage(Struct):
    """Events behind a place; `next` is the place to go on behind, whether or not anything was found."""

    items: list[CloudEvent]
    next: str
    high_water: int


class LoggedEvent(Struct):
    """An event of the log as stored; of one in an `archive` that is not at hand, what is here."""

    position: int
    stream: UUID
    version: int
    topic: str
    time: datetime | None
    event_id: str | None
    data: dict[str, Any] | None
    epoch: int
    cursor: str
    class_version: int | UnsetType = UNSET
    archive: str | UnsetType = UNSET


class LogPage(Struct):
    """Events behind a place; `next` is the place to go on behind, whether or not anything was found."""

    items: list[LoggedEvent]
    next: str
    high_water: int


class Health(Struct):
    """Whether it lives, or is ready."""

    status: Literal["ok", "fail"]
    checks: dict[str, str] | UnsetType = UNSET


class HealthQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """Whether to list the checks; `?verbose` alone will do."""

    verbose: Literal["", "true", "false", "1", "0"] = "false"


# -- workers in any language -----------------------------------------------------------------------------------------


class ClaimRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which due jobs a worker would take."""

    worker: Name
    queues: Annotated[list[Name], Meta(min_length=1, max_length=50)] = field(default_factory=lambda: ["default"])
    kinds: Annotated[list[Name], Meta(min_length=1, max_length=200)] | None = None
    limit: Annotated[int, Meta(ge=1, le=100)] = 1
    wait: Annotated[float, Meta(ge=0, le=60)] = 0


class Claim(Struct):
    """A job that this worker holds: everything it needs to go on at the checkpoint."""

    id: UUID
    token: str
    kind: str
    queue: str
    args: Any
    attempt: int
    checkpoint: int
    cursor: Any
    tallies: Any
    unit: str
    unit_attempt: int
    crashes: int
    wish: str
    lease_seconds: float
    version: int


class Claims(Struct):
    """The jobs that were claimed; none if nothing was due in time."""

    claims: list[Claim]


class Holding(Struct):
    """Where the job stands for its holder.  `wish` is what an operator asked: stop at this boundary."""

    id: UUID
    token: str
    status: Status
    wish: str
    lease_seconds: float
    checkpoint: int
    version: int
    position: int


class Held(Struct, kw_only=True, forbid_unknown_fields=True):
    """The claim's fencing token."""

    token: FencingToken


class Advance(Held, kw_only=True, forbid_unknown_fields=True):
    """A finished unit with its evidence, and the checkpoint behind it: one commit."""

    unit: Annotated[str, Meta(min_length=1, max_length=500)]
    evidence: Any = None
    cursor: Any = None
    tallies: dict[Name, Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]] | None = None


class UnitAttempt(Held, kw_only=True, forbid_unknown_fields=True):
    """Spend an attempt of a unit before its body runs."""

    unit: Annotated[str, Meta(min_length=1, max_length=500)]


class RetryLater(Held, kw_only=True, forbid_unknown_fields=True):
    """Try a unit again: as the provider's answer says (`status` and `headers`), after so many seconds, or by the back-off.

    The lease is given back.
    """

    unit: Annotated[str, Meta(min_length=1, max_length=500)]
    seconds: Annotated[float, Meta(ge=0, le=86400)] | None = None
    status: Annotated[int, Meta(ge=100, le=599)] | None = None
    headers: dict[Name, Annotated[str, Meta(max_length=1000)]] = field(default_factory=dict)
    category: Literal["provider", "network", "storage", "credential"] = "provider"
    text: Text = ""


class Complete(Held, kw_only=True, forbid_unknown_fields=True):
    """The job's result."""

    result: Any = None


class Fail(Held, kw_only=True, forbid_unknown_fields=True):
    """A verdict about the input."""

    reason: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9-]{0,63}$")] = "failed"
    text: Text = ""
    unit: Annotated[str, Meta(max_length=500)] = ""


class Release(Held, kw_only=True, forbid_unknown_fields=True):
    """Give the job back at a boundary; with `seconds` it is due again only then."""

    cause: Literal["yield", "shutdown", "wait"] = "yield"
    seconds: Annotated[float, Meta(ge=0, le=31_536_000)] | None = None


class FoundUnit(Struct):
    """Whether a unit is done, and its evidence."""

    unit: str
    done: bool
    evidence: Any
