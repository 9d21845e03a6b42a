"""Which due jobs to take, on PostgreSQL: one function call for each queue, over the claim index, skipping locked rows."""

from __future__ import annotations

from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from .claim_order import CLAIM_COLUMNS, level, pick

if TYPE_CHECKING:
    from .store import ClaimQuery, JobRow

#: Let the next job of an exclusive key be claimed, by generation.  A row that somebody holds is passed over: it may be
#: paused or cancelled there.
UNBLOCK: Final = tuple(
    f"UPDATE jobs_{p} SET ready = 1, blocked = 0 WHERE id = (SELECT id FROM jobs_{p} "
    "WHERE exclusive_key = %s AND blocked = 1 ORDER BY priority, due_at, id LIMIT 1 FOR UPDATE SKIP LOCKED)"
    for p in (0, 1)
)


_LANE: Final = itemgetter("queue", "kind", "gate", "priority")


class PostgresClaims:
    """Picks jobs inside the claim's transaction."""

    def __init__(self, *, prepare: bool | None) -> None:
        self._prepare = prepare

    def pick(self, cursor: Any, query: ClaimQuery, parity: int) -> tuple[list[JobRow], int]:
        """The chosen rows, in the order in which they are claimed, and the server's time."""
        now, room = self._room(cursor, query)

        def look(reach: int) -> list[JobRow]:
            candidates = self._candidates(cursor, query, now, parity, room, reach)
            if self._lock_room(cursor, candidates, room):
                room.update(self._room(cursor, query)[1])
            return candidates

        def block(rows: list[JobRow]) -> None:
            sql = f"UPDATE jobs_{parity} SET ready = 0, blocked = 1 WHERE id = ANY(%s)"
            cursor.execute(sql, ([row["id"] for row in rows],))

        return pick(look, query.limit, room, partial(self._held_keys, cursor), block), now

    @staticmethod
    def _room(cursor: Any, query: ClaimQuery) -> tuple[int, dict[str, int | None]]:
        """The server's time, and how many jobs each queue and gate still takes."""
        sql = (
            "SELECT 'now', joblog_now() UNION ALL "
            "SELECT 'queue ' || q.queue, CASE WHEN q.paused = 1 THEN 0 WHEN q.slots IS NULL THEN NULL ELSE greatest("
            "q.slots - (SELECT count(*) FROM leases l WHERE l.queue = q.queue), 0) END FROM queues q WHERE q.queue = ANY(%s) "
            "UNION ALL SELECT 'gate ' || g.gate, CASE WHEN g.closed_until > joblog_now() THEN 0 "
            "WHEN g.slots IS NULL THEN NULL ELSE greatest(g.slots "
            "- (SELECT count(*) FROM leases l WHERE l.gate = g.gate AND l.gate <> '') "
            "- (SELECT count(DISTINCT t.job_id) FROM gate_turns t CROSS JOIN LATERAL "
            "(SELECT 1 FROM leases l WHERE l.job_id = t.job_id AND l.epoch = t.epoch "
            "AND l.token = t.token AND l.gate <> g.gate OFFSET 0) l "  # one plan: turns, then leases
            "WHERE t.gate = g.gate AND t.holds = 1), 0) END FROM gates g"
        )
        room = dict(cursor.execute(sql, (list(query.queues),)).fetchall())
        return room.pop("now"), room

    @staticmethod
    def _lock_room(cursor: Any, candidates: list[JobRow], room: dict[str, int | None]) -> bool:
        """Take the rows of the queues and gates that have slots: two claims at once must not count the same one free."""
        locked = False
        for what in ("queue", "gate"):
            names = sorted({row[what] for row in candidates if room.get(f"{what} {row[what]}") is not None})
            if names:
                sql = f"SELECT 1 FROM {what}s WHERE {what} = ANY(%s) ORDER BY {what} FOR UPDATE"
                cursor.execute(sql, (names,))
                locked = True
        return locked

    def _candidates(
        self, cursor: Any, query: ClaimQuery, now: int, parity: int, room: dict[str, int | None], reach: int
    ) -> list[JobRow]:
        shut = [name.removeprefix("gate ") for name, free in room.items() if free == 0 and name.startswith("gate ")]
        kinds = None if query.kinds is None else sorted(query.kinds)
        sql = f"SELECT * FROM joblog_claim_{parity}(%s, %s::text[], %s::text[], %s, %s, %s, %s, %s)"
        candidates: list[JobRow] = []
        for queue in query.queues:
            if room.get(f"queue {queue}") != 0:
                arguments = (queue, kinds, shut, reach, query.vocabulary, query.after_tenant, now, query.max_crashes)
                found = cursor.execute(sql, arguments, prepare=self._prepare).fetchall()
                candidates += [dict(zip((*CLAIM_COLUMNS, "round", "turn"), values, strict=True)) for values in found]
        _add_levels(candidates, now)
        return candidates

    @staticmethod
    def _held_keys(cursor: Any, keys: set[str]) -> set[str]:
        if not keys:
            return set()
        sql = "SELECT exclusive_key FROM leases WHERE exclusive_key = ANY(%s) AND exclusive_key <> ''"
        return {key for (key,) in cursor.execute(sql, (sorted(keys),)).fetchall()}


def _add_levels(candidates: list[JobRow], now: int) -> None:
    """How urgent each lane is by now: as much as its oldest job."""
    lanes = [_LANE(row) for row in candidates]
    oldest: dict[tuple[Any, ...], int] = {}
    for lane, row in zip(lanes, candidates, strict=True):
        oldest[lane] = min(oldest.get(lane, row["due_at"]), row["due_at"])
    levels = {lane: level(lane[-1], due, now) for lane, due in oldest.items()}
    for lane, row in zip(lanes, candidates, strict=True):
        row["level"] = levels[lane]
