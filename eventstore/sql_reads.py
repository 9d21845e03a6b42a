"""Reading the log in a database: what SQLite and PostgreSQL share."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Final
from uuid import UUID

import sqlalchemy as sa

from ..domain.lease import Token
from . import schema as s
from .append import EventRow
from .bodies import Bodies
from .body_places import SqlPlaces
from .sql_connections import SqlConnections
from .statements import LEASE_COLUMNS, Statements
from .store import JobRow, LeaseRow, LoggedEvent, LogState, Outlook, Reading, SnapshotRow

if TYPE_CHECKING:
    from collections.abc import Sequence

_LEASE: Final = ", ".join(LEASE_COLUMNS)


class SqlReads(SqlConnections):
    """The half of ``Store`` that changes nothing."""

    mark: str  #: the driver's placeholder
    in_bulk: ClassVar[dict[str, Any]] = {}  #: how the driver reads many rows

    def __init__(self, engine: sa.Engine) -> None:
        super().__init__(engine)
        self.statements = Statements(engine.dialect)
        self._live = 0  #: the generation that reads try first
        self.bodies = Bodies(SqlPlaces(self))

    # -- values: ids come and go as the driver wants them ------------------------------------------------------------

    def to_id(self, value: UUID) -> Any:
        """A UUID for the driver."""
        return value

    def from_id(self, value: Any) -> UUID:
        """A UUID from the driver."""
        return value if type(value) is UUID else UUID(str(value))

    # -- reading -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def now(self) -> int:
        """The store's wall clock in microseconds."""

    @abstractmethod
    def lease_now(self) -> int:
        """The store's lease clock in microseconds."""

    def boot_id(self) -> str:
        """The boot that lease ends belong to; empty where the store's clock outlives boots."""
        return ""

    def state(self) -> LogState:
        """Epoch, generation and head."""
        row = self.rows(self.statements.state, {})[0]
        return LogState(self.from_id(row[0]), *row[1:])

    def head(self) -> int:
        """The last position; 0 in an empty log."""
        return int(self.rows(self.statements.head, {})[0][0])

    def read(
        self,
        stream_id: UUID,
        *,
        after: int = 0,
        upto: int | None = None,
        newest_first: bool = False,
        limit: int | None = None,
    ) -> list[EventRow]:
        """The events of one stream."""
        compiled = self.statements.read(upto=upto is not None, newest_first=newest_first, limit=limit is not None)
        params = {"stream_id": stream_id, "after": after, "upto": upto, "count": limit}
        return self.bodies.of_stream(stream_id, [EventRow(*row) for row in self.rows(compiled, params)])

    def log(
        self,
        after: int,
        limit: int,
        *,
        upto: int | None = None,
        topics: Sequence[str] = (),
        without: Sequence[str] = (),
        reading: Reading = Reading.CHECKED,
    ) -> list[LoggedEvent]:
        """The log behind position *after*, in order."""
        compiled = self.statements.log(upto=upto is not None, topics=len(topics), without=len(without))
        params = {"after": after, "upto": upto, "count": limit, **{f"topic_{i}": t for i, t in enumerate(topics)}}
        params |= {f"without_{i}": topic for i, topic in enumerate(without)}
        from_id = self.from_id
        rows = self.rows(compiled, params, **self.in_bulk)
        found = [
            LoggedEvent(place, from_id(stream), version, topic, state) for place, stream, version, topic, state in rows
        ]
        return self.bodies.logged(found, reading)

    def position_of(self, stream_id: UUID, version: int) -> int | None:
        """The position of one event."""
        found = self.rows(self.statements.position_of, {"stream_id": stream_id, "version": version})
        return found[0][0] if found else None

    def snapshot(self, stream_id: UUID) -> SnapshotRow | None:
        """The last snapshot of a stream."""
        found = self.rows(self.statements.snapshot, {"stream_id": stream_id})
        return SnapshotRow(*found[0]) if found else None

    def job(self, job_id: UUID) -> JobRow | None:
        """The job's row."""
        return self.jobs([job_id]).get(job_id)

    @abstractmethod
    def jobs(self, job_ids: Sequence[UUID]) -> dict[UUID, JobRow]:
        """The rows of many jobs."""

    def live_rows(self, where: str, params: Sequence[Any]) -> list[JobRow]:
        """Job rows of whichever generation is live: all from the old one or all from the new one (S14).

        The generation is checked inside the statement, so a switch can't come between; then the statement is repeated.
        """
        columns = ", ".join(f'"{name}"' for name in s.JOB_COLUMNS)
        while True:
            generation = self._live
            live = f"(SELECT generation FROM log_state WHERE id = 1) = {self.mark}"
            sql = f"SELECT {columns} FROM jobs_{generation % 2} WHERE {live} AND {where}"
            found = self.sql_rows(sql, (generation, *params))
            if found:
                return [self._row(row) for row in found]
            self._live = self.state().generation
            if self._live == generation:
                return []

    def _row(self, found: Any) -> JobRow:
        row = dict(zip(s.JOB_COLUMNS, found, strict=True))
        row["id"] = self.from_id(row["id"])
        return row

    def children(self, parent_id: UUID) -> list[UUID]:
        """The jobs that a job has spawned."""
        return [row["id"] for row in self.live_rows(f"parent_id = {self.mark} AND parent_id <> ''", (str(parent_id),))]

    def find_jobs(
        self,
        *,
        status: str | None = None,
        before: tuple[int, UUID] | None = None,
        after: tuple[int, UUID] | None = None,
        limit: int = 25,
        tenant: str | None = None,
        owner: str | None = None,
        queue: str | None = None,
        kind: str | None = None,
    ) -> list[JobRow]:
        """A page of jobs, newest first; see ``Store``."""
        mark = self.mark
        where: list[str] = ["1 = 1"]
        params: list[Any] = []
        wanted = {"status": status, "tenant": tenant, "owner": owner, "queue": queue, "kind": kind}
        for column, value in wanted.items():
            if value is not None:
                where.append(f"{column} = {mark}")
                params.append(value)
                if value and column != "status":
                    where.append(f"{column} <> ''")  # as its index says
        for key, sign in ((before, "<"), (after, ">")):
            if key is not None:
                where.append(f"(created_at, id) {sign} ({mark}, {mark})")
                params += [key[0], self.to_id(key[1])]
        way = "DESC" if after is None else "ASC"
        order = f"ORDER BY created_at {way}, id {way} LIMIT {mark}"
        found = self.live_rows(f"{' AND '.join(where)} {order}", (*params, limit))
        return found if after is None else found[::-1]

    def unit_states(
        self, job_id: UUID, units: Sequence[str] | None = None, *, prefix: str | None = None
    ) -> dict[str, bytes]:
        """Stored unit-completed bytes by unit key; see ``Store``."""
        return self._with_bodies(job_id, self._unit_rows(job_id, units, prefix))

    def _with_bodies(self, job_id: UUID, rows: list[Any]) -> dict[str, bytes]:
        """Rows (unit, version, state) by unit; what was archived is in the unit's event."""
        gone = [version for _, version, state in rows if not state]
        found = self.bodies.at_versions(job_id, gone) if gone else {}
        return {unit: state or found.get(version, state) for unit, version, state in rows}

    def _unit_rows(self, job_id: UUID, units: Sequence[str] | None, prefix: str | None) -> list[Any]:
        if prefix is not None:
            # Keys hold no control characters, so everything with the prefix lies before prefix + U+10FFFF.
            bounds = {"job_id": job_id, "least": prefix, "most": prefix + "\U0010ffff"}
            return self.rows(self.statements.units_like, bounds)
        if units is None:
            return self.rows(self.statements.units, {"job_id": job_id})
        return [row for unit in units for row in self.rows(self.statements.unit, {"job_id": job_id, "unit": unit})]

    def count_units(self, job_id: UUID) -> int:
        """How many unit results a job has."""
        return int(self.rows(self.statements.count_units, {"job_id": job_id})[0][0])

    def receipt(self, request_id: str) -> tuple[str, str, str, str] | None:
        """(action, target, actor, answer) of a command."""
        found = self.rows(self.statements.receipt, {"request_id": request_id})
        return tuple(found[0]) if found else None

    def _lease_row(self, row: Any) -> LeaseRow:
        return LeaseRow(self.from_id(row[0]), Token(row[1], row[2]), *row[3:])

    def lease(self, job_id: UUID) -> LeaseRow | None:
        """The job's lease row."""
        found = self.rows(self.statements.lease, {"job_id": job_id})
        return self._lease_row(found[0]) if found else None

    def queue_rows(self) -> dict[str, dict[str, Any]]:
        """The queues that were ever paused or limited."""
        found = self.rows(self.statements.queues, {})
        return {q: {"paused": bool(p), "slots": slots, "generation": g} for q, p, slots, g in found}

    def outlook(self, queues: Sequence[str], presence: str = "") -> Outlook:
        """One look at what there is to do; see ``Store``."""
        values = self._look(self._live % 2, queues, presence)
        found, due, end, others, self._live, now, box, wakes, rebooted, crashes = values
        now, lease_now = (self.now(), self.lease_now()) if now is None else (now, now)
        next_due = 0.0 if wakes else None if due is None else (due - now) / 1_000_000
        next_end = 0.0 if rebooted else None if end is None else (end - lease_now) / 1_000_000
        return Outlook(bool(found), next_due, next_end, others, bool(box), crashes)

    @abstractmethod
    def _look(self, parity: int, queues: Sequence[str], presence: str) -> tuple[Any, ...]:
        """What ``outlook`` is made of, in one statement; the store's clock where it is the database's."""

    def held_by_others(self, presence: str, limit: int) -> list[LeaseRow]:
        """See ``Store``."""
        sql = f"SELECT {_LEASE} FROM leases WHERE presence <> '' AND presence <> {self.mark} LIMIT {self.mark}"
        return [self._lease_row(row) for row in self.sql_rows(sql, (presence, limit))]

    def tracking_position(self, name: str) -> int | None:
        """How far the named follower has come."""
        found = self.rows(self.statements.tracked, {"name": name})
        return found[0][0] if found else None

    def event_at(self, stream_id: UUID, version: int) -> tuple[int, bytes] | None:
        """See ``Standing``."""
        found = self.rows(self.statements.event_at, {"stream_id": stream_id, "version": version})
        if not found:
            return None
        position, topic, state = found[0]
        [event] = self.bodies.of_stream(stream_id, [EventRow(version, topic, state)])
        return position, event.state

    def version_of(self, stream_id: UUID) -> int:
        """See ``Standing``."""
        return int(self.rows(self.statements.max_version, {"stream_id": stream_id})[0][0])

    # -- lists of items and outbox ----------------------------------------------------------------------------------

    def get_list(self, job_id: UUID, name: str) -> list[bytes]:
        """The chunks of a stored list, in order."""
        return [bytes(row[0]) for row in self.rows(self.statements.get_list, {"job_id": job_id, "name": name})]

    def outbox(self, limit: int, *, after: int = 0) -> list[tuple[int, str]]:
        """Committed outbox rows (id, spec) behind the id *after*, in the order of their ids."""
        return [(row[0], row[1]) for row in self.rows(self.statements.outbox, {"count": limit, "after": after})]

    def outbox_spec(self, job_id: UUID) -> str | None:
        """The spec of a job that is still in the outbox."""
        found = self.rows(self.statements.outbox_spec, {"job_id": job_id})
        return found[0][0] if found else None
