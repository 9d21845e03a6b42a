"""Tables of the views that follow the log: each row belongs to a generation, so that a rebuild goes beside the live one.

A row is merged into what is there by its primary key: a column is replaced, unless its ``fold`` says ``sum`` (added to)
or ``first`` (left as it was).  ``projections`` is who follows for which view; its position stands in ``tracking``.
"""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from .schema import Big, Id16, Text, metadata

#: The end of what has not ended: above every position and every instant, so that a range needs no special case.
OPEN: Final = 2**62


def _col(name: str, kind: Any, *, fold: str = "", **kw: Any) -> sa.Column[Any]:
    kw.setdefault("nullable", False)
    return sa.Column(name, kind, info={"fold": fold}, **kw)


def _key(name: str, kind: Any) -> sa.Column[Any]:
    return _col(name, kind, primary_key=True, autoincrement=False)


projections = sa.Table(
    "projections",
    metadata,
    _key("name", Text),
    _col("version", Big),  # of the view's code that fills the live generation
    _col("generation", Big),
    _col("owner", Text),
    _col("token", Big),
    _col("alive_until", Big),
    _col("stopped_at", Big, nullable=True),  # the position that could not be folded
    _col("reason", Text),
    _col("old_until", Big, nullable=True),  # when the generation before the live one may be dropped
    sqlite_with_rowid=False,
)

view_state = sa.Table(
    "view_state",
    metadata,
    _key("view", Text),
    _key("generation", Big),
    _key("key", Id16()),
    _col("state", Text),  # JSON: what the fold must remember of one job, or of whatever the view keys by
    sqlite_with_rowid=False,
)

#: In the order of the log, so that a look at what stood at a position reads neighbours.
job_versions = sa.Table(
    "job_versions",
    metadata,
    _key("generation", Big),
    _key("from_position", Big),
    _key("job_id", Id16()),
    _col("to_position", Big),
    _col("from_at", Big),
    _col("to_at", Big),
    _col("status", Text),
    _col("worker", Text),
    _col("attempt", Big),
    _col("reason", Text),
    _col("kind", Text),
    _col("queue", Text),
    _col("tenant", Text),
    sa.Index("job_versions_job", "generation", "job_id", "from_position"),
    sa.Index("job_versions_time", "generation", "from_at"),
    sqlite_with_rowid=False,
)

#: The rows without a tenant are of all of them together: who asks for no tenant reads as many however many there are.
job_counts = sa.Table(
    "job_counts",
    metadata,
    _key("generation", Big),
    _key("tenant", Text),
    _key("status", Text),
    _key("kind", Text),
    _key("queue", Text),
    _col("jobs", Big, fold="sum"),
    sqlite_with_rowid=False,
)

due_jobs = sa.Table(
    "due_jobs",
    metadata,
    _key("generation", Big),
    _key("job_id", Id16()),
    _col("due_at", Big),
    _col("status", Text),
    _col("reason", Text),
    _col("kind", Text),
    _col("queue", Text),
    _col("tenant", Text),
    _col("priority", sa.SmallInteger),
    sa.Index("due_jobs_due", "generation", "due_at", "job_id"),
    sa.Index("due_jobs_queue", "generation", "queue", "due_at", "job_id"),
    sqlite_with_rowid=False,
)

failures = sa.Table(
    "failures",
    metadata,
    _key("generation", Big),
    _key("fingerprint", Text),
    _col("kind", Text),
    _col("category", Text),
    _col("text", Text),  # of the newest one
    _col("count", Big, fold="sum"),
    _col("first_at", Big, fold="first"),
    _col("last_at", Big),
    _col("last_job", Id16()),
    _col("last_unit", Text),
    _col("last_position", Big),
    sa.Index("failures_newest", "generation", "last_position"),
    sqlite_with_rowid=False,
)

failed_jobs = sa.Table(
    "failed_jobs",
    metadata,
    _key("generation", Big),
    _key("fingerprint", Text),
    _key("job_id", Id16()),
    _col("count", Big, fold="sum"),
    _col("first_at", Big, fold="first"),
    _col("last_at", Big),
    _col("attempt", Big),
    sa.Index("failed_jobs_job", "generation", "job_id"),
    sqlite_with_rowid=False,
)

recovery_rows = sa.Table(
    "recovery_rows",
    metadata,
    _key("generation", Big),
    _key("position", Big),
    _col("at", Big),  # when it happened, as far as its source says
    _col("recorded_at", Big),
    _col("type", Text),
    _col("database", Text),
    _col("detail", Text),
    _col("severity", Text),
    _col("source", Text),
    _col("done", sa.SmallInteger),
    _col("deleted", sa.SmallInteger),
    _col("actor_id", Text),
    _col("actor_name", Text),
    _col("ipv4", Text),
    _col("ipv6", Text),
    _col("ids", Text),  # JSON lists, bounded
    _col("titles", Text),
    _col("job_id", Text),
    _col("operation", Text),
    _col("provider", Text),
    _col("checkpoint", Big, nullable=True),
    _col("attempt", Big, nullable=True),
    _col("next_retry_at", Big, nullable=True),
    _col("reason", Text),
    _col("reclaimed", sa.SmallInteger),
    _col("tenant", Text),
    _col("needle", Text),  # type, detail and database, case folded: what a search looks into
    sa.Index("recovery_rows_newest", "generation", "at", "position"),
    sa.Index("recovery_rows_done", "generation", "done", "at", "position"),
    sa.Index("recovery_rows_deleted", "generation", "deleted", "at", "position"),
    sqlite_with_rowid=False,
)

security_rows = sa.Table(
    "security_rows",
    metadata,
    _key("generation", Big),
    _key("id", Id16()),
    _col("category", Text),
    _col("action", Text),
    _col("source", Text),
    _col("severity", Text),
    _col("refusal", Text),
    _col("count", Big),
    _col("first_at", Big),
    _col("last_at", Big),
    _col("actor", Text),  # of the newest one, as are address and detail
    _col("ipv4", Text),
    _col("ipv6", Text),
    _col("detail", Text),
    _col("actors", Text),  # JSON: who, how often; bounded, the rest is counted
    _col("addresses", Text),
    _col("more_actors", Big),
    _col("more_addresses", Big),
    _col("last_position", Big),
    sa.Index("security_rows_newest", "generation", "last_position"),
    sqlite_with_rowid=False,
)
