"""The hashes: nodes above the leaves, and the few of them that a tree of any size comes down to (RFC 6962, RFC 9162).

A leaf (``eventstore.entries``) is made of exactly what is stored, and of its position: nothing of an event can change, move
or be missing without another root.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

EMPTY: Final = sha256(b"").digest()  #: the root of a tree without leaves


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of two subtrees."""
    return sha256(b"\x01" + left + right).digest()


def folded(hashes: Sequence[bytes]) -> bytes:
    """The root of a perfect tree: of 1, 2, 4, ... hashes."""
    while len(hashes) > 1:
        hashes = [sha256(b"\x01" + hashes[i] + hashes[i + 1]).digest() for i in range(0, len(hashes), 2)]
    return hashes[0]


def joined(subtrees: Sequence[bytes]) -> bytes:
    """The root of perfect subtrees that stand side by side, the biggest first."""
    if not subtrees:
        return EMPTY
    root = subtrees[-1]
    for left in reversed(subtrees[:-1]):
        root = node_hash(left, root)
    return root


class Frontier:
    """All that must be kept of a tree to go on with it: one hash for each 1 in the binary form of its size."""

    def __init__(self, size: int = 0, hashes: Iterable[bytes] = ()) -> None:
        self.size, self.hashes = size, list(hashes)
        if len(self.hashes) != size.bit_count():
            raise ValueError(f"a tree of {size} leaves comes down to {size.bit_count()} hashes, not {len(self.hashes)}")

    def add(self, leaf: bytes) -> None:
        """Put one more leaf at the end."""
        hashes, size = self.hashes, self.size
        while size & 1:
            leaf = node_hash(hashes.pop(), leaf)
            size >>= 1
        hashes.append(leaf)
        self.size += 1

    def root(self) -> bytes:
        """The root of what was added."""
        return joined(self.hashes)

    def copy(self) -> Frontier:
        """The same tree, to go on with differently."""
        return Frontier(self.size, self.hashes)
