"""Pages of the job table by keyset: the same for the command line, HTTP and the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ..eventstore import inspection
from . import shapes
from .cursors import Place, decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from ..eventstore.store import JobRow
    from ..workers.commands.log import JobLog

_ALIKE: Final = 200  #: jobs whose ids begin alike that are looked at


class JobPage:
    """One page of jobs, newest first, with the places of its neighbours."""

    def __init__(
        self, log: JobLog, filters: dict[str, Any], *, limit: int, cursor: str = "", after: JobRow | None = None
    ) -> None:
        self.filters, self.limit = filters, limit
        place = decode(cursor, filters) if cursor else None
        edge = (place.at, place.id) if place else None if after is None else (after["created_at"], after["id"])
        back = place is not None and place.back
        before, behind = (None, edge) if back else (edge, None)
        found = log.store.find_jobs(**filters, before=before, after=behind, limit=limit + 1)
        over = len(found) > limit
        self.rows = found[1:] if over and back else found[:limit]
        has_next, has_previous = (True, over) if back else (over, edge is not None)
        self.next = self._place(self.rows[-1], back=False) if self.rows and has_next else None
        self.previous = self._place(self.rows[0], back=True) if self.rows and has_previous else None

    def _place(self, row: JobRow, *, back: bool) -> str:
        return encode(Place(row["created_at"], row["id"], back), self.filters)

    def document(self, position: int) -> dict[str, Any]:
        """The page at a position of the log."""
        return {"items": [shapes.of_row(row) for row in self.rows], "next": self.next, "position": position}


def beginning(log: JobLog, digits: str, sees: Callable[[JobRow], bool], *, limit: int) -> list[JobRow]:
    """The jobs of those that one may see whose ids begin so."""
    ids: list[UUID] = inspection.jobs_beginning(log.store, digits, limit=_ALIKE)
    rows = log.store.jobs(ids)
    return [rows[one] for one in ids if one in rows and sees(rows[one])][:limit]
