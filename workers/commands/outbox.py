"""Submitting inside the application's own transaction: a row in an outbox, moved into the log by any worker, once.

The user's transaction takes no lock of the log.  Until the row is moved the job reads as queued, in the outbox.  The
job's id follows from its key, so a move that is repeated after a crash finds the job there and only deletes the row.
"""

from __future__ import annotations

import logging
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import orjson
import sqlalchemy as sa

from ...domain.errors import InputError, InvalidFieldError, JobLogError, KeyConflictError
from ...domain.retry import RetryPolicy
from ...domain.spec import JobSpec
from ...eventstore.failpoint import failpoint
from ...eventstore.schema import outbox

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .log import JobLog

logger = logging.getLogger(__name__)


def to_json(spec: JobSpec) -> str:
    """A spec as text, for the outbox row."""
    fields: dict[str, Any] = {name: getattr(spec, name) for name in ("kind", "args", "key", "tenant", "owner", "queue")}
    fields |= {name: getattr(spec, name) for name in ("priority", "due_at", "exclusive_key", "gate", "tags", "total")}
    fields |= {"retry": spec.retry.to_state(), "parent_id": spec.parent_id}
    return orjson.dumps(fields).decode()


def from_json(text: str) -> JobSpec:
    """And back."""
    fields = orjson.loads(text)
    fields["tags"] = tuple(fields["tags"])
    fields["retry"] = RetryPolicy(**fields["retry"])
    if fields["due_at"] is not None:
        fields["due_at"] = datetime.fromisoformat(fields["due_at"])
    if fields["parent_id"] is not None:
        fields["parent_id"] = UUID(fields["parent_id"])
    return JobSpec(**fields)


def submit(log: JobLog, spec: JobSpec, connection: sa.Connection) -> UUID:
    """Put *spec* into the outbox through the caller's *connection*; it counts once the caller commits.

    Returns the job's id.  The spec was checked when it was made.
    """
    if not isinstance(connection, sa.Connection):
        raise InvalidFieldError(
            "tx", f"{type(connection).__name__} is no SQLAlchemy connection", "pass engine.begin()'s"
        )
    _keep_from_checkpoints(log, connection)
    keyed = spec if spec.key else spec.with_key(log.ids.next())
    connection.execute(sa.insert(outbox).values(job_id=keyed.job_id, spec=to_json(keyed)))
    return keyed.job_id


def _keep_from_checkpoints(log: JobLog, connection: sa.Connection) -> None:
    """The WAL-reset bug of SQLite 3.7.0 to 3.51.2: only the log itself may checkpoint its file."""
    path = getattr(log.store, "path", None)
    if path is None or connection.dialect.name != "sqlite":
        return
    files = [row[2] for row in connection.exec_driver_sql("PRAGMA database_list")]
    if any(file and Path(file).exists() and path.samefile(file) for file in files):
        connection.exec_driver_sql("PRAGMA wal_autocheckpoint=0").close()


def drain(log: JobLog, engine: sa.Engine | None = None, *, limit: int = 500) -> int:
    """Move committed rows into the log, in the order of their ids; returns how many.

    *engine* is another database that has an outbox table; by default the log's own.  A row whose key stands for other
    arguments by now is moved out too, and reported: its submitter was told the id of the job that stands.  A row that
    this code can't read is reported and stays: newer code may.
    """
    after = 0
    while rows := _read(log, engine, limit, after):
        failpoint("outbox.read")
        specs = [(row_id, spec) for row_id, text in rows if (spec := _readable(row_id, text)) is not None]
        if specs:
            return _move(log, engine, specs)
        after = rows[-1][0]  # none of them can be read: look behind them
    return 0


def _move(log: JobLog, engine: sa.Engine | None, specs: list[tuple[int, JobSpec]]) -> int:
    answers = log.submit_many([spec for _, spec in specs])
    failpoint("outbox.submitted")
    moved: list[int] = []
    for (row_id, _), answer in zip(specs, answers, strict=True):
        if isinstance(answer, KeyConflictError):
            logger.warning("outbox row %d is dropped: %s", row_id, answer)
        elif isinstance(answer, JobLogError):
            continue  # it stays, and is moved by the next pass
        moved.append(row_id)
    if moved:
        _delete(log, engine, moved)
    failpoint("outbox.deleted")
    return len(moved)


def _readable(row_id: int, text: str) -> JobSpec | None:
    try:
        return from_json(text)
    except (InputError, AttributeError, KeyError, TypeError, ValueError) as error:
        logger.warning("outbox row %d can't be read and stays: %r", row_id, error)
        return None


def _read(log: JobLog, engine: sa.Engine | None, limit: int, after: int) -> Sequence[Any]:
    if engine is None:
        return log.store.outbox(limit, after=after)
    found = sa.select(outbox.c.id, outbox.c.spec).where(outbox.c.id > after).order_by(outbox.c.id).limit(limit)
    with engine.connect() as connection:
        return connection.execute(found).all()


def _delete(log: JobLog, engine: sa.Engine | None, moved: list[int]) -> None:
    if engine is None:
        log.store.delete_outbox(moved)
        return
    with engine.begin() as connection:
        connection.execute(sa.delete(outbox).where(outbox.c.id.in_(moved)))


def find(log: JobLog, job_id: UUID) -> JobSpec | None:
    """The spec of a job that is still in the log's own outbox."""
    found = log.store.outbox_spec(job_id)
    return None if found is None else _readable(0, found)
