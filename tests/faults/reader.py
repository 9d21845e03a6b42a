"""Raw reading of a log's database for the oracle: nothing of the product's own reading code."""

import gzip
import json
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Self
from uuid import UUID

import psycopg
import sqlalchemy as sa
from psycopg import sql

from joblog.eventstore import ddl
from joblog.eventstore import schema as s

Row = dict[str, Any]
IN_LIMIT: Final = 500


class Logged(NamedTuple):
    position: int
    stream: UUID
    version: int
    topic: str
    state: bytes


class Reader(ABC):
    """One connection, opened fresh and closed soon; reads committed rows only."""

    dialect: str
    mark: str

    @abstractmethod
    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """What a statement finds."""

    @abstractmethod
    def close(self) -> None:
        """Disconnect."""

    def to_id(self, value: UUID) -> Any:
        return value

    def from_id(self, value: Any) -> UUID:
        return UUID(str(value))

    def events(self, after: int = 0) -> list[Logged]:
        return self._logged(f"position > {self.mark} ORDER BY position", after)

    def stream(self, stream: UUID) -> list[Logged]:
        return self._logged(f"stream_id = {self.mark} ORDER BY version", self.to_id(stream))

    def _logged(self, where: str, value: Any) -> list[Logged]:
        found = self.rows(f"SELECT position, stream_id, version, topic, state FROM events WHERE {where}", (value,))
        made = [Logged(p, self.from_id(stream), v, topic, bytes(state)) for p, stream, v, topic, state in found]
        if all(event.state for event in made):
            return made
        archived = self._archived()
        return [event if event.state else event._replace(state=archived.get(event.position, b"")) for event in made]

    def _archived(self) -> dict[int, bytes]:
        """Every body that lies in an archive, by position: only of its own streams, and only in its range."""
        found: dict[int, bytes] = {}
        streams: dict[int, set[str]] = {}
        for stream, archive in self.rows("SELECT stream_id, archive FROM archived_streams"):
            streams.setdefault(archive, set()).add(str(self.from_id(stream)))
        for event, name, first, last, folder in self.rows("SELECT event, name, first, last, folder FROM archives"):
            with gzip.open(Path(folder) / f"{name}.ndjson.gz", "rb") as lines:
                for made in map(json.loads, lines):
                    if made["stream"] in streams.get(event, ()) and first <= made["position"] <= last:
                        found[made["position"]] = made["state"].encode()
        return found

    def extent(self) -> tuple[int, int]:
        """How many events there are, and the last position."""
        count, head = self.rows("SELECT count(*), coalesce(max(position), 0) FROM events")[0]
        return int(count), int(head)

    def count(self, table: sa.Table) -> int:
        return int(self.rows(f"SELECT count(*) FROM {table.name}")[0][0])

    def table(self, table: sa.Table, column: str = "", ids: Iterable[UUID] = ()) -> list[Row]:
        """Every row of a table, or those that have one of *ids* in *column*."""
        names = ", ".join(f'"{c.name}"' for c in table.c)
        statement = f"SELECT {names} FROM {table.name}"
        if not column:
            return self._made(table, self.rows(statement))
        wanted, made = list(ids), []
        for start in range(0, len(wanted), IN_LIMIT):
            some = [self.to_id(value) for value in wanted[start : start + IN_LIMIT]]
            marks = ", ".join([self.mark] * len(some))
            made += self._made(table, self.rows(f"{statement} WHERE {column} IN ({marks})", some))
        return made

    def _made(self, table: sa.Table, found: list[tuple[Any, ...]]) -> list[Row]:
        uuids = {c.name for c in table.c if isinstance(c.type, s.Id16)}
        binary = {c.name for c in table.c if isinstance(c.type, sa.LargeBinary)}
        names = [c.name for c in table.c]
        rows: list[Row] = []
        for values in found:
            row = dict(zip(names, values, strict=True))
            for name in uuids:
                row[name] = self.from_id(row[name])
            for name in binary:
                row[name] = bytes(row[name])
            if table is s.unit_results and not row["state"]:
                row["state"] = self._unit(row["job_id"], row["version"])
            rows.append(row)
        return rows

    def _unit(self, job_id: UUID, version: int) -> bytes:
        """The bytes of a result that was archived: those of its event."""
        return next((event.state for event in self.stream(job_id) if event.version == version), b"")

    @abstractmethod
    def structure(self, *, full: bool) -> list[str]:
        """What the database says is wrong with its own files."""

    @abstractmethod
    def schema(self) -> list[str]:
        """Which tables and triggers are missing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SqliteReader(Reader):
    dialect = "sqlite"
    mark = "?"

    def __init__(self, path: Path, *, writable: bool = False) -> None:
        """*writable* is what any process does: the last one to close writes the WAL back and deletes it."""
        mode = "rw" if writable else "ro"
        self._connection = sqlite3.connect(f"file:{path}?mode={mode}", uri=True, isolation_level=None, timeout=5)
        self._connection.execute("PRAGMA wal_autocheckpoint=0").close()
        self._connection.execute("BEGIN").close()

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, values).fetchall()

    def close(self) -> None:
        self._connection.rollback()
        self._connection.close()

    def to_id(self, value: UUID) -> Any:
        return value.bytes

    def from_id(self, value: Any) -> UUID:
        return UUID(bytes=value)

    def structure(self, *, full: bool) -> list[str]:
        try:
            said = self.rows(f"PRAGMA {'integrity_check' if full else 'quick_check'}")
        except sqlite3.DatabaseError as error:
            return [str(error)]
        return [] if said == [("ok",)] else [str(line) for (line,) in said]

    def schema(self) -> list[str]:
        have = {name for (name,) in self.rows("SELECT name FROM sqlite_master")}
        want = set(s.metadata.tables) | {
            line.split()[2] for line in ddl.statements("sqlite") if line.startswith("CREATE TRIGGER")
        }
        return [f"{name} is missing" for name in sorted(want - have)]


_BTREES: Final = """
SELECT c.oid, c.relname FROM pg_class c JOIN pg_am a ON a.oid = c.relam JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'i' AND a.amname = 'btree' AND n.nspname = current_schema()"""
_DISABLED: Final = """
SELECT w.name FROM unnest(%s::text[]) w(name)
WHERE NOT EXISTS (SELECT 1 FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = current_schema() AND t.tgname = w.name AND t.tgenabled = 'A')"""


class PostgresReader(Reader):
    dialect = "postgresql"
    mark = "%s"

    def __init__(self, url: str) -> None:
        plain = sa.make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
        self._connection = psycopg.connect(plain, autocommit=True)
        self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement.encode(), values).fetchall()

    def close(self) -> None:
        self._connection.close()

    def structure(self, *, full: bool) -> list[str]:
        """By amcheck, where the server has it: every index against its table, then the pages of the tables."""
        if not full:
            return []
        if not self.rows("SELECT 1 FROM pg_available_extensions WHERE name = 'amcheck'"):
            return self._structure_by_counting()
        self._connection.execute("COMMIT")
        self._connection.execute("CREATE EXTENSION IF NOT EXISTS amcheck")
        said: list[str] = []
        for oid, name in self.rows(_BTREES):
            try:
                self.rows("SELECT bt_index_check(%s::oid::regclass, true)", (oid,))
            except psycopg.Error as error:
                said.append(f"index {name}: {str(error).splitlines()[0]}")
        for name in s.metadata.tables:
            found = self.rows("SELECT blkno, offnum, msg FROM verify_heapam(%s::regclass)", (name,))
            said += [f"table {name}, block {block}, line {line}: {text}" for block, line, text in found]
        self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        return said

    def _structure_by_counting(self) -> list[str]:
        """Each table counted through its pages and through its primary key."""
        said: list[str] = []
        for name in s.metadata.tables:
            counts: list[int] = []
            for off in (("enable_indexscan", "enable_indexonlyscan", "enable_bitmapscan"), ("enable_seqscan",)):
                for setting in off:
                    self._connection.execute(sql.SQL("SET LOCAL {} = off").format(sql.Identifier(setting)))
                counts.append(int(self.rows(f"SELECT count(*) FROM {name}")[0][0]))
                for setting in off:
                    self._connection.execute(sql.SQL("SET LOCAL {} = on").format(sql.Identifier(setting)))
            if counts[0] != counts[1]:
                said.append(f"table {name} has {counts[0]} rows, its index {counts[1]}")
        return said

    def schema(self) -> list[str]:
        have = {name for (name,) in self.rows("SELECT relname::text FROM pg_class WHERE relkind = 'r'")}
        said = [f"{name} is missing" for name in sorted(set(s.metadata.tables) - have)]
        if said:
            return said
        triggers = [line.split()[2] for line in ddl.statements("postgresql") if line.startswith("CREATE TRIGGER")]
        return [f"{name} is missing or not ALWAYS" for (name,) in self.rows(_DISABLED, (triggers,))]


def open_reader(url: str, *, writable: bool = False) -> Reader:
    """Open the log's database at *url* beside the product."""
    parsed = sa.make_url(url)
    if parsed.get_backend_name() == "sqlite":
        return SqliteReader(Path(str(parsed.database)), writable=writable)
    return PostgresReader(url)
