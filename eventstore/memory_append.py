"""An append to the log in memory: everything is checked before anything is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .append import Append
from .gates import GateRow
from .memory_tables import MemoryLease, MemoryTables
from .store import NOT_CONSECUTIVE, ConflictError, LoggedEvent

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID


def check(tables: MemoryTables, batch: Sequence[Append]) -> None:
    """Refuse the whole *batch* if anything in it does not hold."""
    versions: dict[UUID, int] = {}
    units: set[tuple[UUID, str]] = set()
    keys = tables.held_keys()
    for append in batch:
        stream = append.stream_id
        have = versions.get(stream, tables.version_of(stream))
        if have != append.expected or (append.row and append.expected and _row_version(tables, stream, have) != have):
            raise ConflictError(f"{stream} is at {have}")
        if [event.version for event in append.events] != list(range(have + 1, have + 1 + len(append.events))):
            raise ConflictError(NOT_CONSECUTIVE)
        versions[stream] = append.expected + len(append.events)
        new = {(stream, unit) for unit, _ in append.units}
        if len(new) != len(append.units) or new & units or any(unit in tables.units for unit in new):
            raise ConflictError("unit key")
        units |= new
        if append.evidence is not None and tables.count_units(stream) + len(new) != append.evidence:
            raise ConflictError("evidence")
        _check_lease(tables, append, keys)
        if append.receipt is not None and append.receipt.request_id in tables.receipts:
            raise ConflictError("receipt")
        if append.tracking is not None and tables.tracking.get(append.tracking[0], 0) >= append.tracking[1]:
            raise ConflictError("tracking")


def _row_version(tables: MemoryTables, stream: UUID, default: int) -> int:
    row = tables.table.get(stream)
    return default if row is None else int(row["version"])


def _check_lease(tables: MemoryTables, append: Append, keys: set[str]) -> None:
    """*keys*: the exclusive keys held so far; that of a grant is added."""
    lease = tables.leases.get(append.stream_id)
    if append.fence is not None and not (lease and lease.token == append.fence.token and tables.is_live(lease)):
        raise ConflictError("lease")
    if (takeover := append.takeover) is not None:
        held = lease and lease.token == takeover.token
        if not held or (tables.is_live(lease) and not takeover.proven):
            raise ConflictError("lease")
    if (grant := append.grant) is not None:
        if lease is not None and append.takeover is None:
            raise ConflictError("lease")
        if grant.exclusive_key and grant.exclusive_key in keys:
            raise ConflictError("exclusive key")
        keys.add(grant.exclusive_key)


def write(tables: MemoryTables, append: Append) -> None:
    """Write one append that was checked."""
    stream = append.stream_id
    for version, topic, state in append.events:
        tables.log.append(LoggedEvent(len(tables.log) + 1, stream, version, topic, state))
        tables.streams.setdefault(stream, []).append(len(tables.log))
    for unit, index in append.units:
        tables.units[stream, unit] = append.events[index].state
    if append.row:
        tables.table.setdefault(stream, {}).update(append.row)
    _write_lease(tables, append)
    if append.receipt is not None:
        request_id, action, target, actor, answer = append.receipt
        tables.receipts[request_id] = (action, target, actor, answer)
    if append.queue_row is not None:
        tables.queues[append.queue_row["queue"]] = append.queue_row
    if append.gate_row is not None:
        tables.gates.change(GateRow(**append.gate_row))
    if append.tracking is not None:
        tables.tracking.update([append.tracking])


def _write_lease(tables: MemoryTables, append: Append) -> None:
    stream = append.stream_id
    if append.takeover is not None or (append.fence is not None and append.fence.end):
        tables.unblock(tables.leases.pop(stream).exclusive_key)
    elif append.fence is not None and append.fence.renew:
        lease = tables.leases[stream]
        lease.until = max(lease.until, tables.lease_now() + append.fence.renew)
    if (g := append.grant) is not None:
        end, boot = tables.lease_now() + g.micros, tables.boot_id()
        tables.leases[stream] = MemoryLease(g.token, g.worker, end, boot, g.queue, g.gate, g.exclusive_key, g.presence)
