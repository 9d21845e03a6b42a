"""Proofs: that a leaf is in a tree, and that one tree is the beginning of another (RFC 9162, 2.1.3 and 2.1.4).

Whoever makes them has the nodes; whoever checks them needs roots only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from .merkle import joined, node_hash

if TYPE_CHECKING:
    from collections.abc import Sequence


class Nodes(Protocol):
    """A tree whose perfect subtrees can be asked for."""

    def node(self, level: int, index: int) -> bytes:
        """The root of the *index*-th subtree of 2**level leaves."""


def subtrees(first: int, end: int) -> list[tuple[int, int]]:
    """The perfect subtrees (level, index) that cover the leaves from *first* to before *end*, from left to right."""
    found: list[tuple[int, int]] = []
    while first < end:
        fits = (end - first).bit_length() - 1
        level = min((first & -first).bit_length() - 1, fits) if first else fits
        found.append((level, first >> level))
        first += 1 << level
    return found


def range_root(nodes: Nodes, first: int, end: int) -> bytes:
    """The root over the leaves from *first* to before *end*, where *first* is a beginning of a subtree so long."""
    return joined([nodes.node(level, index) for level, index in subtrees(first, end)])


def _split(count: int) -> int:
    """The biggest power of two below *count*."""
    return 1 << ((count - 1).bit_length() - 1)


def inclusion_proof(nodes: Nodes, index: int, size: int) -> list[bytes]:
    """The hashes that lead from leaf *index* to the root of the first *size* leaves."""
    first, end, proof = 0, size, []
    while end - first > 1:
        middle = first + _split(end - first)
        if index < middle:
            proof.append(range_root(nodes, middle, end))
            end = middle
        else:
            proof.append(range_root(nodes, first, middle))
            first = middle
    return proof[::-1]


def consistency_proof(nodes: Nodes, old: int, new: int) -> list[bytes]:
    """The hashes that show the tree of *old* leaves to be the beginning of that of *new* ones."""
    if not 0 < old < new:
        return []
    first, end, proof = 0, new, []
    while old < end:
        middle = first + _split(end - first)
        if old <= middle:
            proof.append(range_root(nodes, middle, end))
            end = middle
        else:
            proof.append(range_root(nodes, first, middle))
            first = middle
    if first:  # else the old root is a node of the new tree, and known to who checks
        proof.append(range_root(nodes, first, end))
    return proof[::-1]


def is_included(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Whether *leaf* is leaf *index* of the tree of *size* leaves under *root*."""
    if not 0 <= index < size:
        return False
    at, last, found = index, size - 1, leaf
    for step in proof:
        if last == 0:
            return False
        if at & 1 or at == last:
            found = node_hash(step, found)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            found = node_hash(found, step)
        at, last = at >> 1, last >> 1
    return last == 0 and found == root


def is_consistent(old: int, new: int, old_root: bytes, new_root: bytes, proof: Sequence[bytes]) -> bool:
    """Whether the tree of *old* leaves under *old_root* is the beginning of that of *new* ones under *new_root*."""
    if old > new or (old in {0, new} and proof):
        return False
    if old in {0, new}:
        return old == 0 or old_root == new_root
    path = list(proof) if old & (old - 1) else [old_root, *proof]
    if not path:
        return False
    at, last = old - 1, new - 1
    while at & 1:
        at, last = at >> 1, last >> 1
    of_old = of_new = path[0]
    for step in path[1:]:
        if last == 0:
            return False
        if at & 1 or at == last:
            of_old, of_new = node_hash(step, of_old), node_hash(step, of_new)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            of_new = node_hash(of_new, step)
        at, last = at >> 1, last >> 1
    return last == 0 and of_old == old_root and of_new == new_root
