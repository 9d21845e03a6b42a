"""Which due jobs to take, on SQLite: a skip scan over the claim index, a bounded number of probes whatever the backlog.

Lanes are (queue, kind, gate).  In each open lane the scan visits the priorities that have ready jobs, in them the
tenants in turn, and takes the oldest due of each.  ``INDEXED BY`` pins the plan: with or without statistics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .claim_order import CLAIM_COLUMNS, level, pick

if TYPE_CHECKING:
    from .store import ClaimQuery, JobRow

#: Let the next job of an exclusive key be claimed, by generation.
UNBLOCK: Final = tuple(
    f"UPDATE jobs_{p} SET ready = 1, blocked = 0 WHERE id = (SELECT id FROM jobs_{p} INDEXED BY jobs_{p}_blocked "
    "WHERE exclusive_key = ? AND blocked = 1 ORDER BY priority, due_at, id LIMIT 1)"
    for p in (0, 1)
)
#: The exclusive keys with jobs that wait for them and no holder, found key by key over an index.
FREE_KEYS: Final = (
    "WITH RECURSIVE waiting(key) AS (SELECT min(exclusive_key) FROM jobs_{p} INDEXED BY jobs_{p}_blocked WHERE blocked = 1 "
    "UNION ALL SELECT (SELECT min(exclusive_key) FROM jobs_{p} INDEXED BY jobs_{p}_blocked "
    "WHERE blocked = 1 AND exclusive_key > waiting.key) FROM waiting WHERE key IS NOT NULL) "
    "SELECT key FROM waiting WHERE key IS NOT NULL AND NOT EXISTS "
    "(SELECT 1 FROM leases WHERE exclusive_key = waiting.key AND exclusive_key <> '')"
)
#: Jobs that hold slots of a gate and were not claimed for it.
_OTHERS: Final = (
    "SELECT count(DISTINCT l.job_id) FROM gate_turns t JOIN leases l ON l.job_id = t.job_id AND l.epoch = t.epoch "
    "AND l.token = t.token WHERE t.gate = ? AND t.holds = 1 AND l.gate <> ?"
)


class SqliteClaims:
    """Picks jobs inside the claim's transaction."""

    def pick(self, cursor: Any, query: ClaimQuery, now: int, parity: int) -> list[JobRow]:
        """The chosen rows, in the order in which they are claimed."""
        scan = _Scan(cursor, parity, now, query)
        room: dict[str, int | None] = {}
        for queue in query.queues:
            room[f"queue {queue}"] = scan.free_of_queue(queue)

        def block(rows: list[JobRow]) -> None:
            sql = f"UPDATE jobs_{parity} SET ready = 0, blocked = 1 WHERE id = ?"
            cursor.executemany(sql, [(row["id"],) for row in rows])

        return pick(lambda reach: scan.candidates(room, reach), query.limit, room, scan.held, block)


class _Scan:
    def __init__(self, cursor: Any, parity: int, now: int, query: ClaimQuery) -> None:
        self._cursor, self._now, self._query = cursor, now, query
        self._from = f"FROM jobs_{parity} INDEXED BY jobs_{parity}_claim WHERE ready = 1 AND queue = ?"
        fitting = (
            f"{self._from} AND kind = ? AND gate = ? AND priority = ? AND tenant = ? "
            "AND due_at <= max(?, updated_at) AND vocabulary <= ? AND crashes <= ?"
        )
        self._fits = f"SELECT 1 {fitting} LIMIT 1"
        self._heads = f"SELECT {', '.join(CLAIM_COLUMNS)} {fitting} ORDER BY due_at, id LIMIT ?"
        self._bounds = (now, query.vocabulary, query.max_crashes)

    def _first(self, sql: str, *params: Any) -> Any:
        return self._cursor.execute(sql, params).fetchone()

    def free_of_queue(self, queue: str) -> int | None:
        row = self._first("SELECT paused, slots FROM queues WHERE queue = ?", queue)
        if row is None:
            return None
        if row[0]:
            return 0
        if row[1] is None:
            return None
        used = self._first("SELECT count(*) FROM leases WHERE queue = ?", queue)[0]
        return max(int(row[1]) - int(used), 0)

    def free_of_gate(self, gate: str) -> int | None:
        row = self._first("SELECT slots, closed_until FROM gates WHERE gate = ?", gate)
        if row is None:
            return None
        if row[1] > self._now:
            return 0
        if row[0] is None:
            return None
        used = self._first("SELECT count(*) FROM leases WHERE gate = ? AND gate <> ''", gate)[0]
        others = self._first(_OTHERS, gate, gate)[0]
        return max(int(row[0]) - int(used) - int(others), 0)

    def held(self, keys: set[str]) -> set[str]:
        sql = "SELECT 1 FROM leases WHERE exclusive_key = ? AND exclusive_key <> ''"  # as the index says it
        return {key for key in keys if self._first(sql, key) is not None}

    def candidates(self, room: dict[str, int | None], reach: int) -> list[JobRow]:
        """The heads of every lane that takes jobs; the room of its gates is looked up on the way."""
        found: list[JobRow] = []
        for queue in self._query.queues:
            if room[f"queue {queue}"] == 0:
                continue
            for kind, gate in self.lanes(queue):
                if gate and f"gate {gate}" not in room:
                    room[f"gate {gate}"] = self.free_of_gate(gate)
                if room.get(f"gate {gate}") != 0:
                    found += self.heads(queue, kind, gate, reach)
        return found

    def lanes(self, queue: str) -> list[tuple[str, str]]:
        """The (kind, gate) pairs of *queue* that have ready jobs: one or two probes each."""
        found: list[tuple[str, str]] = []
        kinds = iter(sorted(self._query.kinds)) if self._query.kinds is not None else self._kinds(queue)
        for kind in kinds:
            gate = ""
            sql = f"SELECT gate {self._from} AND kind = ? AND gate >= ? ORDER BY gate LIMIT 1"
            while (row := self._first(sql, queue, kind, gate)) is not None:
                found.append((kind, row[0]))
                gate = row[0] + "\x01"
        return found

    def _kinds(self, queue: str) -> Any:
        kind = ""
        sql = f"SELECT kind {self._from} AND kind >= ? ORDER BY kind LIMIT 1"
        while (row := self._first(sql, queue, kind)) is not None:
            yield row[0]
            kind = row[0] + "\x01"

    def heads(self, queue: str, kind: str, gate: str, reach: int) -> list[JobRow]:
        """The oldest due jobs of each tenant, at each priority of the lane."""
        found: list[JobRow] = []
        priority = 0
        sql = f"SELECT priority {self._from} AND kind = ? AND gate = ? AND priority >= ? ORDER BY priority LIMIT 1"
        while (row := self._first(sql, queue, kind, gate, priority)) is not None:
            lane = (queue, kind, gate, row[0])
            tenants = self._tenants(lane, reach)
            share = -(-reach // max(len(tenants), 1))
            heads: list[JobRow] = []
            for turn, tenant in enumerate(tenants):
                params = (*lane, tenant, *self._bounds, share)
                for index, values in enumerate(self._cursor.execute(self._heads, params).fetchall()):
                    head = dict(zip(CLAIM_COLUMNS, values, strict=True))
                    head["round"], head["turn"] = index, turn
                    heads.append(head)
            oldest = min((head["due_at"] for head in heads), default=self._now)
            for head in heads:
                head["level"] = level(row[0], oldest, self._now)
            found += heads
            priority = row[0] + 1
        return found

    def _tenants(self, lane: tuple[str, str, str, int], reach: int) -> list[str]:
        """Up to *reach* tenants with jobs to take in the lane, starting behind the one that was served last."""
        sql = f"SELECT tenant {self._from} AND kind = ? AND gate = ? AND priority = ? AND tenant > ? ORDER BY tenant LIMIT 1"
        served = self._query.after_tenant
        found: list[str] = []
        for start, last in ((served, None), ("", served)):
            tenant = start
            while len(found) < reach and (row := self._first(sql, *lane, tenant)) is not None:
                tenant = row[0]
                if last is not None and tenant > last:
                    break
                if self._first(self._fits, *lane, tenant, *self._bounds) is not None:
                    found.append(tenant)
        return found
