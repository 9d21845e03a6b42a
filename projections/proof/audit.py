"""Reading that trusts nobody: each event is checked before it is taken, against a head that was signed.

The reader keeps its frontier, O(log n) hashes.  The database may lie in any way: it can only make the reader stop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...domain.errors import SignatureError, TamperedError
from ...eventstore.entries import Entry, leaf_of_row
from ...eventstore.proof_rows import proof_rows
from .heads import last_stored
from .proofs import consistency_proof, is_consistent
from .tiles import WIDTH
from .tree import stored_tree

if TYPE_CHECKING:
    from ...eventstore.store import Store
    from .merkle import Frontier
    from .notes import Head, Verifier
    from .tiles import TiledTree

PAGE: Final = 500


def next_entries(store: Store, frontier: Frontier, verifier: Verifier, *, limit: int = PAGE) -> list[Entry]:
    """The next events that a signed head covers; *frontier* moves behind them.  Empty if there are none yet.

    Raises:
        TamperedError: something is not as signed; nothing was taken, and *frontier* has not moved.
    """
    done = frontier.size
    head = _newest_head(store, verifier)
    if head is None and not done:
        return []
    if head is None or head.size < done:
        at = head.size if head else 0
        raise TamperedError(
            done, f"{done} events were signed and taken, the newest head is at {at}: the log was put back"
        )
    tree, upto = stored_tree(store), min(done + limit, head.size)
    leaves = _leaves(tree, done, upto)
    moved = frontier.copy()
    for leaf in leaves:
        moved.add(leaf)
    try:
        proof = consistency_proof(tree, upto, head.size)
    except IndexError:  # there is no such tree
        proof = []
    if len(leaves) < upto - done or not is_consistent(upto, head.size, moved.root(), head.root, proof):
        text = f"the log does not go on behind {done} as the head at {head.size} says"
        raise TamperedError(done + 1, text)
    entries = proof_rows(store).entries(done, limit, upto)
    _compare(entries, leaves, done)
    frontier.size, frontier.hashes = moved.size, moved.hashes
    return [Entry(*entry) for entry in entries]


def _newest_head(store: Store, verifier: Verifier) -> Head | None:
    """The head that covers most, in the newest epoch."""
    newest = last_stored(store)
    if newest is None:
        return None
    try:
        return verifier.opened(newest.note).head
    except SignatureError as error:
        raise TamperedError(newest.head.size, str(error)) from error


def _leaves(tree: TiledTree, done: int, upto: int) -> list[bytes]:
    found: list[bytes] = []
    for number in range(done // WIDTH, (upto - 1) // WIDTH + 1):
        found += tree.hashes(0, number)
    first = done - done // WIDTH * WIDTH
    return found[first : first + upto - done]


def _compare(entries: list[Any], leaves: list[bytes], done: int) -> None:
    """Each event under its leaf, which is proven by now: so the first that differs is known."""
    for position, leaf in enumerate(leaves, done + 1):
        entry = entries[position - done - 1] if position - done <= len(entries) else None
        if entry is None or entry[0] != position:
            raise TamperedError(position, f"position {position} is not there any more")
        if leaf_of_row(entry) != leaf:
            raise TamperedError(position, f"position {position} is not what was signed")
