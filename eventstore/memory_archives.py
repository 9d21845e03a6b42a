"""The archives of a log in memory, and where its bodies are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from ..domain.errors import EpochChangedError, StoreBusyError
from .archive_rows import OVERTAKEN, Place
from .failpoint import failpoint
from .memory_append import check, write

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from .append import Append
    from .archive_files import ArchiveRow
    from .memory_store import MemoryStore
    from .memory_tables import MemoryTables
    from .store import JobRow, LoggedEvent


def entry_of(event: LoggedEvent) -> tuple[int, bytes, int, bytes, bytes]:
    """An event as an entry."""
    return event.position, event.stream_id.bytes, event.version, event.topic.encode(), event.state


class MemoryPlaces:
    """See ``Places``."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    def archives_of(self, streams: Collection[bytes]) -> dict[bytes, ArchiveRow]:
        """See ``Places``."""
        found = {stream: self._tables.archived.get(UUID(bytes=stream)) for stream in streams}
        return {stream: self._tables.archives[event] for stream, event in found.items() if event is not None}

    def rows_at(self, stream_id: UUID, versions: Sequence[int]) -> list[Any]:
        """See ``Places``."""
        positions = self._tables.streams.get(stream_id, [])
        there = [positions[version - 1] for version in versions if 0 < version <= len(positions)]
        return [entry_of(self._tables.log[position - 1]) for position in there]

    def leaf_tiles(self, numbers: Sequence[int]) -> dict[int, bytes]:
        """See ``Places``."""
        return {number: self._tables.tiles.get((0, number), b"") for number in numbers}


class MemoryArchives:
    """See ``ArchiveRows``."""

    def __init__(self, store: MemoryStore) -> None:
        self._store, self._tables = store, store.tables

    def archives(self) -> list[ArchiveRow]:
        """See ``ArchiveRows``."""
        with self._store.serving():
            return [self._tables.archives[event] for event in sorted(self._tables.archives)]

    def ended(self, status: str, before: int, after: tuple[int, UUID] | None, limit: int) -> list[JobRow]:
        """See ``ArchiveRows``."""
        with self._store.serving():
            rows = [row for row in self._tables.rows() if row["status"] == status and row["finished_at"] < before]
            rows = [dict(row) for row in rows if row["id"] not in self._tables.archived]
        least = (-1, b"") if after is None else (after[0], after[1].bytes)
        found = sorted(rows, key=lambda row: (row["created_at"], row["id"].bytes))
        return [row for row in found if (row["created_at"], row["id"].bytes) > least][:limit]

    def places(self, stream_id: UUID) -> list[Place]:
        """See ``ArchiveRows``."""
        with self._store.serving():
            events = [self._tables.log[position - 1] for position in self._tables.streams.get(stream_id, [])]
        return [Place(event.position, event.version, event.topic) for event in events]

    def at(self, positions: Sequence[int]) -> list[Any]:
        """See ``ArchiveRows``."""
        with self._store.serving():
            return [entry_of(self._tables.log[position - 1]) for position in sorted(positions)]

    def rows_of(self, archive: ArchiveRow, after: int, limit: int) -> list[Any]:
        """See ``ArchiveRows``."""
        with self._store.serving():
            some = self._tables.log[max(after + 1, archive.first) - 1 : archive.last]
            mine = [event for event in some if self._tables.archived.get(event.stream_id) == archive.event]
        return [entry_of(event) for event in mine[:limit]]

    def write(self, append: Append, archive: ArchiveRow, streams: Sequence[UUID], epoch: int) -> int:
        """See ``ArchiveRows``."""
        tables = self._tables
        with self._store.serving():
            if tables.epoch != epoch:
                raise EpochChangedError(f"the log's epoch is {tables.epoch} now, the archive was made in {epoch}")
            if tables.version_of(append.stream_id) != append.expected or any(one in tables.archived for one in streams):
                raise StoreBusyError(OVERTAKEN)
            check(tables, [append])
            failpoint("archive.before_commit")
            write(tables, append)
            position = len(tables.log)
            tables.archives[position] = archive._replace(event=position)
            for stream in streams:
                tables.archived[stream] = position
                self._empty(stream)
        failpoint("archive.after_commit")
        return position

    def _empty(self, stream: UUID) -> None:
        tables = self._tables
        versions: dict[bytes, int] = {}
        for at in tables.streams[stream]:
            event = tables.log[at - 1]
            versions[event.state] = event.version
            tables.log[at - 1] = event._replace(state=b"")
        for job, unit in [name for name in tables.units if name[0] == stream]:
            tables.unit_versions[job, unit] = versions[tables.units[job, unit]]
            tables.units[job, unit] = b""

    def move(self, name: str, folder: str) -> bool:
        """See ``ArchiveRows``."""
        with self._store.serving():
            found = [event for event, row in self._tables.archives.items() if row.name == name]
            for event in found:
                self._tables.archives[event] = self._tables.archives[event]._replace(folder=folder)
        return bool(found)
