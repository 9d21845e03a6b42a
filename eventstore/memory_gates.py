"""Gates of the log in memory: what the databases do under a row's lock, in plain dictionaries."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from . import gates as g

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from ..domain.lease import Token


class _Turn(NamedTuple):
    job_id: UUID
    token: Token
    at: int
    holds: bool


class MemoryGates:
    """The caller has the store's lock."""

    def __init__(self, stands: Callable[[UUID, Token], bool]) -> None:
        self._stands = stands
        self.rows: dict[str, g.GateRow] = {}
        self.turns: dict[tuple[str, str], _Turn] = {}

    def enter(self, entry: g.GateEntry, now: int) -> g.GateAnswer:
        """See ``Store.enter_gate``."""
        before = self.rows.get(entry.gate, g.GateRow(entry.gate))
        if (told := g.glance(before, entry.limits, now)) is not None:
            return told
        if self._sweep(entry.gate, now):
            before = g.left(before, now)
        row, answer, turn = g.decide(before.with_limits(entry.limits), self._seen(entry), now)
        self.rows[entry.gate] = row
        self.turns.pop((entry.gate, entry.entry), None)
        if answer.counted or turn is not None:
            at = now if turn is None else turn
            self.turns[entry.gate, entry.entry] = _Turn(entry.job_id, entry.token, at, answer.counted)
        return answer

    def leave(self, gate: str, entry: str, now: int | None) -> None:
        """See ``Store.leave_gate``; *now*: the spacing counts from then."""
        self.turns.pop((gate, entry), None)
        if now is not None and gate in self.rows:
            self.rows[gate] = g.left(self.rows[gate], now)

    def _sweep(self, gate: str, now: int) -> bool:
        """Drop slots whose lease is gone, and turns that nobody took; whether there were such slots."""
        found = False
        for key, turn in list(self.turns.items()):
            if key[0] != gate:
                continue
            gone = not self._stands(turn.job_id, turn.token) if turn.holds else turn.at < now - g.FORGET_TURNS
            if gone:
                found = found or turn.holds
                del self.turns[key]
        return found

    def _seen(self, entry: g.GateEntry) -> g.Seen:
        mine = {name: turn for (gate, name), turn in self.turns.items() if gate == entry.gate}
        used = [turn for name, turn in mine.items() if turn.holds and name != entry.entry]
        kept = [
            (name != entry.entry, turn.at, name)
            for name, turn in mine.items()
            if not turn.holds and turn.job_id == entry.job_id and (name == entry.entry or turn.token != entry.token)
        ]
        turn = min(kept, default=None)
        if turn is not None:
            del self.turns[entry.gate, turn[2]]
        own = sum(one.job_id == entry.job_id for one in used)
        return g.Seen(len(used), own, None if turn is None else turn[1])

    def holders(self, gate: str) -> set[tuple[UUID, Token]]:
        """The jobs that hold slots of a gate, and the leases under which they took them."""
        return {(turn.job_id, turn.token) for (name, _), turn in self.turns.items() if name == gate and turn.holds}

    def put(self, gate: str, slots: int | None, closed_until: int) -> None:
        """See ``Store.set_gate``."""
        row = self.rows.get(gate, g.GateRow(gate))
        self.rows[gate] = row._replace(slots=slots, pinned=1, closed_until=closed_until)

    def change(self, said: g.GateRow) -> None:
        """Write an operator's or a provider's word, as ``gate_sql.UPSERT`` does."""
        row = self.rows.get(said.gate)
        if row is None:
            self.rows[said.gate] = said
            return
        if said.pinned:
            row = row._replace(slots=said.slots, spacing=said.spacing, pinned=1)
        if said.closed_at and (said.closed_until == 0 or said.closed_until > row.closed_until):
            door = ("closed_until", "closed_by", "closed_reason", "closed_at")
            row = row._replace(**{name: getattr(said, name) for name in door})
        self.rows[said.gate] = row

    def close(self, gate: str, until: int, now: int, *, by: str, reason: str) -> int:
        """See ``Store.close_gate``."""
        said = g.closed(g.GateRow(gate), until, now, by=by, reason=reason)
        if said.closed_until:
            self.change(said)
        return self.rows.get(gate, said).closed_until

    def states(self, gate: str | None, now: int, jobs: Sequence[str]) -> list[g.GateState]:
        """See ``Store.gates``."""
        names = sorted(self.rows) if gate is None else [gate] if gate in self.rows else []
        return [self._state(name, now, jobs) for name in names]

    def _state(self, gate: str, now: int, jobs: Sequence[str]) -> g.GateState:
        return g.GateState(self.rows[gate], self._requests(gate), jobs.count(gate), self._kept(gate, now))

    def _requests(self, gate: str) -> int:
        turns = [turn for (name, _), turn in self.turns.items() if name == gate and turn.holds]
        return sum(self._stands(turn.job_id, turn.token) for turn in turns)

    def _kept(self, gate: str, now: int) -> int:
        return sum(name == gate and not turn.holds and turn.at > now for (name, _), turn in self.turns.items())
