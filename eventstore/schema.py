"""Every table of the log, once for all databases.

``events`` is insert-only and the truth; only an archive may empty bodies of it, and that is recorded in ``archives`` and
``archived_streams``, which are insert-only too.  ``jobs_0`` and ``jobs_1`` are two generations of the job table: appends write
the one whose number is ``log_state.generation % 2``, a rebuild fills the other.  ``leases``, ``unit_results``,
``receipts``, ``queues``, ``gates``, ``gate_turns`` and ``outbox`` are authorities: verified against the log, never
rebuilt beside.
``tree_tiles`` and ``tree_heads`` are evidence: made from the log once, as it was seen first, and then held against it.
All instants are whole microseconds since 1970, UTC; a lease's end is on the store's lease clock (``Store.lease_now``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import sqlalchemy as sa

if TYPE_CHECKING:
    from sqlalchemy import Dialect

#: The schema this code writes; ``log_state.min_code`` is the oldest code that may use a database.
SCHEMA_VERSION: Final = 1

metadata = sa.MetaData()


class Id16(sa.TypeDecorator[UUID]):
    """A UUID: native on PostgreSQL, 16 bytes elsewhere."""

    impl = sa.Uuid
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> Any:
        """16 raw bytes on SQLite: half the index of the usual 32 characters."""
        return dialect.type_descriptor(sa.LargeBinary(16) if dialect.name == "sqlite" else sa.Uuid())

    def process_bind_param(self, value: UUID | None, dialect: Dialect) -> Any:
        """Bytes for SQLite."""
        return value.bytes if value is not None and dialect.name == "sqlite" else value

    def process_result_value(self, value: Any, dialect: Dialect) -> UUID | None:
        """And back."""
        return UUID(bytes=value) if value is not None and dialect.name == "sqlite" else value


Big: Final = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
#: Bytewise order and equality on both databases, whatever the database's collation.
Text: Final = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def _col(name: str, kind: Any, *more: Any, **kw: Any) -> sa.Column[Any]:
    kw.setdefault("nullable", False)
    return sa.Column(name, kind, *more, **kw)


events = sa.Table(
    "events",
    metadata,
    _col("position", Big, primary_key=True, autoincrement=False),
    _col("stream_id", Id16()),
    _col("version", Big),
    _col("topic", Text),
    _col("state", sa.LargeBinary),
    sa.UniqueConstraint("stream_id", "version", name="events_stream_version"),
)

log_state = sa.Table(
    "log_state",
    metadata,
    _col("id", sa.SmallInteger, primary_key=True, autoincrement=False),
    _col("store_id", Id16()),
    _col("epoch", Big),
    _col("generation", Big),
    _col("schema_version", Big),
    _col("min_code", Big),
)


#: The claim index: lanes (queue, kind, gate), within them priority, then tenants in turn, then the oldest due first.
CLAIM_ORDER: Final = ("queue", "kind", "gate", "priority", "tenant", "due_at", "id")


#: Storage of tables whose rows are updated all the time: room for updates that touch no index.
_HOT: Final = {"fillfactor": 70}


def _jobs(parity: int) -> sa.Table:
    name = f"jobs_{parity}"
    table = sa.Table(
        name,
        metadata,
        _col("id", Id16(), primary_key=True),
        _col("version", Big),
        _col("vocabulary", Big),
        _col("kind", Text),
        _col("tenant", Text),
        _col("owner", Text),
        _col("queue", Text),
        _col("priority", sa.SmallInteger),
        _col("gate", Text),
        _col("exclusive_key", Text),
        _col("parent_id", Text),
        _col("key", Text),
        _col("args_digest", Text),
        _col("tags", Text),
        _col("status", Text),
        _col("wish", Text),
        _col("outcome", Text),
        _col("reason", Text),
        _col("reason_text", Text),
        _col("due_at", Big),
        _col("ready", sa.SmallInteger),
        _col("blocked", sa.SmallInteger),
        _col("worker", Text),
        _col("token", Big),
        _col("attempt", Big),
        _col("unit_attempt", Big),
        _col("crashes", Big),
        _col("reclaims", Big),
        _col("failures", Big),
        _col("done", Big),
        _col("skipped", Big),
        _col("total", Big, nullable=True),
        _col("sequence", Big),
        _col("cursor", Text, nullable=True),
        _col("created_at", Big),
        _col("updated_at", Big),
        _col("started_at", Big, nullable=True),
        _col("last_attempt_at", Big, nullable=True),
        _col("finished_at", Big, nullable=True),
        info=_HOT,
        sqlite_with_rowid=False,
    )
    c = table.c
    waiting = sa.and_(c.ready == 0, c.blocked == 0, c.status.in_(("queued", "waiting")))
    _index(f"{name}_claim", *(c[n] for n in CLAIM_ORDER), where=c.ready == 1)
    _index(f"{name}_due", c.due_at, c.id, where=waiting)
    _index(f"{name}_suspects", c.queue, c.crashes, where=sa.and_(c.ready == 1, c.crashes > 0))
    _index(f"{name}_blocked", c.exclusive_key, c.priority, c.due_at, c.id, where=c.blocked == 1)
    _index(f"{name}_parent", c.parent_id, c.id, where=c.parent_id != "")
    _index(f"{name}_status", c.status, c.created_at, c.id)
    # Pages of lists, newest first: one index for each filter, none counts or skips rows.  They are partial so that a claim,
    # which never says that a kind is not empty, can't be planned on one of them.
    _index(f"{name}_created", c.created_at, c.id)
    for filtered in (c.kind, c.queue, c.tenant, c.owner):
        _index(f"{name}_{filtered.name}", filtered, c.created_at, c.id, where=filtered != "")
    return table


def _index(name: str, *columns: Any, where: Any = None, unique: bool = False) -> None:
    sa.Index(name, *columns, unique=unique, sqlite_where=where, info={"where": where})


def speak_postgresql() -> None:
    """Give tables and indexes what only PostgreSQL is told.

    Not where they are defined: naming a dialect's options loads the dialect, which an embedded log never needs.
    """
    for table in metadata.tables.values():
        if table.info:
            table.dialect_options["postgresql"]["with"] = dict(table.info)
        for index in table.indexes:
            if (where := index.info.get("where")) is not None:
                index.dialect_options["postgresql"]["where"] = where


jobs: Final = (_jobs(0), _jobs(1))
JOB_COLUMNS: Final = tuple(c.name for c in jobs[0].c)
#: Hints of the claim index; no part of the fold, so never compared.
HINTS: Final = frozenset({"ready", "blocked"})

leases = sa.Table(
    "leases",
    metadata,
    _col("job_id", Id16(), primary_key=True),
    _col("epoch", Big),
    _col("token", Big),
    _col("worker", Text),
    _col("lease_until", Big),
    _col("boot_id", Text),
    _col("queue", Text),
    _col("gate", Text),
    _col("exclusive_key", Text),
    _col("presence", Text),  # JSON: device, inode, nonce of the holder's presence file; empty without one
    info=_HOT,
    sqlite_with_rowid=False,
)
sa.Index("leases_until", leases.c.lease_until)
sa.Index("leases_queue", leases.c.queue)
_index("leases_gate", leases.c.gate, where=leases.c.gate != "")
_index("leases_exclusive", leases.c.exclusive_key, where=leases.c.exclusive_key != "", unique=True)

unit_results = sa.Table(
    "unit_results",
    metadata,
    _col("job_id", Id16(), primary_key=True),
    _col("unit", Text, primary_key=True),
    _col("version", Big),
    _col("state", sa.LargeBinary),  # the stored bytes of its unit-completed event
    sqlite_with_rowid=False,
)

frozen_lists = sa.Table(
    "frozen_lists",
    metadata,
    _col("job_id", Id16(), primary_key=True),
    _col("name", Text, primary_key=True),
    _col("chunk", Big, primary_key=True, autoincrement=False),
    _col("items", sa.LargeBinary),
    sqlite_with_rowid=False,
)

receipts = sa.Table(
    "receipts",
    metadata,
    _col("request_id", Text, primary_key=True),
    _col("action", Text),
    _col("target", Text),
    _col("actor", Text),
    _col("answer", Text),  # JSON
    sqlite_with_rowid=False,
)

snapshots = sa.Table(
    "snapshots",
    metadata,
    _col("stream_id", Id16(), primary_key=True),
    _col("version", Big),
    _col("topic", Text),
    _col("state", sa.LargeBinary),
    _col("vocabulary", Big),
    sqlite_with_rowid=False,
)

tracking = sa.Table(
    "tracking",
    metadata,
    _col("application_name", Text, primary_key=True),
    _col("notification_id", Big),
)

queues = sa.Table(
    "queues",
    metadata,
    _col("queue", Text, primary_key=True),
    _col("paused", sa.SmallInteger),
    _col("slots", Big, nullable=True),
    _col("generation", Big),
    sqlite_with_rowid=False,
)

gates = sa.Table(
    "gates",
    metadata,
    _col("gate", Text, primary_key=True),
    _col("slots", Big, nullable=True),
    _col("spacing", Big),
    _col("pinned", sa.SmallInteger),
    _col("closed_until", Big),
    _col("closed_by", Text),
    _col("closed_reason", Text),
    _col("closed_at", Big),
    _col("next_at", Big),
    _col("last_at", Big),
    info=_HOT,
    sqlite_with_rowid=False,
)

#: Slots that are taken (``holds``), each as good as the lease it was taken under, and turns that are kept for later.
gate_turns = sa.Table(
    "gate_turns",
    metadata,
    _col("gate", Text, primary_key=True),
    _col("entry", Text, primary_key=True),
    _col("job_id", Id16()),
    _col("epoch", Big),
    _col("token", Big),
    _col("at", Big),
    _col("holds", sa.SmallInteger),
    sqlite_with_rowid=False,
)
sa.Index("gate_turns_at", gate_turns.c.gate, gate_turns.c.holds, gate_turns.c.at)
sa.Index("gate_turns_job", gate_turns.c.gate, gate_turns.c.job_id)

outbox = sa.Table(
    "outbox",
    metadata,
    _col("id", Big, sa.Identity(), primary_key=True),
    _col("job_id", Id16()),
    _col("spec", Text),
    sa.Index("outbox_job", "job_id"),
    sqlite_autoincrement=True,
)

webhook_destinations = sa.Table(
    "webhook_destinations",
    metadata,
    _col("tenant", Text, primary_key=True),
    _col("name", Text, primary_key=True),
    _col("url", Text),
    _col("secrets", Text),  # JSON: references, never values
    _col("enabled", sa.SmallInteger),
    _col("reason", Text),
    _col("revision", Big),
    _col("courier", Big),
    _col("idle", sa.SmallInteger),
    _col("changed_by", Text),
    _col("changed_at", Big),
    sqlite_with_rowid=False,
)

#: One for each event and destination; the body is only there until it was accepted.
webhook_deliveries = sa.Table(
    "webhook_deliveries",
    metadata,
    _col("seq", Big, sa.Identity(), primary_key=True),
    _col("id", Text),
    _col("tenant", Text),
    _col("destination", Text),
    _col("event", Text),
    _col("revision", Big),
    _col("digest", Text),
    _col("body", sa.LargeBinary, nullable=True),
    _col("state", Text),
    _col("code", Text),
    _col("created_at", Big),
    _col("settled_at", Big, nullable=True),
    sa.UniqueConstraint("tenant", "destination", "event", name="webhook_deliveries_event"),
    sqlite_autoincrement=True,
)
_index(
    "webhook_deliveries_pending",
    webhook_deliveries.c.tenant,
    webhook_deliveries.c.destination,
    webhook_deliveries.c.seq,
    where=webhook_deliveries.c.state == "pending",
)

rebuilds = sa.Table(
    "rebuilds",
    metadata,
    _col("name", Text, primary_key=True),
    _col("version", Big),  # of the view's code; 0 for the job table
    _col("generation", Big),
    _col("position", Big),
    _col("owner", Text),
    _col("alive_until", Big),
    sqlite_with_rowid=False,
)

#: Who may use the service.  Only hashes of secrets are kept; a session of a browser and a sign-in link are rows too.
tokens = sa.Table(
    "tokens",
    metadata,
    _col("id", Text, primary_key=True),
    _col("name", Text),
    _col("purpose", Text),  # token, session or sign-in
    _col("hash", Text),
    _col("scopes", Text),
    _col("tenant", Text),  # empty: of all tenants
    _col("owner", Text),  # empty: of all owners
    _col("created_at", Big),
    _col("expires_at", Big, nullable=True),
    _col("used_at", Big, nullable=True),
    _col("revoked_at", Big, nullable=True),
    sqlite_with_rowid=False,
)

#: Secret values, sealed with a key that is not in the database; jobs hold the reference ``cred:NAME``.
credentials = sa.Table(
    "credentials",
    metadata,
    _col("tenant", Text, primary_key=True),
    _col("name", Text, primary_key=True),
    _col("sealed", sa.LargeBinary),
    _col("updated_at", Big),
    sqlite_with_rowid=False,
)

#: Mail that is still to be sent; the log has its id and digest only, and what was sent is removed here.
letters = sa.Table(
    "letters",
    metadata,
    _col("id", Text, primary_key=True),
    _col("digest", Text),
    _col("content", sa.LargeBinary),
    _col("created_at", Big),
    sqlite_with_rowid=False,
)

tree_tiles = sa.Table(
    "tree_tiles",
    metadata,
    _col("level", sa.SmallInteger, primary_key=True, autoincrement=False),
    _col("number", Big, primary_key=True, autoincrement=False),
    _col("hashes", sa.LargeBinary),
)

tree_heads = sa.Table(
    "tree_heads",
    metadata,
    _col("epoch", Big, primary_key=True, autoincrement=False),
    _col("size", Big, primary_key=True, autoincrement=False),
    _col("signed_at", Big),
    _col("note", Text),
    sqlite_with_rowid=False,
)

consumers = sa.Table(
    "consumers",
    metadata,
    _col("name", Text, primary_key=True),
    _col("epoch", Big),
    _col("position", Big),
    _col("moved_at", Big),
    sqlite_with_rowid=False,
)

#: Archives, each by the position of the event that records it; only the folder may change: a file may move.
archives = sa.Table(
    "archives",
    metadata,
    _col("event", Big, primary_key=True, autoincrement=False),
    _col("name", Text),
    _col("first", Big),
    _col("last", Big),
    _col("events", Big),
    _col("digest", Text),
    _col("folder", Text),
    sa.UniqueConstraint("name", name="archives_name"),
)

#: The streams whose bodies an archive holds: all of their events that lie in its range.
archived_streams = sa.Table(
    "archived_streams",
    metadata,
    _col("stream_id", Id16(), primary_key=True),
    _col("archive", Big),
    sa.Index("archived_streams_archive", "archive"),
    sqlite_with_rowid=False,
)
