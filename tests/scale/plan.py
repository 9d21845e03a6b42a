"""What a claim, the promoter and a worker's look at the queue really run: the plan of each statement, and how much it touches.

The job table is filled by bulk SQL.  Each probe runs the real command, looks from inside its transaction right before the
commit, and undoes it, so that the next one finds the same.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import sqlalchemy as sa

from joblog import Actor, JobLog, JobSpec
from joblog.domain import identity
from joblog.eventstore import failpoint
from joblog.eventstore.schema import JOB_COLUMNS

LIMIT: Final = 64
TENANTS: Final = 50
HOUR: Final = 3_600_000_000
_SQLITE_STEP: Final = 10  #: virtual machine instructions between two calls of the progress handler
_STRICT_TABLES: Final = ("jobs_0", "events", "unit_results")

#: A queued job, column by column; {i} is its number, {now} the time, {id} and {text} what the database needs.
_QUEUED: Final = {
    "id": "{id}", "version": "1", "vocabulary": "1", "kind": "'bulk'", "tenant": "'tenant-' || {text}", "owner": "''",
    "queue": "'default'", "priority": "5", "gate": "''", "exclusive_key": "''", "parent_id": "''", "key": "''",
    "args_digest": "''", "tags": "'[]'", "status": "'queued'", "wish": "''", "outcome": "''", "reason": "''",
    "reason_text": "''", "due_at": "{now} - {i} % 1000", "ready": "1", "blocked": "0", "worker": "''", "token": "0",
    "attempt": "0", "unit_attempt": "0", "crashes": "0", "reclaims": "0", "failures": "0", "done": "0", "skipped": "0",
    "total": "NULL", "sequence": "0", "cursor": "NULL", "created_at": "{now} - {i}", "updated_at": "{now} - {i}",
    "started_at": "NULL", "last_attempt_at": "NULL", "finished_at": "NULL",
}  # fmt: skip
_FUTURE: Final = {"ready": "0", "priority": "0", "due_at": f"{{now}} + {HOUR} + {{i}}"}

#: Backlogs: how many rows at full size, and in what they differ from a queued job.
BACKLOGS: Final[dict[str, tuple[int, dict[str, str]]]] = {
    "none": (0, {}),
    "few queued": (10_000, {}),
    "many queued": (1_000_000, {}),
    "future, high priority": (1_000_000, _FUTURE),
    "behind a closed gate": (100_000, {"gate": "'shut'", "priority": "0"}),
    "behind a held key": (100_000, {"exclusive_key": "'{held}'", "ready": "0", "blocked": "1", "priority": "0"}),
    "finished": (500_000, {"status": "'completed'", "ready": "0", "finished_at": "{now}"}),
}


class _EnoughError(Exception):
    """Raised before the commit: the probe has seen what it wanted."""


@dataclass
class Seen:
    """What one probe saw: the plans of each statement, and the work."""

    plans: dict[str, set[str]] = field(default_factory=dict)
    work: dict[str, int] = field(default_factory=dict)

    def note(self, statement: str, plan: str) -> None:
        self.plans.setdefault(statement, set()).add(plan)


def fill(log: JobLog, rows: int, differs: dict[str, str]) -> None:
    """Put *rows* jobs into the job table; they have no events, so they can't be claimed, only be in the way."""
    if not rows:
        return
    sqlite = log.store.dialect == "sqlite"
    words = {
        "now": str(log.store.now()),
        "held": identity.exclusive("default", "held"),
        "i": "n",
        "id": "randomblob(16)" if sqlite else "gen_random_uuid()",
        "text": f"(n % {TENANTS})" if sqlite else f"(n % {TENANTS})::text",
    }
    row = {**_QUEUED, **differs}
    values = ", ".join(row[name].format(**words) for name in JOB_COLUMNS)
    names = ", ".join(f'"{name}"' for name in JOB_COLUMNS)
    if sqlite:
        numbers = f"WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < {rows}) "
        sql = f"{numbers}INSERT INTO jobs_0 ({names}) SELECT {values} FROM i"
    else:
        sql = f"INSERT INTO jobs_0 ({names}) SELECT {values} FROM generate_series(1, {rows}) i(n)"
    with log.store.engine.begin() as connection:  # type: ignore[attr-defined]
        connection.exec_driver_sql(sql if sqlite else sql.replace("%", "%%"))


def prepare(log: JobLog, rows: int, differs: dict[str, str]) -> None:
    """A held key, the jobs that a claim shall take (all kinds of them), a closed gate, and the backlog."""
    log.submit(JobSpec("holder", {}, key="holder", exclusive_key="held"))
    assert len(log.claim("holder")) == 1
    log.submit_many(
        JobSpec("wanted", {}, key=f"wanted-{n}", tenant=f"tenant-{n % 3}", priority=0, **_special(n))
        for n in range(2 * LIMIT)
    )
    log.control_queue("default", "limit", Actor("probe"), slots=10 * LIMIT)
    log.store.set_gate("shut", None, log.store.now() + 24 * HOUR)
    log.store.set_gate("open", LIMIT, 0)
    fill(log, rows, differs)


def _special(n: int) -> dict[str, Any]:
    """One in four has an exclusive key, one in four a gate."""
    return {0: {"exclusive_key": f"key-{n}"}, 1: {"gate": "open"}}.get(n % 4, {})


def add_due(log: JobLog, rows: int) -> None:
    """Jobs whose instant has come and that are not ready yet: what the promoter moves."""
    fill(log, rows, {"ready": "0", "kind": "'due'"})


def analyze(log: JobLog) -> None:
    with log.store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:  # type: ignore[attr-defined]
        connection.execute(sa.text("ANALYZE"))


# -- probes --------------------------------------------------------------------------------------------------------------


def claim(log: JobLog) -> Seen:
    """A claim of 64 jobs."""
    return _probe(log, "claim.before_commit", lambda: log.claim("probe", limit=LIMIT))


def promote(log: JobLog, limit: int = 100) -> Seen:
    """A pass of the promoter that finds due jobs."""
    return _probe(log, "promote.before_commit", lambda: log.promote(limit))


def suspects(log: JobLog) -> Seen:
    """What a worker asks before it claims: does a job wait that must run alone?"""
    return _probe(log, "", lambda: log.store.has_suspects(["default"], 2))


def outlook(log: JobLog) -> Seen:
    """What an idle worker asks at each poll."""
    return _probe(log, "", lambda: log.store.outlook(["default"], "probe"))


def _probe(log: JobLog, point: str, command: Callable[[], Any]) -> Seen:
    look = _on_sqlite if log.store.dialect == "sqlite" else _on_postgres
    command_seen = Seen()
    with look(log, command_seen) as count:

        def enough() -> None:
            command_seen.work.update(count())
            raise _EnoughError

        if point:
            failpoint.arm(point, enough)
        try:
            with suppress(_EnoughError):
                command()
                if point:
                    raise AssertionError(f"{point} was not passed")
        finally:
            failpoint.disarm()
        if not point:
            command_seen.work.update(count())
    return command_seen


class _Recorder:
    """A cursor that remembers what ran, with one set of parameters for each statement."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor
        self.ran: dict[str, Any] = {}

    def execute(self, sql: str, params: Any = ()) -> "_Recorder":
        self.ran.setdefault(sql, params)
        self._cursor.execute(sql, params)
        return self

    def executemany(self, sql: str, rows: Any) -> "_Recorder":
        rows = list(rows)
        if rows:
            self.ran.setdefault(sql, rows[0])
        self._cursor.executemany(sql, rows)
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)


@contextmanager
def _on_sqlite(log: JobLog, found: Seen) -> Iterator[Callable[[], dict[str, int]]]:
    """Count the instructions of SQLite's virtual machine, then ask for the plan of each statement that ran."""
    store: Any = log.store
    pins = [store.lane("claim").pinned, store._own("reader")]
    calls = [0]

    def step() -> int:
        calls[0] += 1
        return 0

    recorders = []
    for pinned in pins:
        pinned.cursor = _Recorder(pinned.open())
        recorders.append(pinned.cursor)
        pinned.driver.set_progress_handler(step, _SQLITE_STEP)
    try:
        yield lambda: {"steps": calls[0] * _SQLITE_STEP}
    finally:
        for pinned, recorder in zip(pins, recorders, strict=True):
            pinned.driver.set_progress_handler(None, 0)
            pinned.cursor = recorder._cursor
            for sql, params in recorder.ran.items():
                if not sql.startswith(("BEGIN", "COMMIT", "ROLLBACK", "PRAGMA")):
                    rows = pinned.driver.execute(f"EXPLAIN QUERY PLAN {sql}", params).fetchall()
                    found.note(sql, "; ".join(row[3] for row in rows))


_EXPLAIN: Final = {
    "auto_explain.log_min_duration": "0",
    "auto_explain.log_nested_statements": "on",
    "auto_explain.log_level": "notice",
    "auto_explain.log_format": "json",
    "auto_explain.log_parameter_max_length": "0",
}
_COUNTS: Final = (
    "SELECT relname, seq_scan, coalesce(idx_scan, 0), seq_tup_read + coalesce(idx_tup_fetch, 0) "
    "FROM pg_stat_xact_all_tables WHERE schemaname = 'public'"
)


@contextmanager
def _on_postgres(log: JobLog, found: Seen) -> Iterator[Callable[[], dict[str, int]]]:
    """Have the server tell the plan of each statement, also inside functions, and count what the transaction touched."""
    store: Any = log.store
    pins = [store._own("claim"), store._own("reader")]
    told: list[str] = []

    def hear(notice: Any) -> None:
        told.append(notice.message_primary)

    for pinned in pins:
        pinned.open()
        pinned.driver.execute("LOAD 'auto_explain'")
        for name, value in _EXPLAIN.items():
            pinned.driver.execute(f"SET {name} = '{value}'")
        pinned.driver.add_notice_handler(hear)

    def count() -> dict[str, int]:
        work: dict[str, int] = {}
        for table, sequential, descents, rows in pins[0].cursor.connection.execute(_COUNTS).fetchall():
            work |= {f"{table} seq scans": sequential, f"{table} descents": descents, f"{table} rows": rows}
        return work

    try:
        yield count
    finally:
        for pinned in pins:
            pinned.driver.remove_notice_handler(hear)
            pinned.drop()  # the next one has a new backend, and no plan of before
        for message in told:
            _note_plan(found, message)


def _note_plan(found: Seen, message: str) -> None:
    head, _, body = message.partition("plan:")
    if head.startswith("duration") and "pg_stat_xact" not in body:
        told = json.loads(body)
        found.note(" ".join(told["Query Text"].split()), _shape(told["Plan"]))


_SHAPE: Final = ("Node Type", "Relation Name", "Index Name", "Index Cond", "Filter", "Join Type", "Scan Direction")


def _shape(node: dict[str, Any]) -> str:
    """A plan without its estimates."""
    inner = ", ".join(_shape(child) for child in node.get("Plans", ()))
    about = re.sub(r"\d{10,}", "#", " ".join(str(node[name]) for name in _SHAPE if name in node))
    return f"{about} [{inner}]" if inner else about


# -- verdict -------------------------------------------------------------------------------------------------------------

COMMANDS: Final = {"claim": claim, "outlook": outlook, "suspects": suspects, "promote": promote}
STAGES: Final = ("without statistics", "with statistics")
DUE: Final = 200  #: jobs that the promoter can move, 100 in a pass

Found = dict[tuple[str, str, str], Seen]  #: by backlog, command and stage


def examine(url: str, backlog: str, rows: int) -> Found:
    """Fill a new database, then look at every command before and after ANALYZE."""
    found: Found = {}
    with JobLog.open(url) as log:
        prepare(log, rows, BACKLOGS[backlog][1])
        add_due(log, DUE)
        for stage in STAGES:
            if stage == STAGES[1]:
                analyze(log)
            for name, command in COMMANDS.items():
                found[backlog, name, stage] = command(log)
    return found


def faults(found: Found) -> list[str]:
    """Statements with more than one plan, growing tables that are walked, and work that grows with the backlog."""
    wrong: list[str] = []
    for name in COMMANDS:
        plans: dict[str, set[str]] = {}
        for (_, command, _), seen in found.items():
            if command == name:
                for statement, some in seen.plans.items():
                    plans.setdefault(statement, set()).update(some)
        wrong += [
            f"{name}: {len(some)} plans of {text}: {sorted(some)}" for text, some in plans.items() if len(some) > 1
        ]
    for (backlog, name, stage), seen in found.items():
        wrong += [f"{name}, {backlog}, {stage}: {fault}" for fault in _scans(seen)]
        same = found["few queued" if backlog == "many queued" else "none", name, stage]
        if backlog not in ("none", "few queued"):
            wrong += [f"{name}, {backlog}, {stage}: {fault}" for fault in _grown(seen, same)]
    return wrong


def _scans(seen: Seen) -> list[str]:
    bad: list[str] = []
    for statement, plans in seen.plans.items():
        for plan in plans:
            whole = [table for table in _STRICT_TABLES if re.search(rf"SCAN {table}(?! USING)|Seq Scan {table}", plan)]
            bad += [f"{table} is scanned by {statement}: {plan}" for table in whole]
    bad += [f"{what}: {count}" for what, count in seen.work.items() if count and what in _NEVER]
    return bad


_NEVER: Final = tuple(f"{table} seq scans" for table in _STRICT_TABLES)


def _grown(seen: Seen, small: Seen) -> list[str]:
    """Work beyond that with a small backlog; a tree that is one level higher, or a dead entry, is no matter."""
    return [
        f"{what}: {count}, not {small.work.get(what, 0)}"
        for what, count in seen.work.items()
        if count > 1.2 * small.work.get(what, 0) + 100
    ]
