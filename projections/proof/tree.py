"""The tree follows the log: built beside it, batch by batch, each committed with its position.

Any number of processes may build at once: what they write is the same, and only one moves the tree on.  What a leaf said
when it was first seen stays, whatever becomes of the event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import orjson

from ...domain.errors import CorruptLogError
from ...domain.identity import LOG_STREAM
from ...domain.log_events import EpochRaised
from ...eventstore.entries import leaf_hash
from ...eventstore.proof_rows import proof_rows
from ...eventstore.store import ConflictError
from .tiles import GrowingTree, TiledTree

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...eventstore.store import Store

_EPOCHS: Final = 10_000  #: events of the log's own stream that are looked at
BATCH: Final = 4096  #: events a transaction


def build(
    store: Store, *, most: int | None = None, report: Callable[[int, int], None] = lambda _position, _head: None
) -> int:
    """Bring the tree to the end of the log, or *most* events further; returns its size.

    Raises:
        CorruptLogError: a position is missing, or the log ends before the tree does.
    """
    rows = proof_rows(store)
    size, head = rows.tree_size(), store.head()
    if head < size:
        raise CorruptLogError(f"the log ends at {head}, the tree has seen {size} events; see `joblog verify`")
    tree, goal = GrowingTree(size, rows.tile), head if most is None else min(size + most, head)
    while tree.size < goal:
        size = tree.size
        batch = rows.entries(size, BATCH, goal)
        for position, entry in enumerate(batch, size + 1):
            if entry[0] != position:
                raise CorruptLogError(f"position {position} is missing; see `joblog verify`")
        if not batch:
            raise CorruptLogError(f"position {size + 1} is missing; see `joblog verify`")
        tree.extend([leaf_hash(entry) for entry in batch])
        try:
            rows.grow(size, tree.size, tree.changed)
        except ConflictError:  # another process was quicker: go on behind it
            tree = GrowingTree(rows.tree_size(), rows.tile)
        tree.changed.clear()
        report(tree.size, head)
    return tree.size


def stored_tree(store: Store) -> TiledTree:
    """The tree as it is stored, for proofs."""
    rows = proof_rows(store)
    return TiledTree(rows.tree_size(), rows.tile)


def given_up_behind(store: Store, epoch: int) -> int | None:
    """The last position that later epochs took over from *epoch*; None while it is the log's."""
    rows = proof_rows(store).stream_entries(LOG_STREAM, 0, _EPOCHS)
    raised = [entry for entry in rows if bytes(entry[3]).decode() == EpochRaised.TOPIC]
    return min((entry[0] - 1 for entry in raised if orjson.loads(entry[4])["epoch"] > epoch), default=None)
