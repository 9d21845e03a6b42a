"""What `doctor` says of the evidence: tree, heads and consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...eventstore.archive_rows import archive_rows
from ...eventstore.proof_rows import proof_rows
from ..text import clean, counted, span
from .checks import Check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...workers.commands.log import JobLog

_FEW: Final = 5  #: names that are told
_OLD: Final = 86_400.0  #: seconds that events may go unsigned where heads are signed at all


def of_evidence(log: JobLog) -> Iterator[Check]:
    """Whether somebody could tell that the log was changed."""
    rows, head = proof_rows(log.store), log.store.head()
    size = rows.tree_size()
    if size > head:
        hint = "events are gone: see `joblog verify`; if the log was restored on purpose, `joblog epoch raise`"
        yield Check("tree", "fail", f"the tree has seen {size:,} events, the log ends at {head:,}", hint)
    else:
        yield Check("tree", "ok", f"{counted(head - size, 'event')} not yet in the tree of hashes")
    yield _of_heads(log, head)
    yield _of_consumers(log)
    yield _of_archives(log)


def _of_heads(log: JobLog, head: int) -> Check:
    last = proof_rows(log.store).last_head()
    if last is None:
        return Check(
            "heads", "ok", "nothing is signed; `joblog heads keygen` and `joblog heads sign` would make it evidence"
        )
    age, unsigned = (log.store.now() - last.signed_at) / 1_000_000, max(head - last.size, 0)
    text = f"{counted(unsigned, 'event')} not yet signed, the last head was {span(max(age, 0.0))} ago"
    if unsigned and age > _OLD:
        return Check("heads", "warn", text, "does `joblog heads sign --every …` still run?")
    return Check("heads", "ok", text)


def _of_consumers(log: JobLog) -> Check:
    from ...projections.feed.consumers import lags

    found = lags(log.store)
    rewound = [clean(lag.name) for lag in found if lag.is_rewound]
    if rewound:
        hint = "the log was put back; `joblog consumers rejoin NAME` lets one go on"
        return Check("consumers", "warn", f"of an older log: {', '.join(rewound)}", hint)
    far = max((lag.behind for lag in found), default=0)
    return Check("consumers", "ok", f"{counted(len(found), 'consumer')}, at most {counted(far, 'event')} behind")


def _of_archives(log: JobLog) -> Check:
    """Nobody misses an archive before somebody asks for what is in it."""
    found, files = archive_rows(log.store).archives(), log.store.bodies.files
    away = [clean(archive.name) for archive in found if files.find(archive) is None]
    if away:
        hint = "put the files back, or say where they are: --archives DIR, JOBLOG_ARCHIVES"
        return Check("archives", "warn", f"not at hand: {', '.join(away[:_FEW])}", hint)
    return Check("archives", "ok", f"{counted(len(found), 'archive')}, all at hand" if found else "nothing is archived")
