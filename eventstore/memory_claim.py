"""Which due jobs to take, in memory: by looking at all of them, where the databases go by an index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .claim_order import level, pick

if TYPE_CHECKING:
    from .memory_tables import MemoryTables
    from .store import ClaimQuery, JobRow


def pick_from(tables: MemoryTables, query: ClaimQuery, now: int) -> list[JobRow]:
    """The chosen rows, in the order in which they are claimed."""
    room = {f"queue {queue}": _room_of_queue(tables, queue) for queue in query.queues}
    room |= {f"gate {gate}": _room_of_gate(tables, gate, now) for gate in tables.gates.rows}

    def look(reach: int) -> list[JobRow]:
        lanes: dict[tuple[Any, ...], list[JobRow]] = {}
        for row in tables.rows():
            if _fits(row, query, now) and room[f"queue {row['queue']}"] != 0 and room.get(f"gate {row['gate']}") != 0:
                lanes.setdefault((row["queue"], row["kind"], row["gate"], row["priority"]), []).append(row)
        return [head for rows in lanes.values() for head in _heads(rows, query.after_tenant, reach, now)]

    def block(rows: list[JobRow]) -> None:
        for row in rows:
            live = tables.table[row["id"]]
            live["ready"], live["blocked"] = 0, 1

    return pick(look, query.limit, room, tables.held_keys().intersection, block)


def _room_of_queue(tables: MemoryTables, queue: str) -> int | None:
    """How many jobs it still takes; None: any number."""
    row = tables.queues.get(queue)
    if row is None or (not row["paused"] and row["slots"] is None):
        return None
    if row["paused"]:
        return 0
    running = sum(lease.queue == queue for lease in tables.leases.values())
    return max(int(row["slots"]) - running, 0)


def _room_of_gate(tables: MemoryTables, gate: str, now: int) -> int | None:
    """The same; jobs that hold slots of it without being claimed for it count too."""
    row = tables.gates.rows[gate]
    if row.closed_until > now:
        return 0
    if row.slots is None:
        return None
    running = {job for job, lease in tables.leases.items() if lease.gate == gate}
    leases = {(job, lease.token) for job, lease in tables.leases.items()}
    running |= {job for job, _ in tables.gates.holders(gate) & leases}
    return max(row.slots - len(running), 0)


def _fits(row: JobRow, query: ClaimQuery, now: int) -> bool:
    if not row["ready"] or row["queue"] not in query.queues or row["due_at"] > max(now, row["updated_at"]):
        return False
    if row["crashes"] > query.max_crashes or row["vocabulary"] > query.vocabulary:
        return False
    return query.kinds is None or row["kind"] in query.kinds


def _heads(rows: list[JobRow], after_tenant: str, reach: int, now: int) -> list[JobRow]:
    """The oldest due of each tenant in one lane and priority, annotated for ``choose``."""
    tenants = sorted({row["tenant"] for row in rows})
    tenants = [t for t in tenants if t > after_tenant] + [t for t in tenants if t <= after_tenant]
    tenants = tenants[:reach]
    share = -(-reach // len(tenants))
    found: list[JobRow] = []
    for turn, tenant in enumerate(tenants):
        mine = sorted((r for r in rows if r["tenant"] == tenant), key=lambda row: (row["due_at"], row["id"].bytes))
        found += [{**row, "round": index, "turn": turn} for index, row in enumerate(mine[:share])]
    oldest = min(row["due_at"] for row in found)
    return [{**row, "level": level(row["priority"], oldest, now)} for row in found]
