"""A log of a million jobs in minutes: a few lives are lived once, in a log of their own, and then copied a million times.

    .venv/bin/python -m tests.scale.seed postgresql://…/seeded --jobs 1000000
    .venv/bin/python -m tests.scale.seed sqlite:////dev/shm/seeded.db

A copy is what the log, the job table and the views would hold had the job been lived there: events with their positions,
row, units, lease, job versions, counters, due jobs, rows of the reports.  Ids, keys and times differ, nothing else does.
"""

from __future__ import annotations

import argparse
import random
import re
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID

import orjson
from sqlalchemy.engine import make_url

from joblog.domain.events import CODE_VOCABULARY
from joblog.domain.job import Actor
from joblog.domain.spec import JobSpec
from joblog.eventstore.schema import Id16, metadata
from joblog.projections.runner import Runner
from joblog.projections.view_rebuild import rebuild
from joblog.projections.views import VIEWS
from joblog.workers.commands.held import Held
from joblog.workers.commands.log import JobLog
from joblog.workers.testing import ManualClock

KINDS: Final = 12
QUEUES: Final = 6
TENANTS: Final = 40
OWNERS: Final = 400
STEP: Final = 2_000_000  #: microseconds between two jobs
_BATCH: Final = 20_000  #: jobs written at once
#: What stands in a template where a copy has its own.
_WORDS: Final = ("kind-00", "queue-00", "tenant-00", "owner-00", "key-00000000")
_TABLES: Final = ("events", "jobs_0", "unit_results", "leases", "job_versions", "due_jobs", "recovery_rows")
_SUMS: Final = {"job_counts": "jobs"}
_POSITIONS: Final = frozenset({"position", "from_position", "to_position"})
_OPEN: Final = 2**62

_STAMP: Final = "2030-01-01T00:00:00+00:00"
_CUT: Final = re.compile("(" + "|".join(map(re.escape, (*_WORDS, _STAMP))) + ")")

Row = dict[str, Any]
Make = Callable[[Any], Any]
Live = Callable[[JobLog, Held], None]


def _units(count: int) -> Live:
    def live(_: JobLog, held: Held) -> None:
        for number in range(count):
            held.complete_units([(f"rows:{number}", {"rows": 500})], cursor={"row": 500 * number})
        held.complete({"rows": 500 * count})

    return live


def _fails(_: JobLog, held: Held) -> None:
    held.attempt_unit("rows:0")
    held.fail(reason="bad-row", text="line 7: no number", unit="rows:0")


def _retries(_: JobLog, held: Held) -> None:
    held.complete_units([("rows:0", {"rows": 500})], cursor={"row": 500})
    held.attempt_unit("rows:1")
    held.schedule_retry("rows:1", category="provider", text="503", origin="backoff")


def _runs(_: JobLog, held: Held) -> None:
    held.complete_units([("rows:0", {"rows": 500})], cursor={"row": 500})


def _stays(_: JobLog, held: Held) -> None:
    held.release("yield")


#: Of a thousand jobs; whether the job is claimed, and what happens then.
LIVES: Final[dict[str, tuple[int, Live | str]]] = {
    "completed": (520, _units(2)),
    "completed in one": (200, _units(1)),
    "completed in four": (100, _units(4)),
    "failed": (20, _fails),
    "retried": (10, _retries),
    "running": (1, _runs),
    "given back": (9, _stays),
    "queued": (120, ""),
    "paused": (10, "pause"),
    "cancelled": (10, "cancel"),
}


@dataclass
class Template:
    """One life, as rows of every table; positions are counted from its first event."""

    name: str
    rows: dict[str, list[Row]] = field(default_factory=dict)

    @property
    def length(self) -> int:
        return len(self.rows["events"])


def templates(folder: Path) -> tuple[list[Template], int]:
    """Every life, and the instant at which all of it happened."""
    made: list[Template] = []
    start = 0
    for name, (_, live) in LIVES.items():
        file = folder / f"{len(made)}.db"
        with JobLog.open(f"sqlite:///{file}", clock=ManualClock()) as log:
            start = log.store.now()
            kind, queue, tenant, owner, key = _WORDS
            spec = JobSpec(kind, {"staged": key}, key=key, queue=queue, tenant=tenant, owner=owner, tags=("seeded",))
            job_id = log.submit(spec).job_id
            if isinstance(live, str):
                if live:
                    log.command(live, job_id, Actor("ada", text="because"))
            else:
                [held] = log.claim("host-1", queues=[queue])
                live(log, held)
            Runner(log.store, log.mapper, "seed").run()
        made.append(Template(name, _rows(file)))
    return made, start


def _rows(file: Path) -> dict[str, list[Row]]:
    with sqlite3.connect(file) as db:
        db.row_factory = sqlite3.Row
        tables = (*_TABLES, *_SUMS, "view_state")
        found = {name: [dict(row) for row in db.execute(f"SELECT * FROM {name}")] for name in tables}
    db.close()
    return found


class Plan(NamedTuple):
    """A row of a template: what stays, and by column what a copy has of its own."""

    table: str
    fixed: tuple[Any, ...]
    own: tuple[tuple[int, Make], ...]


class Own(NamedTuple):
    """What one copy has of its own."""

    at: int
    stamp: str
    position: int
    job_id: bytes
    text: str
    words: dict[str, str]


def plan_of(table: str, row: Row, start: int) -> Plan:
    """Which columns of a row differ from copy to copy."""
    made = [(index, _make(name, value, start)) for index, (name, value) in enumerate(row.items())]
    return Plan(table, tuple(row.values()), tuple((index, make) for index, make in made if make is not None))


def _make(name: str, value: Any, start: int) -> Make | None:
    """How a copy's own value is made; None if it is the same everywhere."""
    if type(value) is int:
        if value == start:
            return lambda own: own.at
        return (lambda own: value + own.position) if name in _POSITIONS and value < _OPEN else None
    if type(value) is bytes:
        return (lambda own: own.job_id) if len(value) == 16 else _text(value.decode(), encoded=True)
    if type(value) is not str:
        return None
    if value.startswith("{"):
        return lambda own: _remembered(value, start, own)
    if len(value) == 36 and name in {"job_id", "stream_id"}:
        return lambda own: own.text
    return _text(value)


def _text(value: str, *, encoded: bool = False) -> Make | None:
    """A text in which words of a copy's own stand."""
    parts = _CUT.split(value)
    if len(parts) == 1:
        return None
    if encoded:
        return lambda own: "".join([own.words.get(part, part) for part in parts]).encode()
    return lambda own: "".join([own.words.get(part, part) for part in parts])


def _remembered(state: str, start: int, own: Own) -> str:
    """What a view remembers of a job."""
    made = orjson.loads(state)
    for name, value in made.items():
        if value == start:
            made[name] = own.at
        elif name in _POSITIONS:
            made[name] = value + own.position
        elif isinstance(value, str):
            made[name] = own.words.get(value, value)
    return orjson.dumps(made).decode()


class Copier:
    """Makes the rows of job *n* out of those of its life."""

    def __init__(self, made: Sequence[Template], start: int, first_at: int, chance: int) -> None:
        self._first_at = first_at
        plans = {
            one.name: [plan_of(table, row, start) for table, rows in one.rows.items() for row in rows] for one in made
        }
        self._lengths = {one.name: one.length for one in made}
        self._bag = [(one.name, plans[one.name]) for one in made for _ in range(LIVES[one.name][0])]
        random.Random(chance).shuffle(self._bag)
        self._ids = random.Random(chance + 1)
        self._sums = {table: list(row).index(column) for table, column in _SUMS.items() for row in made[0].rows[table]}
        self.position = 0
        self.counts: Counter[tuple[Any, ...]] = Counter()

    def copy(self, n: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Table and values, in the order of the template's columns."""
        name, plans = self._bag[n * 7919 % len(self._bag)]
        own = self._own(n)
        for plan in plans:
            values = list(plan.fixed)
            for index, make in plan.own:
                values[index] = make(own)
            if (place := self._sums.get(plan.table)) is not None:
                self.counts[plan.table, (*values[:place], *values[place + 1 :])] += values[place]
            else:
                yield plan.table, tuple(values)
        self.position += self._lengths[name]

    def _own(self, n: int) -> Own:
        at = self._first_at + n * STEP
        mine = (
            f"kind-{n % KINDS:02d}",
            f"queue-{n % QUEUES:02d}",
            f"tenant-{n % TENANTS:02d}",
            f"owner-{n % OWNERS:03d}",
        )
        words = dict(zip(_WORDS, (*mine, f"key-{n:08d}"), strict=True))
        stamp = words[_STAMP] = _iso(at)
        job_id = self._ids.getrandbits(128).to_bytes(16, "big")
        return Own(at, stamp, self.position, job_id, str(UUID(bytes=job_id)), words)


def _iso(micros: int) -> str:
    seconds, rest = divmod(micros, 1_000_000)
    return time.strftime(f"%Y-%m-%dT%H:%M:%S.{rest:06d}+00:00", time.gmtime(seconds))


# -- into a database -------------------------------------------------------------------------------------------------


class SqliteTarget:
    """Rows go in by the thousand, without triggers and indexes; both are made again at the end."""

    def __init__(self, url: str) -> None:
        self._db = sqlite3.connect(make_url(url).database or "", isolation_level=None)
        # In place: through a WAL every page would be written again and again.
        for pragma in ("journal_mode = DELETE", "journal_mode = OFF", "synchronous = OFF", "cache_size = -500000"):
            self._db.execute(f"PRAGMA {pragma}")
        kinds = "type = 'trigger' OR (type = 'index' AND sql IS NOT NULL)"
        made = self._db.execute(f"SELECT type, name, sql FROM sqlite_master WHERE {kinds}").fetchall()
        self._again = [sql for _, _, sql in made]
        for kind, name, _ in made:
            self._db.execute(f"DROP {kind} {name}")

    def write(self, table: str, columns: Sequence[str], rows: list[tuple[Any, ...]]) -> None:
        names = ", ".join(f'"{name}"' for name in columns)
        self._db.execute("BEGIN")
        self._db.executemany(f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(columns))})", rows)
        self._db.execute("COMMIT")

    def run(self, sql: str, *params: Any) -> None:
        self._db.execute(sql, params)

    def finish(self) -> None:
        for sql in self._again:
            self._db.execute(sql)
        self._db.execute("ANALYZE")
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.close()


class PostgresTarget:
    """The same by COPY."""

    def __init__(self, url: str) -> None:
        import psycopg

        plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
        self._db = psycopg.connect(plain, autocommit=True)
        self._db.execute("SET synchronous_commit = off")
        self._db.execute("SET maintenance_work_mem = '512MB'")
        sql = (
            "SELECT indexname, indexdef FROM pg_indexes i WHERE schemaname = current_schema() AND NOT EXISTS "
            "(SELECT 1 FROM pg_constraint c WHERE c.conname = i.indexname)"
        )
        indexes = self._db.execute(sql).fetchall()
        self._again = [definition for _, definition in indexes]
        for name, _ in indexes:
            self._db.execute(f'DROP INDEX "{name}"'.encode())
        self._ids = {
            table.name: {column.name for column in table.c if isinstance(column.type, Id16)}
            for table in metadata.tables.values()
        }

    def write(self, table: str, columns: Sequence[str], rows: list[tuple[Any, ...]]) -> None:
        ids = [index for index, name in enumerate(columns) if name in self._ids[table]]
        names = ", ".join(f'"{name}"' for name in columns)
        with self._db.cursor().copy(f"COPY {table} ({names}) FROM STDIN".encode()) as copy:
            for row in rows:
                made = list(row)
                for index in ids:
                    made[index] = UUID(bytes=made[index])
                copy.write_row(made)

    def run(self, sql: str, *params: Any) -> None:
        self._db.execute(sql.replace("?", "%s").encode(), params)

    def finish(self) -> None:
        for sql in self._again:
            self._db.execute(sql.encode())
        self._db.execute("VACUUM ANALYZE")
        self._db.close()


def seed(
    url: str, jobs: int, *, chance: int = 1, failures: bool = True, tell: Callable[[str], None] = lambda _: None
) -> tuple[int, float]:
    """Fill the empty log at *url*; returns how many events, and in how many seconds.

    *failures*: fold the view of failures, too, which takes as long as the rest: its keys can't be copied.
    """
    began = time.monotonic()
    with JobLog.open(url) as log:
        if log.store.head():
            raise ValueError("the log is not empty")
        now = log.store.now()
    with tempfile.TemporaryDirectory(prefix="joblog-seed-") as folder:
        made, start = templates(Path(folder))
    target = SqliteTarget(url) if url.startswith("sqlite") else PostgresTarget(url)
    copier = Copier(made, start, now - jobs * STEP - 60_000_000, chance)
    columns = {table: list(row) for one in made for table, rows in one.rows.items() for row in rows[:1]}
    for first in range(0, jobs, _BATCH):
        batch: dict[str, list[tuple[Any, ...]]] = {}
        for n in range(first, min(first + _BATCH, jobs)):
            for table, row in copier.copy(n):
                batch.setdefault(table, []).append(row)
        for table, rows in batch.items():
            target.write(table, columns[table], rows)
        tell(f"{first + _BATCH:,} jobs, {copier.position:,} events, {time.monotonic() - began:.0f} s")
    for (table, key), count in copier.counts.items():
        names = [name for name in columns[table] if name != _SUMS[table]]
        target.write(table, [*names, _SUMS[table]], [(*key, count)])
    for name, view in VIEWS.items():
        if name == "failures":
            continue
        sql = (
            "INSERT INTO projections (name, version, generation, owner, token, alive_until, reason) "
            "VALUES (?, ?, 0, '', 1, 0, '')"
        )
        target.run(sql, name, view.version)
        tracked = f"joblog.view.{name}.0"
        target.run("INSERT INTO tracking (application_name, notification_id) VALUES (?, ?)", tracked, copier.position)
    target.finish()
    if failures:
        with JobLog.open(url) as log:
            rebuild(log.store, log.mapper, VIEWS["failures"], "seed")
    return copier.position, time.monotonic() - began


def say(text: str) -> None:
    """To whoever waits."""
    sys.stderr.write(f"{text}\n")


def main() -> int:
    """Seed, and say how long it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    events, seconds = seed(chosen.url, chosen.jobs, chance=chosen.seed, tell=say)
    say(f"{chosen.jobs:,} jobs, {events:,} events in {seconds:.0f} s; vocabulary {CODE_VOCABULARY}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
