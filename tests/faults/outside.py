"""What jobs did beyond the log, counted there and held against what the log says of them.

``Outside.check`` looks at the jobs that have not ended, at those that it is told of and at those that have written rows
since; with ``full`` at every job and every row again.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from tests.faults import operations
from tests.faults.oracle import JobTrace
from tests.faults.reader import open_reader

TARGET: Final = "CREATE TABLE IF NOT EXISTS target (job TEXT NOT NULL, n INTEGER NOT NULL)"
Ask = Callable[[str], list[tuple[Any, ...]]]
_TABLES: Final = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'imported%'",
    "postgresql": "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'",
}


def imported(job_id: UUID) -> str:
    """The table into which this job imports."""
    return f"imported_{job_id.hex}"


class Counted:
    """The rows that jobs have written into one database, and which of them were not there the last time."""

    def __init__(self, dialect: str) -> None:
        self._dialect, self._seen = dialect, 0
        self._rows: dict[str, list[int]] = {}

    def follow(self, ask: Ask, *, again: bool) -> set[str]:
        """The jobs that have written; *again* counts from the first row."""
        if again or self._dialect != "sqlite":  # elsewhere rows have no number
            self._rows, self._seen = {}, 0
        rowid = "rowid" if self._dialect == "sqlite" else "0"
        new = ask(f"SELECT job, n, {rowid} FROM target WHERE {rowid} >= {self._seen}")
        for job, n, _ in new:
            self._rows.setdefault(job, []).append(n)
        self._seen = max((number + 1 for *_, number in new), default=self._seen) if rowid == "rowid" else 0
        return {job for job, *_ in new}

    def of_job(self, job: JobTrace) -> list[int]:
        return sorted(self._rows.get(job.stream.hex, ()))

    def of_import(self, ask: Ask, job: JobTrace) -> list[int] | None:
        """Nothing where this job has no table here."""
        name = imported(job.stream)
        if (name,) not in ask(_TABLES[self._dialect]):
            return None
        return sorted(int(n) for (n,) in ask(f"SELECT n FROM {name}"))


class Outside:
    """Judges the rows in the log's own database and in the other one, and the bodies that the journal tells of."""

    def __init__(self, url: str, target: Path) -> None:
        self._url, self._target = url, target
        self._here = Counted("postgresql" if url.startswith("postgres") else "sqlite")
        self._there = Counted("sqlite")

    def check(
        self,
        jobs: Collection[JobTrace],
        effects: Counter[tuple[UUID, str]],
        touched: Collection[UUID] = (),
        *,
        full: bool = False,
        ended: bool = False,
    ) -> list[str]:
        """*touched*: the jobs with new events; *ended*: no record is on its way any more."""
        with open_reader(self._url) as reader, sqlite3.connect(self._target, timeout=10) as connection:

            def ask_there(sql: str) -> list[tuple[Any, ...]]:
                return connection.execute(sql).fetchall()

            wrote = self._here.follow(reader.rows, again=full) | self._there.follow(ask_there, again=full)
            found: list[str] = []
            for job in jobs:
                if not full and job.ended and job.stream not in touched and job.stream.hex not in wrote:
                    continue
                kind = job.row["kind"]
                if kind == "rows":
                    found += check_rows(job, self._here.of_job(job), exact=True)
                elif kind == "elsewhere":
                    found += check_rows(job, self._there.of_job(job), exact=ended)
                elif kind == "import.file":
                    here, there = self._here.of_import(reader.rows, job), self._there.of_import(ask_there, job)
                    found += check_rows(job, here or there or [], exact=ended or here is not None)
                else:
                    found += check_bodies(job, effects)
        connection.close()
        return found


def check_rows(job: JobTrace, have: list[int], *, exact: bool) -> list[str]:
    """Exactly once: the rows of the recorded batches; of one more in another database, whose record is on its way."""
    recorded = sum(unit.startswith("rows:") for unit in job.units) * operations.SIZE
    allowed = {recorded} if exact else {recorded, recorded + operations.SIZE}
    if have == list(range(len(have))) and len(have) in allowed:
        return []
    return [f"S9: job {job.stream} has written rows {have}, the log says {recorded}"]


def check_bodies(job: JobTrace, effects: Counter[Any]) -> list[str]:
    """At least once before its record, and at most once more for each time that the job was given back."""
    found: list[str] = []
    again = job.token[1]
    for unit, count in ((unit, effects[job.stream, unit]) for unit in job.units if unit.startswith("step:")):
        if not 1 <= count <= again and not unit.startswith("step:spawn"):
            found.append(f"S9: job {job.stream}: the body of {unit} ran {count} times in {again} grants")
    return found
