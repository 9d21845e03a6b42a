"""Archives as the log has them: each is recorded by an event, and what the log keeps of its events is what was recorded.

So nobody can pass an emptied body off as an archived one, and order, ids and versions are proven without the archive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

from ...domain.identity import LOG_STREAM
from ...domain.log_events import Archived
from ...eventstore.archive_rows import archive_rows
from ...eventstore.entries import rows_digest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ...eventstore.archive_files import ArchiveRow
    from ...eventstore.store import Store
    from .report import Report

_PAGE: Final = 5000


def judge_archives(store: Store, report: Report, names: Collection[str] | None = None) -> None:
    """Hold all archives, or those of *names*, against the events that record them."""
    for archive in archive_rows(store).archives():
        if names is not None and archive.name not in names:
            continue
        said = _said(store, archive)
        if said is None:
            text = f"{{at}}: no event records the archive {archive.name}"
        elif (said["events"], said["rows"]) != rows_digest(_rows(store, archive)):
            text = f"{{at}}: not the events that were put into archive {archive.name}"
        else:
            continue
        report.add("archive", archive.first, archive.last, text)


def _said(store: Store, archive: ArchiveRow) -> dict[str, Any] | None:
    """The event that records an archive, if it does."""
    found = store.log(archive.event - 1, 1)
    if not found or (found[0].position, found[0].topic, found[0].stream_id) != (
        archive.event,
        Archived.TOPIC,
        LOG_STREAM,
    ):
        return None
    said: dict[str, Any] = orjson.loads(found[0].state)
    row = archive._asdict()
    return said if all(said.get(name) == row[name] for name in ("name", "first", "last", "events", "digest")) else None


def _rows(store: Store, archive: ArchiveRow) -> Iterator[Any]:
    """What the log keeps of its events; one whose body is back is none of them."""
    after = 0
    while page := archive_rows(store).rows_of(archive, after, _PAGE):
        yield from (row for row in page if row[4] == b"" and row[1] is not None and row[3] is not None)
        after = page[-1][0]
