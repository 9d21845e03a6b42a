"""What a command really runs: the plan of each statement, and how much it touches.

Each probe runs the command itself, looks from inside its transaction right before the commit, and undoes it, so that the
next one finds the same.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from joblog import JobLog
from joblog.eventstore import failpoint

_SQLITE_STEP: Final = 10  #: virtual machine instructions between two calls of the progress handler


class _EnoughError(Exception):
    """Raised before the commit: the probe has seen what it wanted."""


@dataclass
class Seen:
    """What one probe saw: the plans of each statement, and the work."""

    plans: dict[str, set[str]] = field(default_factory=dict)
    work: dict[str, int] = field(default_factory=dict)

    def note(self, statement: str, plan: str) -> None:
        self.plans.setdefault(statement, set()).add(plan)


def probe(log: JobLog, point: str, command: Callable[[], Any]) -> Seen:
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
