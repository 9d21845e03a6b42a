"""Gates in a database: one transaction for each request that passes, under the lock of the gate's row.

Slots and turns are not waited for on the disk: a power cut ends the leases that they belong to.  A closure is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from . import gates as g
from .failpoint import failpoint
from .placed import placed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .sql_store import SqlStore

COLUMNS: Final = g.GateRow._fields
#: An operator's or a provider's word, over what is there.  ``closed_at`` 0 says nothing of the door, ``closed_until`` 0
#: opens it; a closure is never shortened by another.  ``pinned`` 0 says nothing of the limits.
_DOOR: Final = (
    "CASE WHEN excluded.closed_at = 0 OR (excluded.closed_until > 0 AND excluded.closed_until <= g.closed_until) "
    "THEN g.{name} ELSE excluded.{name} END"
)
_LIMIT: Final = "CASE WHEN excluded.pinned = 0 THEN g.{name} ELSE excluded.{name} END"
UPSERT: Final = "ON CONFLICT (gate) DO UPDATE SET " + ", ".join(
    [f"{name} = {_LIMIT.format(name=name)}" for name in ("slots", "spacing", "pinned")]
    + [f"{name} = {_DOOR.format(name=name)}" for name in ("closed_until", "closed_by", "closed_reason", "closed_at")]
)
#: A slot counts while the lease under which it was taken stands.
_STANDS: Final = (
    "EXISTS (SELECT 1 FROM leases l WHERE l.job_id = t.job_id AND l.epoch = t.epoch AND l.token = t.token "
    "AND l.lease_until > ? AND l.boot_id = ?)"
)


class Gates:
    """The gates of one store."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._lock = "" if store.dialect == "sqlite" else " FOR UPDATE"
        self._select = f"SELECT {', '.join(COLUMNS)} FROM gates"

    def _sql(self, text: str) -> str:
        return placed(text, self._store.dialect)

    def _run(self, cursor: Any, text: str, *values: Any) -> Any:
        return cursor.execute(self._sql(text), values)

    # -- requests ----------------------------------------------------------------------------------------------------

    def enter(self, entry: g.GateEntry) -> g.GateAnswer:
        """See ``Store.enter_gate``.  A closed gate, and an open one without limits, are only looked at."""
        row = self.rows([entry.gate]).get(entry.gate, g.GateRow(entry.gate))
        if (told := g.glance(row, entry.limits, self._store.now())) is not None:
            return told
        with self._store.pacing() as cursor:
            answer = self._enter(cursor, entry)
            failpoint("gate.before_commit")
        failpoint("gate.after_commit")
        return answer

    def rows(self, names: Sequence[str]) -> dict[str, g.GateRow]:
        """See ``Store.gate_rows``."""
        sql = f"{self._select} WHERE gate IN ({', '.join('?' * len(names))})"
        return {row[0]: g.GateRow(*row) for row in self._store.sql_rows(self._sql(sql), tuple(names))}

    def _enter(self, cursor: Any, entry: g.GateEntry) -> g.GateAnswer:
        before = self._locked(cursor, entry.gate)
        now, lease_now = self._clocks(cursor)
        swept = self._sweep(cursor, entry.gate, now, lease_now)
        seen = self._seen(cursor, entry)
        present = (g.left(before, now) if swept else before).with_limits(entry.limits)
        row, answer, turn = g.decide(present, seen, now)
        if row != before:
            self._put(cursor, row)
        if answer.counted:
            self._keep(cursor, entry, now, holds=1)
        elif turn is not None:
            self._keep(cursor, entry, turn, holds=0)
        elif seen.turn is not None:
            self._forget(cursor, entry.gate, entry.entry)
        return answer

    def _put(self, cursor: Any, row: g.GateRow) -> None:
        """What requests change of a gate."""
        names = ("slots", "spacing", "next_at", "last_at")
        said = ", ".join(f"{name} = ?" for name in names)
        self._run(cursor, f"UPDATE gates SET {said} WHERE gate = ?", *(getattr(row, n) for n in names), row.gate)

    def _clocks(self, cursor: Any) -> tuple[int, int]:
        """The store's wall clock and its lease clock, read under the lock."""
        if self._store.dialect == "sqlite":
            return self._store.now(), self._store.lease_now()
        now = int(cursor.execute("SELECT joblog_now()").fetchone()[0])
        return now, now

    def _locked(self, cursor: Any, gate: str) -> g.GateRow:
        """The gate's row, made if need be; nobody else decides about this gate until the transaction ends."""
        sql = f"{self._select} WHERE gate = ?{self._lock}"
        if (found := self._run(cursor, sql, gate).fetchone()) is None:
            marks = ", ".join("?" * len(COLUMNS))
            insert = f"INSERT INTO gates ({', '.join(COLUMNS)}) VALUES ({marks}) ON CONFLICT (gate) DO NOTHING"
            self._run(cursor, insert, *g.GateRow(gate))
            found = self._run(cursor, sql, gate).fetchone()
        return g.GateRow(*found)

    def _sweep(self, cursor: Any, gate: str, now: int, lease_now: int) -> bool:
        """Drop slots whose lease is gone, and turns that nobody took; whether there were such slots."""
        sql = f"DELETE FROM gate_turns AS t WHERE gate = ? AND holds = 1 AND NOT {_STANDS}"
        swept = self._run(cursor, sql, gate, lease_now, self._store.boot_id()).rowcount > 0
        sql = "DELETE FROM gate_turns WHERE gate = ? AND holds = 0 AND at < ?"
        self._run(cursor, sql, gate, now - g.FORGET_TURNS)
        return bool(swept)

    def _seen(self, cursor: Any, entry: g.GateEntry) -> g.Seen:
        job = self._store.to_id(entry.job_id)
        of_job = "coalesce(sum(CASE WHEN job_id = ? THEN 1 ELSE 0 END), 0)"
        # Without its own: after a lost answer the same entry asks again.
        sql = f"SELECT count(*), {of_job} FROM gate_turns WHERE gate = ? AND holds = 1 AND entry <> ?"
        used, own = self._run(cursor, sql, job, entry.gate, entry.entry).fetchone()
        # The turn of this entry, or the first that was kept for the job under an earlier lease.
        sql = (
            "SELECT entry, at FROM gate_turns WHERE gate = ? AND job_id = ? AND holds = 0 "
            "AND (entry = ? OR epoch <> ? OR token <> ?) ORDER BY CASE WHEN entry = ? THEN 0 ELSE 1 END, at LIMIT 1"
        )
        mine = self._run(cursor, sql, entry.gate, job, entry.entry, *entry.token, entry.entry).fetchone()
        if mine is not None and mine[0] != entry.entry:
            self._forget(cursor, entry.gate, mine[0])
        return g.Seen(int(used), int(own), None if mine is None else mine[1])

    def _keep(self, cursor: Any, entry: g.GateEntry, at: int, *, holds: int) -> None:
        sql = (
            "INSERT INTO gate_turns (gate, entry, job_id, epoch, token, at, holds) VALUES (?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (gate, entry) DO UPDATE SET at = excluded.at, holds = excluded.holds"
        )
        job = self._store.to_id(entry.job_id)
        self._run(cursor, sql, entry.gate, entry.entry, job, *entry.token, at, holds)

    def _forget(self, cursor: Any, gate: str, entry: str) -> None:
        self._run(cursor, "DELETE FROM gate_turns WHERE gate = ? AND entry = ?", gate, entry)

    def leave(self, gate: str, entry: str, *, spaced: bool) -> None:
        """See ``Store.leave_gate``."""
        with self._store.pacing() as cursor:
            if spaced:
                row = self._locked(cursor, gate)
                self._put(cursor, g.left(row, self._clocks(cursor)[0]))
            self._forget(cursor, gate, entry)

    # -- the door ----------------------------------------------------------------------------------------------------

    def change(self, cursor: Any, row: dict[str, Any]) -> None:
        """Write an operator's or a provider's word (see ``UPSERT``)."""
        marks = ", ".join("?" * len(COLUMNS))
        sql = f"INSERT INTO gates AS g ({', '.join(COLUMNS)}) VALUES ({marks}) {UPSERT}"
        self._run(cursor, sql, *(row[name] for name in COLUMNS))

    def put(self, gate: str, slots: int | None, closed_until: int) -> None:
        """See ``Store.set_gate``."""
        with self._store.writing("claim") as cursor:
            self._locked(cursor, gate)
            sql = "UPDATE gates SET slots = ?, pinned = 1, closed_until = ? WHERE gate = ?"
            self._run(cursor, sql, slots, closed_until, gate)

    def close(self, gate: str, until: int, *, by: str, reason: str) -> int:
        """See ``Store.close_gate``."""
        now = self._store.now()
        row = g.closed(g.GateRow(gate), until, now, by=by, reason=reason)
        if row.closed_until:
            with self._store.writing("claim") as cursor:
                self.change(cursor, row._asdict())
        found = self._store.sql_rows(self._sql("SELECT closed_until FROM gates WHERE gate = ?"), (gate,))
        return int(found[0][0]) if found else 0

    def states(self, gate: str | None = None) -> list[g.GateState]:
        """See ``Store.gates``."""
        rows = self._store.sql_rows(
            self._sql(f"{self._select}{'' if gate is None else ' WHERE gate = ?'} ORDER BY gate"),
            () if gate is None else (gate,),
        )
        return [self._state(g.GateRow(*row)) for row in rows]

    def _state(self, row: g.GateRow) -> g.GateState:
        sql = (
            f"SELECT (SELECT count(*) FROM gate_turns t WHERE t.gate = ? AND t.holds = 1 AND {_STANDS}), "
            "(SELECT count(*) FROM leases WHERE gate = ? AND gate <> ''), "
            "(SELECT count(*) FROM gate_turns t WHERE t.gate = ? AND t.holds = 0 AND t.at > ?)"
        )
        store = self._store
        values = (row.gate, store.lease_now(), store.boot_id(), row.gate, row.gate, store.now())
        return g.GateState(row, *map(int, store.sql_rows(self._sql(sql), values)[0]))

    def next_opening(self) -> float | None:
        """See ``Store.next_opening``."""
        now = self._store.now()
        [(at,)] = self._store.sql_rows(self._sql("SELECT min(closed_until) FROM gates WHERE closed_until > ?"), (now,))
        return None if at is None else (at - now) / 1_000_000
