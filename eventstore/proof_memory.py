"""The tree, its heads and the feed's consumers of a log in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .failpoint import failpoint
from .memory_archives import entry_of
from .store import ConflictError, Reading

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from .memory_store import MemoryStore
    from .proof_rows import ConsumerRow, HeadRow
    from .store import LoggedEvent


class MemoryProofs:
    """See ``ProofRows``."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._tiles = store.tables.tiles
        self._heads: dict[tuple[int, int], HeadRow] = {}
        self._consumers: dict[str, ConsumerRow] = {}
        self._size = 0

    def entries(self, after: int, limit: int, upto: int, reading: Reading = Reading.CHECKED) -> list[Any]:
        """See ``ProofRows``."""
        return [entry_of(event) for event in self._store.log(after, limit, upto=upto, reading=reading)]

    def stream_entries(self, stream_id: UUID, after: int, limit: int, reading: Reading = Reading.CHECKED) -> list[Any]:
        """See ``ProofRows``."""
        found = self._store.stream_log(stream_id, 0, 2**62, reading)
        return [entry_of(event) for event in found if event.version > after][:limit]

    def stream_log(
        self, stream_id: UUID, after: int, upto: int, limit: int, reading: Reading = Reading.CHECKED
    ) -> list[LoggedEvent]:
        """See ``ProofRows``."""
        return self._store.stream_log(stream_id, after, upto, reading)[:limit]

    def broken_streams(self, limit: int) -> list[tuple[int, UUID]]:
        """See ``ProofRows``."""
        del limit
        return []

    def strays(self, limit: int) -> list[int]:
        """See ``ProofRows``."""
        del limit
        return []

    def tree_size(self) -> int:
        """See ``ProofRows``."""
        return self._size

    def tile(self, level: int, number: int) -> bytes:
        """See ``ProofRows``."""
        return self._tiles.get((level, number), b"")

    def tiles(self, level: int, first: int, last: int) -> dict[int, bytes]:
        """See ``ProofRows``."""
        return {n: self._tiles[level, n] for n in range(first, last + 1) if (level, n) in self._tiles}

    def grow(self, old: int, new: int, tiles: Mapping[tuple[int, int], bytes]) -> None:
        """See ``ProofRows``."""
        failpoint("tree.before")
        if self._size != old:
            raise ConflictError(f"the tree is not at {old} any more")
        self._tiles.update(tiles)
        self._size = new
        failpoint("tree.after")

    def heads(self) -> list[HeadRow]:
        """See ``ProofRows``."""
        return [self._heads[name] for name in sorted(self._heads)]

    def last_head(self) -> HeadRow | None:
        """See ``ProofRows``."""
        return self._heads[max(self._heads)] if self._heads else None

    def put_head(self, head: HeadRow) -> None:
        """See ``ProofRows``."""
        self._heads.setdefault(head[:2], head)

    def consumers(self) -> list[ConsumerRow]:
        """See ``ProofRows``."""
        return [self._consumers[name] for name in sorted(self._consumers)]

    def consumer(self, name: str) -> ConsumerRow | None:
        """See ``ProofRows``."""
        return self._consumers.get(name)

    def move_consumer(self, before: ConsumerRow | None, after: ConsumerRow) -> bool:
        """See ``ProofRows``."""
        there = self._consumers.get(after.name)
        if (there and there[:3]) != (before and before[:3]):
            return False
        self._consumers[after.name] = after
        return True

    def drop_consumer(self, name: str) -> bool:
        """See ``ProofRows``."""
        return self._consumers.pop(name, None) is not None
