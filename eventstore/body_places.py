"""Where bodies are, asked of a database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from .archive_files import ArchiveRow
from .entry_sql import entry_columns, sure
from .placed import placed
from .statements import chunks, placeholders

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from .sql_reads import SqlReads

_IN: Final = 500
_ARCHIVE: Final = ", ".join(f"a.{name}" for name in ArchiveRow._fields)


class SqlPlaces:
    """See ``Places``."""

    def __init__(self, store: SqlReads) -> None:
        self._store = store
        self._entry = entry_columns(store.dialect)
        self._hashes = sure("hashes", "blob") if store.dialect == "sqlite" else "hashes"

    def _rows(self, sql: str, *values: Any) -> list[Any]:
        return self._store.sql_rows(placed(sql, self._store.dialect), values)

    def archives_of(self, streams: Collection[bytes]) -> dict[bytes, ArchiveRow]:
        """See ``Places``."""
        found: dict[bytes, ArchiveRow] = {}
        ids = [self._store.to_id(UUID(bytes=stream)) for stream in streams]
        for some in chunks(ids, _IN):
            sql = (
                f"SELECT s.stream_id, {_ARCHIVE} FROM archived_streams s JOIN archives a ON a.event = s.archive "
                f"WHERE s.stream_id IN ({placeholders(len(some))})"
            )
            found |= {self._store.from_id(row[0]).bytes: ArchiveRow(*row[1:]) for row in self._rows(sql, *some)}
        return found

    def rows_at(self, stream_id: UUID, versions: Sequence[int]) -> list[Any]:
        """See ``Places``."""
        found: list[Any] = []
        for some in chunks(versions, _IN):
            where = f"stream_id = ? AND version IN ({placeholders(len(some))})"
            found += self._rows(f"SELECT {self._entry} FROM events WHERE {where}", self._store.to_id(stream_id), *some)
        return found

    def leaf_tiles(self, numbers: Sequence[int]) -> dict[int, bytes]:
        """See ``Places``."""
        found: dict[int, bytes] = {}
        for some in chunks(numbers, _IN):
            sql = f"SELECT number, {self._hashes} FROM tree_tiles WHERE level = 0 AND number IN ({placeholders(len(some))})"
            found |= {number: hashes or b"" for number, hashes in self._rows(sql, *some)}
        return found
