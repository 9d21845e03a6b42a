"""Taking an export into an empty log: the same events, bit for bit, and what is derived from them; all of it or nothing.

Events hold no receipts, no lists of items and no gates: after an import a request id may be used again, and a job that
was in the middle of a list stops with ``list-changed``.  A backup has all of that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from ...domain.errors import DamagedExportError, InvalidFieldError, StoreError, StoreNotEmptyError
from ...domain.events import Claimed, UnitCompleted
from ...domain.queue import QueueEvent
from ...eventstore import schema as s
from ...eventstore.failpoint import failpoint
from ...eventstore.proof_rows import HeadRow, proof_rows
from ...eventstore.sql_store import SqlStore
from ...eventstore.store import LoggedEvent
from ..proof.notes import parsed
from ..proof.report import KnownHead
from ..proof.tree import build, stored_tree
from ..rebuild import fold_changes
from .manifest import Manifest, manifest_of
from .offline import check_export, entries_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ...eventstore.entries import Entry
    from ...eventstore.mapper import OrjsonMapper
    from ...eventstore.store import Store


_UNBOUNDED: Final = (
    "SELECT set_config(name, '0', true) FROM pg_settings "
    "WHERE name IN ('transaction_timeout', 'idle_in_transaction_session_timeout', 'statement_timeout')"
)


def import_log(
    store: Store,
    mapper: OrjsonMapper,
    file: Path,
    *,
    report: Callable[[int, int], None] = lambda _done, _end: None,
) -> Manifest:
    """Fill the empty log *store* with an export that begins at 1; it is the same log then, under the same name.

    Raises:
        DamagedExportError: the file is not what its manifest says; nothing was written.
        StoreNotEmptyError: the log has events, or jobs that wait for it.
    """
    manifest = Manifest.load(manifest_of(file))
    if not isinstance(store, SqlStore):
        raise StoreError("only a log in a database can take an export in")
    if manifest.first != 1:
        raise InvalidFieldError("file", f"it begins at {manifest.first}", "a log begins at 1; export it from there")
    heads = [KnownHead(parsed(note)[0], "manifest's", is_trusted=False) for note in manifest.heads]
    for finding in check_export(file, heads).findings:
        raise DamagedExportError(f"{file.name}: {finding.text}; nothing was written")
    _Taking(store, mapper, manifest).run(file, report)
    build(store)
    if stored_tree(store).root(manifest.last).hex() != manifest.root:
        raise DamagedExportError("what was written is not what was read; see `joblog verify`")
    for note in manifest.heads:
        head = parsed(note)[0]
        proof_rows(store).put_head(HeadRow(head.epoch, head.size, store.now(), note))
    return manifest


class _Taking:
    """One transaction."""

    def __init__(self, store: SqlStore, mapper: OrjsonMapper, manifest: Manifest) -> None:
        self._store, self._mapper, self._manifest = store, mapper, manifest
        self._queues: dict[UUID, Any] = {}
        self._parity = 0

    def run(self, file: Path, report: Callable[[int, int], None]) -> None:
        """Write it all."""
        statements = self._store.statements
        with self._store.writing("import") as cursor:
            if self._store.dialect == "postgresql":
                cursor.execute(_UNBOUNDED)  # the bounds of a lease are not for this
            self._store.lock_log(cursor)
            _, _, generation, head = statements.state.run(cursor, {}).fetchone()
            waiting = statements.outbox.run(cursor, {"count": 1, "after": 0}).fetchone()
            if head or waiting:
                raise StoreNotEmptyError(f"this log has {head} events already; only an empty one takes an export in")
            self._parity = generation % 2
            done = 0
            for entries in entries_of(file):
                self._write(cursor, entries)
                done += len(entries)
                report(done, self._manifest.count)
            self._write_queues(cursor)
            self._write_leases(cursor)
            self._name(cursor)
            failpoint("import.before_commit")
        failpoint("import.after_commit")

    def _write(self, cursor: Any, entries: list[Entry]) -> None:
        statements = self._store.statements
        logged = [LoggedEvent(e.position, UUID(bytes=e.stream), e.version, e.topic.decode(), e.state) for e in entries]
        statements.insert_event.run_many(cursor, [event._asdict() for event in logged])
        units = [self._unit(event) for event in logged if event.topic == UnitCompleted.TOPIC]
        if units:
            statements.insert_unit.run_many(cursor, units)
        self._store.write_rows(cursor, self._parity, fold_changes(logged, self._mapper, self._store.now()))
        for event in logged:
            if event.topic.startswith("joblog.queue."):
                self._fold_queue(event)

    def _unit(self, event: LoggedEvent) -> dict[str, Any]:
        unit = self._mapper.decode(event.stream_id, event.version, event.topic, event.state).unit
        return {"job_id": event.stream_id, "unit": unit, "version": event.version, "state": event.state}

    def _fold_queue(self, logged: LoggedEvent) -> None:
        event = self._mapper.decode(logged.stream_id, logged.version, logged.topic, logged.state)
        if isinstance(event, QueueEvent):
            self._queues[logged.stream_id] = event.mutate(self._queues.get(logged.stream_id))

    def _write_queues(self, cursor: Any) -> None:
        put = self._store.statements.compile(self._store.statements.upsert(s.queues, "queue"))
        for queue in self._queues.values():
            row = {
                "queue": queue.name,
                "paused": int(queue.paused),
                "slots": queue.slots,
                "generation": queue.generation,
            }
            put.run(cursor, row)

    def _write_leases(self, cursor: Any) -> None:
        """Whoever held a job holds it no more: an ended lease is what any worker takes over."""
        names = "id, token, worker, queue, gate, exclusive_key"
        cursor.execute(f"SELECT {names} FROM jobs_{self._parity} WHERE status = 'running'")
        for job, token, worker, queue, gate, exclusive_key in cursor.fetchall():
            job_id = self._store.from_id(job)
            row = {"job_id": job_id, "epoch": self._epoch_of(cursor, job_id), "token": token, "worker": worker}
            row |= {"lease_until": 0, "boot_id": "", "queue": queue, "gate": gate}
            row |= {"exclusive_key": exclusive_key, "presence": ""}
            self._store.statements.insert_lease.run(cursor, row)

    def _epoch_of(self, cursor: Any, job_id: UUID) -> int:
        found = self._store.statements.read(upto=False, newest_first=True, limit=False)
        for version, topic, state in found.run(cursor, {"stream_id": job_id, "after": 0}).fetchall():
            if topic == Claimed.TOPIC:
                return int(self._mapper.decode(job_id, version, topic, state).epoch)
        return self._manifest.epoch

    def _name(self, cursor: Any) -> None:
        mark = "?" if self._store.dialect == "sqlite" else "%s"
        sql = f"UPDATE log_state SET store_id = {mark}, epoch = {mark} WHERE id = 1"
        cursor.execute(sql, (self._store.to_id(UUID(self._manifest.store_id)), self._manifest.epoch))
