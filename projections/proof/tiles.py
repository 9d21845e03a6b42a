"""The tree as it is stored: in tiles of up to 256 hashes, as C2SP tlog-tiles has them.

The tile (level, number) holds the roots of subtrees of 256**level leaves.  Only the last tile of a level is not full, so
the tree grows by rewriting a few tiles, and all its nodes can be worked out from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .merkle import folded, joined
from .proofs import range_root, subtrees

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WIDTH: Final = 256  #: hashes of a full tile
HASH: Final = 32
_BITS: Final = 8

TileId = tuple[int, int]  #: level, number


def split(tile: bytes) -> list[bytes]:
    """The hashes of a tile."""
    return [tile[i : i + HASH] for i in range(0, len(tile), HASH)]


class TiledTree:
    """Any node of a stored tree of *size* leaves."""

    def __init__(self, size: int, tile: Callable[[int, int], bytes]) -> None:
        self.size = size
        self._tile = tile
        self._kept: dict[TileId, list[bytes]] = {}

    def hashes(self, level: int, number: int) -> list[bytes]:
        """The hashes of one tile; those that were read last are kept."""
        found = self._kept.get((level, number))
        if found is None:
            if len(self._kept) > WIDTH:
                self._kept.clear()
            found = self._kept[level, number] = split(self._tile(level, number))
        return found

    def node(self, level: int, index: int) -> bytes:
        """See ``Nodes``."""
        tile_level, above = divmod(level, _BITS)
        first = index << above
        number, offset = divmod(first, WIDTH)
        return folded(self.hashes(tile_level, number)[offset : offset + (1 << above)])

    def root(self, size: int | None = None) -> bytes:
        """The root over the first *size* leaves, or all."""
        return range_root(self, 0, self.size if size is None else size)

    def frontier(self, size: int) -> list[bytes]:
        """The subtrees that the first *size* leaves come down to."""
        return [self.node(level, index) for level, index in subtrees(0, size)]


class GrowingTree:
    """The right edge of a tree: takes leaves at its end, and tells which tiles that changes."""

    def __init__(self, size: int = 0, tile: Callable[[int, int], bytes] = lambda _level, _number: b"") -> None:
        self.size = size
        self.changed: dict[TileId, bytes] = {}  #: tiles that are other than when they were read
        self._levels: list[list[bytes]] = []
        count = size
        while count:
            number, some = divmod(count, WIDTH)
            self._levels.append(split(tile(len(self._levels), number)) if some else [])
            count = number

    def copy(self) -> GrowingTree:
        """The same tree, to go on with differently."""
        made = GrowingTree()
        made.size, made._levels = self.size, [list(level) for level in self._levels]
        return made

    def extend(self, leaves: Sequence[bytes]) -> None:
        """Put *leaves* at the end."""
        done = 0
        while done < len(leaves):
            if not self._levels:
                self._levels.append([])
            some = leaves[done : done + WIDTH - len(self._levels[0])]
            self._levels[0] += some
            done += len(some)
            self.size += len(some)
            self._close_full(0)
        self._note_edge()

    def _close_full(self, level: int) -> None:
        """A full tile is done: its root is the next hash of the level above."""
        hashes = self._levels[level]
        if len(hashes) < WIDTH:
            return
        self.changed[level, (self.size >> (_BITS * level)) // WIDTH - 1] = b"".join(hashes)
        self._levels[level] = []
        if len(self._levels) == level + 1:
            self._levels.append([])
        self._levels[level + 1].append(folded(hashes))
        self._close_full(level + 1)

    def _note_edge(self) -> None:
        for level, hashes in enumerate(self._levels):
            if hashes:
                self.changed[level, (self.size >> (_BITS * level)) // WIDTH] = b"".join(hashes)

    def root(self) -> bytes:
        """The root of all leaves."""
        found: list[bytes] = []
        for hashes in reversed(self._levels):
            done = 0
            while done < len(hashes):
                wide = 1 << ((len(hashes) - done).bit_length() - 1)
                found.append(folded(hashes[done : done + wide]))
                done += wide
        return joined(found)
