"""Which heads the log is held against, and what a verification of it all, of a range or of one job comes to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...domain.errors import SignatureError
from . import check as whole
from . import part
from .heads import stored_heads
from .notes import SignedHead
from .report import KnownHead, Report

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from ...eventstore.store import Store
    from .notes import Verifier

_HEADS: Final = 1000  #: heads of the database that are held against the log


def check(
    store: Store,
    kept: Sequence[SignedHead] = (),
    verifier: Verifier | None = None,
    *,
    job: UUID | None = None,
    first: int | None = None,
    last: int | None = None,
    report: Callable[[int, int], None] = lambda _done, _end: None,
) -> Report:
    """Hold the log against its tree, the heads beside it and those *kept* elsewhere; false signatures are findings."""
    known, forged = known_heads(store, kept, verifier)
    if job is not None:
        made = part.check_job(store, job, known)
    elif first is not None or last is not None:
        made = part.check_range(store, first or 1, last or store.head(), known)
    else:
        made = whole.check_log(store, known, report=report)
    made.known = max((one.head.size for one in known), default=made.tree)
    for text in forged:
        made.add("signature", 0, 0, text)
    return made


def known_heads(
    store: Store, kept: Sequence[SignedHead], verifier: Verifier | None
) -> tuple[list[KnownHead], list[str]]:
    """The heads to hold the log against, and what is said of those whose signature does not hold."""
    stored = thinned(stored_heads(store))
    return judged([*(("kept", one) for one in kept), *(("stored", one) for one in stored)], verifier)


def thinned(heads: Sequence[SignedHead]) -> Sequence[SignedHead]:
    """Not too many of them, the newest among them: it speaks for all that were signed before it."""
    step = max(-(-len(heads) // _HEADS), 1)
    return heads[::-1][::step][::-1]


def judged(heads: Sequence[tuple[str, SignedHead]], verifier: Verifier | None) -> tuple[list[KnownHead], list[str]]:
    """Check signatures where there is a key.  Without one, a head is as good as the place where it was kept."""
    known: list[KnownHead] = []
    forged: list[str] = []
    for source, signed in heads:
        try:
            if verifier is not None:
                verifier.opened(signed.note)
        except SignatureError as error:
            forged.append(f"{source}: {error}")
        else:
            known.append(KnownHead(signed.head, source, is_trusted=source == "kept" or verifier is not None))
    return known, forged
