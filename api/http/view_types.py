"""Gates, views, the report and consumers as they go in and out (see ``types``)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from .types import Count, Limit


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


class Projections(Struct):
    """Every view that follows the log."""

    items: list[Projection]
    head: int


class RecoveryQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which page of the report."""

    filter: Literal["all", "done", "failed", "deleted"] = "all"
    q: Annotated[str, Meta(max_length=200, description="Literally, in event, detail and database.")] = ""
    page: Annotated[str, Meta(max_length=20)] = "1"


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
