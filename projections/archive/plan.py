"""Which streams go into an archive: whole ones of jobs that ended for good, below a signed head."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ...domain import events as e
from ...domain.errors import HeadContradictedError, InvalidFieldError
from ...eventstore.archive_rows import archive_rows
from ..proof.heads import last_stored
from ..proof.tree import stored_tree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from ...eventstore.store import JobRow, Store
    from ..proof.notes import SignedHead, Verifier

MOST: Final = 10_000  #: events of an archive: it is emptied in one transaction under the log's lock
#: How a job ends for good, and the event that says so.  A failed one may be retried.
_FINAL: Final = {"completed": e.Completed.TOPIC, "cancelled": e.Cancelled.TOPIC}
_PAGE: Final = 500


class Plan(NamedTuple):
    """What an archive would hold."""

    head: SignedHead
    streams: list[UUID]
    positions: list[int]
    too_big: int  #: jobs that ended in time, and have more events than one archive may have
    left: bool  #: there is more for the next one


def plan(store: Store, before: int, most: int = MOST, verifier: Verifier | None = None) -> Plan:
    """The next streams that ended before the instant *before* and fit into *most* events.

    Raises:
        InvalidFieldError: nothing was signed in this epoch.
        SignatureError: the head was not signed under the key of *verifier*.
        HeadContradictedError: the tree is not what was signed.
    """
    head = _head(store)
    if verifier is not None:
        verifier.opened(head.note)
    streams: list[UUID] = []
    positions: list[int] = []
    too_big = 0
    for row in _ended(store, before):
        count = int(row["version"])
        if count > most:
            too_big += 1
            continue
        if len(positions) + count > most:
            return Plan(head, streams, sorted(positions), too_big, left=True)
        mine = archive_rows(store).places(row["id"])
        is_whole = [place.version for place in mine] == list(range(1, count + 1))
        if is_whole and mine[-1].topic == _FINAL[row["status"]] and mine[-1].position <= head.head.size:
            streams.append(row["id"])
            positions += [place.position for place in mine]
    return Plan(head, streams, sorted(positions), too_big, left=False)


def _head(store: Store) -> SignedHead:
    state, signed = store.state(), last_stored(store)
    if signed is None or signed.head.epoch != state.epoch or signed.head.store_id != state.store_id:
        text = f"nothing was signed in epoch {state.epoch}"
        raise InvalidFieldError("archive", text, "sign a head first: joblog heads sign")
    tree = stored_tree(store)
    if tree.size < signed.head.size or tree.root(signed.head.size) != signed.head.root:
        text = f"the tree is not what the head at {signed.head.size} says"
        raise HeadContradictedError(f"nothing was archived: {text}; see `joblog verify`")
    return signed


def _ended(store: Store, before: int) -> Iterator[JobRow]:
    """Jobs that ended before, in the order in which they were handed in."""
    rows = archive_rows(store)
    for status in _FINAL:
        after: tuple[int, UUID] | None = None
        while page := rows.ended(status, before, after, _PAGE):
            yield from page
            after = page[-1]["created_at"], page[-1]["id"]
