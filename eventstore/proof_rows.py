"""Where the tree, its signed heads and the feed's consumers are kept, beside the log and off the path of appends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from .entry_sql import entry_columns, sure
from .failpoint import failpoint
from .placed import placed
from .sql_store import SqlStore
from .store import ConflictError, LoggedEvent, Reading

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from .store import Store

#: The tree's place among the followers of the log.
TREE: Final = "tree"


class HeadRow(NamedTuple):
    """A signed head as it is kept."""

    epoch: int
    size: int
    signed_at: int
    note: str


class ConsumerRow(NamedTuple):
    """How far a consumer of the feed has come."""

    name: str
    epoch: int
    position: int
    moved_at: int


class ProofRows(Protocol):
    """One port, two adapters: SQL and memory."""

    def entries(self, after: int, limit: int, upto: int, reading: Reading = Reading.CHECKED) -> list[Any]:
        """Rows of the log: position, stream as 16 bytes, version, topic as bytes, state; None for what no append writes."""

    def stream_entries(self, stream_id: UUID, after: int, limit: int, reading: Reading = Reading.CHECKED) -> list[Any]:
        """As ``entries``, of one stream behind version *after*."""

    def stream_log(
        self, stream_id: UUID, after: int, upto: int, limit: int, reading: Reading = Reading.CHECKED
    ) -> list[LoggedEvent]:
        """The events of one stream between two positions."""

    def broken_streams(self, limit: int) -> list[tuple[int, UUID]]:
        """Streams whose versions are not 1..k, and where they begin."""

    def strays(self, limit: int) -> list[int]:
        """Positions that no log has."""

    def tree_size(self) -> int:
        """How many leaves the stored tree has."""

    def tile(self, level: int, number: int) -> bytes:
        """The hashes of a tile; empty if there is none."""

    def tiles(self, level: int, first: int, last: int) -> dict[int, bytes]:
        """The hashes of the tiles from *first* to *last*."""

    def grow(self, old: int, new: int, tiles: Mapping[tuple[int, int], bytes]) -> None:
        """Put *tiles* in place and move the tree from *old* to *new* leaves, in one transaction.

        Raises:
            ConflictError: the tree is not at *old* any more.
        """

    def heads(self) -> list[HeadRow]:
        """The signed heads, the smallest first."""

    def last_head(self) -> HeadRow | None:
        """The newest signed head."""

    def put_head(self, head: HeadRow) -> None:
        """Keep a signed head; one that is there stays."""

    def consumers(self) -> list[ConsumerRow]:
        """The consumers of the feed."""

    def consumer(self, name: str) -> ConsumerRow | None:
        """One of them."""

    def move_consumer(self, before: ConsumerRow | None, after: ConsumerRow) -> bool:
        """Put *after* in the place of *before*; False if that is not what is there."""

    def drop_consumer(self, name: str) -> bool:
        """Forget a consumer; False if there is none."""


def proof_rows(store: Store) -> ProofRows:
    """The rows that belong to *store*."""
    return SqlProofs(store) if isinstance(store, SqlStore) else store.proofs  # type: ignore[attr-defined]


class SqlProofs:
    """See ``ProofRows``."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._entry = entry_columns(store.dialect)
        self._hashes = sure("hashes", "blob") if store.dialect == "sqlite" else "hashes"

    def _sql(self, sql: str) -> str:
        return placed(sql, self._store.dialect)

    def _rows(self, sql: str, *values: Any) -> list[Any]:
        return self._store.sql_rows(self._sql(sql), values)

    def entries(self, after: int, limit: int, upto: int, reading: Reading = Reading.CHECKED) -> list[Any]:
        """See ``ProofRows``."""
        sql = f"SELECT {self._entry} FROM events WHERE position > ? AND position <= ? ORDER BY position LIMIT ?"
        return self._store.bodies.entries(self._rows(sql, after, upto, limit), reading)

    def stream_entries(self, stream_id: UUID, after: int, limit: int, reading: Reading = Reading.CHECKED) -> list[Any]:
        """See ``ProofRows``."""
        sql = f"SELECT {self._entry} FROM events WHERE stream_id = ? AND version > ? ORDER BY version LIMIT ?"
        return self._store.bodies.entries(self._rows(sql, self._store.to_id(stream_id), after, limit), reading)

    def stream_log(
        self, stream_id: UUID, after: int, upto: int, limit: int, reading: Reading = Reading.CHECKED
    ) -> list[LoggedEvent]:
        """See ``ProofRows``."""
        sql = (
            "SELECT position, version, topic, state FROM events "
            "WHERE stream_id = ? AND position > ? AND position <= ? ORDER BY version LIMIT ?"
        )
        found = self._rows(sql, self._store.to_id(stream_id), after, upto, limit)
        return self._store.bodies.logged([LoggedEvent(row[0], stream_id, *row[1:]) for row in found], reading)

    def broken_streams(self, limit: int) -> list[tuple[int, UUID]]:
        """See ``ProofRows``."""
        sql = (
            "SELECT min(position), stream_id FROM events GROUP BY stream_id "
            "HAVING min(version) <> 1 OR max(version) <> count(*) ORDER BY 1 LIMIT ?"
        )
        return [(row[0], self._store.from_id(row[1])) for row in self._rows(sql, limit)]

    def strays(self, limit: int) -> list[int]:
        """See ``ProofRows``."""
        return [
            row[0]
            for row in self._rows("SELECT position FROM events WHERE position < 1 ORDER BY position LIMIT ?", limit)
        ]

    def tree_size(self) -> int:
        """See ``ProofRows``."""
        return self._store.tracking_position(TREE) or 0

    def tile(self, level: int, number: int) -> bytes:
        """See ``ProofRows``."""
        return self.tiles(level, number, number).get(number, b"")

    def tiles(self, level: int, first: int, last: int) -> dict[int, bytes]:
        """See ``ProofRows``."""
        sql = f"SELECT number, {self._hashes} FROM tree_tiles WHERE level = ? AND number BETWEEN ? AND ?"
        return {number: hashes or b"" for number, hashes in self._rows(sql, level, first, last)}

    def grow(self, old: int, new: int, tiles: Mapping[tuple[int, int], bytes]) -> None:
        """See ``ProofRows``."""
        failpoint("tree.before")
        with self._store.writing("tree") as cursor:
            if old:
                moved = "UPDATE tracking SET notification_id = ? WHERE application_name = ? AND notification_id = ?"
                cursor.execute(self._sql(moved), (new, TREE, old))
            else:
                first = "INSERT INTO tracking (notification_id, application_name) VALUES (?, ?)"
                cursor.execute(self._sql(f"{first} ON CONFLICT DO NOTHING"), (new, TREE))
            if cursor.rowcount != 1:
                raise ConflictError(f"the tree is not at {old} any more")
            put = (
                "INSERT INTO tree_tiles (level, number, hashes) VALUES (?, ?, ?) "
                "ON CONFLICT (level, number) DO UPDATE SET hashes = excluded.hashes"
            )
            cursor.executemany(self._sql(put), [(*name, hashes) for name, hashes in tiles.items()])
            failpoint("tree.before_commit")
        failpoint("tree.after")

    def heads(self) -> list[HeadRow]:
        """See ``ProofRows``."""
        return [
            HeadRow(*r) for r in self._rows("SELECT epoch, size, signed_at, note FROM tree_heads ORDER BY epoch, size")
        ]

    def last_head(self) -> HeadRow | None:
        """See ``ProofRows``."""
        sql = "SELECT epoch, size, signed_at, note FROM tree_heads ORDER BY epoch DESC, size DESC LIMIT 1"
        return next((HeadRow(*row) for row in self._rows(sql)), None)

    def put_head(self, head: HeadRow) -> None:
        """See ``ProofRows``."""
        put = "INSERT INTO tree_heads (epoch, size, signed_at, note) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
        with self._store.writing("tree") as cursor:
            cursor.execute(self._sql(put), head)

    def consumers(self) -> list[ConsumerRow]:
        """See ``ProofRows``."""
        return [
            ConsumerRow(*r) for r in self._rows("SELECT name, epoch, position, moved_at FROM consumers ORDER BY name")
        ]

    def consumer(self, name: str) -> ConsumerRow | None:
        """See ``ProofRows``."""
        found = self._rows("SELECT name, epoch, position, moved_at FROM consumers WHERE name = ?", name)
        return ConsumerRow(*found[0]) if found else None

    def move_consumer(self, before: ConsumerRow | None, after: ConsumerRow) -> bool:
        """See ``ProofRows``."""
        failpoint("consumer.before")
        with self._store.writing("consumer") as cursor:
            if before is None:
                put = (
                    "INSERT INTO consumers (name, epoch, position, moved_at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
                )
                cursor.execute(self._sql(put), after)
            else:
                move = (
                    "UPDATE consumers SET epoch = ?, position = ?, moved_at = ? "
                    "WHERE name = ? AND epoch = ? AND position = ?"
                )
                cursor.execute(self._sql(move), (*after[1:], *before[:3]))
            moved = bool(cursor.rowcount == 1)
            failpoint("consumer.before_commit")
        failpoint("consumer.after")
        return moved

    def drop_consumer(self, name: str) -> bool:
        """See ``ProofRows``."""
        with self._store.writing("consumer") as cursor:
            cursor.execute(self._sql("DELETE FROM consumers WHERE name = ?"), (name,))
            return bool(cursor.rowcount == 1)
