"""Logs with signed heads, for the tests to break."""

from uuid import UUID

from joblog.eventstore.proof_rows import proof_rows
from joblog.eventstore.store import Store
from joblog.projections.proof.heads import sign
from joblog.projections.proof.notes import Signer, parsed
from joblog.projections.proof.report import KnownHead
from joblog.workers.commands.log import JobLog
from tests.conformance.builders import an_append, stored

SIGNER = Signer("log.example", bytes(range(32)))


def grow(log: JobLog, count: int, *, size: int = 1) -> None:
    """Append so many events, *size* to a stream."""
    appends = [an_append(UUID(int=log.store.head() + n + 1), size=size) for n in range(0, count, size)]
    for answer in log.writer.append_many(appends):
        stored(answer)


def grow_and_sign(log: JobLog, *sizes: int) -> list[KnownHead]:
    """Let the log grow to each of *sizes*, and sign it there; returns the heads as a consumer has kept them."""
    kept = []
    for size in sizes:
        grow(log, size - log.store.head())
        signing = sign(log.store, SIGNER, None)
        assert signing is not None
        assert signing.is_new
        kept.append(KnownHead(signing.signed.head, "kept", is_trusted=True))
    return kept


def known(store: Store) -> list[KnownHead]:
    """The heads that lie in the database, their signatures checked."""
    notes = [row.note for row in proof_rows(store).heads()]
    for note in notes:
        SIGNER.verifier.opened(note)
    return [KnownHead(parsed(note)[0], "stored", is_trusted=True) for note in notes]
