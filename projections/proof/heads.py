"""Signing: the log promises what it began with, and never promises anything else.

The signer remembers its heads in a file beside its key, so a database that was changed, or put back, contradicts them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

from ...domain.errors import HeadContradictedError
from ...eventstore.proof_rows import HeadRow, proof_rows
from .notes import Head, SignedHead, parsed, split_notes
from .part import check_range
from .tree import build, given_up_behind, stored_tree

if TYPE_CHECKING:
    from pathlib import Path
    from uuid import UUID

    from ...eventstore.store import Store
    from .notes import Signer
    from .tiles import TiledTree


_TAIL: Final = 1 << 16  #: bytes at the end of a file of heads that are read


class Signing(NamedTuple):
    """What signing came to: the newest head, and whether it is a new one."""

    signed: SignedHead
    is_new: bool


def kept_heads(path: Path) -> list[SignedHead]:
    """The heads that a file keeps, oldest first, unchecked; none if there is no file.

    Raises:
        SignatureError: it holds something else.
    """
    if not path.exists():
        return []
    return [SignedHead(parsed(note)[0], note) for note in split_notes(path.read_text(encoding="utf-8"))]


def last_kept(path: Path | None, store_id: UUID) -> SignedHead | None:
    """The newest head of one log in a file that may have grown for years: only its end is read."""
    if path is None or not path.exists():
        return None
    with path.open("rb") as file:
        start = max(file.seek(0, os.SEEK_END) - _TAIL, 0)
        file.seek(start)
        notes = split_notes(file.read().decode(errors="replace"))
    found = [SignedHead(parsed(note)[0], note) for note in notes[bool(start) :]]  # the first may be cut
    mine = [one for one in found if one.head.store_id == store_id]
    return max(mine, key=lambda one: one.head[1:3], default=None)


def last_stored(store: Store) -> SignedHead | None:
    """The newest head that lies in the database, unchecked."""
    row = proof_rows(store).last_head()
    return None if row is None else SignedHead(parsed(row.note)[0], row.note)


def stored_heads(store: Store) -> list[SignedHead]:
    """The heads that lie in the database, smallest first, unchecked."""
    return [SignedHead(parsed(row.note)[0], row.note) for row in proof_rows(store).heads()]


def sign(store: Store, signer: Signer, kept: Path | None) -> Signing | None:
    """Sign the log as it stands, if no head that was ever signed speaks against it; None while it is empty.

    Raises:
        HeadContradictedError: one does; nothing is signed, and somebody must look.
        CorruptLogError: events are missing.
    """
    size = build(store)
    if not size:
        return None
    state, tree = store.state(), stored_tree(store)
    # Each head was held against the one before it, so the newest speak for all.
    newest = last_kept(kept, state.store_id), last_stored(store)
    earlier = [one for one in newest if one is not None and one.head.store_id == state.store_id]
    head = Head(state.store_id, state.epoch, size, tree.root(size))
    _refuse_contradiction(store, earlier, head, tree)
    last = max((one.head.size for one in earlier), default=0)
    for finding in check_range(store, last + 1, size).findings:
        raise HeadContradictedError(f"nothing was signed: {finding.text}")
    signed = signer.sign(head)
    if kept is not None and (newest[0] is None or newest[0].note != signed.note):
        _keep(kept, signed)
    proof_rows(store).put_head(HeadRow(head.epoch, head.size, store.now(), signed.note))
    return Signing(signed, is_new=all(one.head != head for one in earlier))


def _refuse_contradiction(store: Store, earlier: list[SignedHead], now: Head, tree: TiledTree) -> None:
    for head, _ in earlier:
        if head.epoch < now.epoch:
            behind = given_up_behind(store, head.epoch)
            if behind is not None and head.size > behind:
                continue  # somebody has accepted, by a new epoch, that these events are gone
        if head.epoch > now.epoch or head.size > now.size:
            text = f"a head at {head.epoch}:{head.size} was signed, the log ends at {now.epoch}:{now.size}: it was put back"
            raise HeadContradictedError(f"nothing was signed: {text}")
        if tree.root(head.size) != head.root:
            text = f"the log does not begin any more as the head at {head.size} says"
            raise HeadContradictedError(f"nothing was signed: {text}; see `joblog verify --head FILE`")


def _keep(path: Path, signed: SignedHead) -> None:
    """Behind the others, on the disk before anybody else sees it."""
    with path.open("a", encoding="utf-8") as file:
        file.write(signed.note)
        file.flush()
        os.fsync(file.fileno())
