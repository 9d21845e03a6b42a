"""The yardstick: bare SQL that writes the rows of completed units, with the batching of the log and nothing else.

A unit is two events (the same fields, so the same bytes as ours), a unit result and an update of a job's row.  It has the
log's order (gapless positions under one lock) and its durability, but no fence, no lease, no trigger, no claim index, no
expected version: what those cost is what the ratio shows.
"""

from __future__ import annotations

import fcntl
import sqlite3
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Callable

JOBS = 64
EVIDENCE = {"count": 500, "digest": "a" * 32}
TOPICS = ("joblog.job.unit-completed", "joblog.job.checkpoint-advanced")

SQLITE = """pragma journal_mode=wal;
create table if not exists events(position integer primary key, stream_id blob, version int, topic text, state blob,
  unique(stream_id, version));
create table if not exists unit_results(job_id blob, unit text, version int, state blob, primary key(job_id, unit)) without rowid;
create table if not exists jobs(id blob primary key, version int, units int) without rowid;"""

POSTGRES = """
create table events(position bigint primary key, stream_id uuid not null, version bigint not null, topic text not null,
  state bytea not null, unique(stream_id, version));
create table unit_results(job_id uuid, unit text, version bigint, state bytea, primary key(job_id, unit));
create table jobs(id uuid primary key, version bigint, units bigint) with (fillfactor = 70);
create function bare_append(s uuid[], v bigint[], t text[], st bytea[], us uuid[], uk text[], jv bigint[]) returns bigint
language plpgsql as $$
declare p bigint;
begin
  insert into unit_results select us[i], uk[i], v[2*i-1], st[2*i-1] from generate_subscripts(us, 1) i;
  update jobs set version = x.v, units = units + 1 from unnest(us, jv) x(id, v) where jobs.id = x.id;
  perform pg_advisory_xact_lock(70017);
  select coalesce(max(position), 0) into p from events;
  insert into events select p + i, s[i], v[i], t[i], st[i] from generate_subscripts(s, 1) i;
  return p + array_length(s, 1);
end $$;"""


class _Units:
    """Makes the rows of one unit after another, over some jobs of this process."""

    def __init__(self, ids: list[Any]) -> None:
        self._jobs = [[job, 0] for job in ids]
        self._tag = uuid.uuid4().hex
        self._made = 0

    def group(self, size: int) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """Events, unit results, and (version, units, id) of the job rows."""
        events: list[tuple[Any, ...]] = []
        units: list[tuple[Any, ...]] = []
        rows: list[tuple[Any, ...]] = []
        for _ in range(size):
            job = self._jobs[self._made % JOBS]
            self._made += 1
            job[1] += 1
            (stream, k), n, now = job, self._made, datetime.now(UTC)
            said = {"timestamp": now, "unit": f"rows-{n}", "evidence": EVIDENCE, "done": k}
            done = orjson.dumps({**said, "event_id": f"{self._tag[:18]}-{n:x}.0"})
            mark = {"timestamp": now, "sequence": k, "cursor": {"row": n}, "event_id": f"{self._tag[:18]}-{n:x}.1"}
            events += ((stream, 2 * k, TOPICS[0], done), (stream, 2 * k + 1, TOPICS[1], orjson.dumps(mark)))
            units.append((stream, f"rows-{n}", 2 * k, done))
            rows.append((2 * k + 1, k, stream))
        return events, units, rows


class BareSqlite:
    """WAL, synchronous=FULL, the writer lock between processes, one transaction a group."""

    def __init__(self, path: str, delay: float = 0.0) -> None:
        self._delay = delay
        self._lock = Path(path + ".writer").open("w")  # noqa: SIM115 - held as long as this
        self._db = sqlite3.connect(path, isolation_level=None, timeout=30)
        self._db.executescript(SQLITE)
        for pragma in ("synchronous=full", "wal_autocheckpoint=4000", "cache_size=-8000"):
            self._db.execute(f"pragma {pragma}")
        ids = [uuid.uuid4().bytes for _ in range(JOBS)]
        self._db.executemany("insert into jobs values(?, 0, 0)", [(job,) for job in ids])
        self._units = _Units(ids)

    def run(self, size: int, seconds: float) -> tuple[int, float]:
        """Groups of *size* for so many seconds: units, seconds."""
        return timed(lambda: self._write(size), size, seconds)

    def _write(self, size: int) -> None:
        events, units, rows = self._units.group(size)
        db = self._db
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        db.execute("begin immediate")
        last = db.execute("select coalesce(max(position), 0) from events").fetchone()[0]
        db.executemany("insert into unit_results values(?, ?, ?, ?)", units)
        db.executemany("update jobs set version = ?, units = ? where id = ?", rows)
        db.executemany("insert into events values(?, ?, ?, ?, ?)", [(last + 1 + i, *e) for i, e in enumerate(events)])
        if self._delay:
            time.sleep(self._delay)
        db.execute("commit")
        fcntl.flock(self._lock, fcntl.LOCK_UN)


class BarePostgres:
    """One call of a function over arrays, the log's order by an advisory lock until the commit."""

    def __init__(self, url: str) -> None:
        import psycopg

        self._db = psycopg.connect(url.replace("+psycopg", ""), autocommit=True)
        ids = [uuid.uuid4() for _ in range(JOBS)]
        self._db.cursor().executemany("insert into jobs values(%s, 0, 0)", [(job,) for job in ids])
        self._cursor = self._db.cursor()
        self.server = self._db.info.backend_pid
        self._units = _Units(ids)

    def run(self, size: int, seconds: float) -> tuple[int, float]:
        """Groups of *size* for so many seconds: units, seconds."""
        return timed(lambda: self._write(size), size, seconds)

    def _write(self, size: int) -> None:
        e, u, r = self._units.group(size)
        columns: tuple[list[Any], ...] = ([x[0] for x in e], [x[1] for x in e], [x[2] for x in e], [x[3] for x in e])
        columns += ([x[0] for x in u], [x[1] for x in u], [x[0] for x in r])
        self._cursor.execute("select bare_append(%b, %b, %b, %b, %b, %b, %b)", columns, prepare=True)


def timed(write: Callable[[], Any], size: int, seconds: float) -> tuple[int, float]:
    """Write again and again for so many seconds: units, seconds."""
    start = time.perf_counter()
    done, now = 0, start
    while now < start + seconds:
        write()
        done += size
        now = time.perf_counter()
    return done, now - start


def prepare_postgres(url: str) -> None:
    """The yardstick's tables in an empty database."""
    import psycopg

    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as db:
        db.execute(POSTGRES)
