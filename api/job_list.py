"""Pages of the job table by keyset: the same for the command line, HTTP and the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from ..eventstore import inspection
from . import shapes
from .cursors import Place, decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..eventstore.store import JobRow, Store
    from ..workers.commands.log import JobLog

    Key = tuple[int, UUID]
    Page = tuple[list[JobRow], Key | None]

_ALIKE: Final = 200  #: jobs whose ids begin alike that are looked at
_SEVERAL: Final = 2
_LOOKS: Final = 400  #: jobs that are looked at by each filter for one page, at most
_LOOKS_EACH: Final = 16  #: for each row of it
_FEWEST: Final = 100
_TRIED: Final = 3
_LAST: Final = 2**128 - 1
_ORDER: Final = ("owner", "kind", "tenant", "queue")
_COMMON: Final = ("completed", "queued")


class JobPage:
    """One page of jobs, newest first, with the places of its neighbours.

    Under several filters at once a page may hold fewer rows than were asked for, or none, and still have a next one: so
    many jobs are looked at for it and no more.
    """

    def __init__(
        self, log: JobLog, filters: dict[str, Any], *, limit: int, cursor: str = "", after: JobRow | None = None
    ) -> None:
        self.filters, self.limit = filters, limit
        place = decode(cursor, filters) if cursor else None
        edge = (place.at, place.id) if place else None if after is None else _key(after)
        back = place is not None and place.back
        wanted = {name: value for name, value in filters.items() if value is not None}
        find = _find if len(wanted) < _SEVERAL else _look
        found, end = find(log.store, wanted, edge, back=back, limit=limit)
        self.rows = found[::-1] if back else found
        onward = None if end is None else self._place(end, back=back)
        returning = None
        if edge is not None:
            returning = self._place(_key(found[0]) if found else _beside(edge, back=back), back=not back)
        self.next, self.previous = (returning, onward) if back else (onward, returning)

    def _place(self, key: Key, *, back: bool) -> str:
        return encode(Place(*key, back), self.filters)

    def document(self, position: int) -> dict[str, Any]:
        """The page at a position of the log."""
        return {"items": [shapes.of_row(row) for row in self.rows], "next": self.next, "position": position}


def _key(row: JobRow) -> Key:
    return row["created_at"], row["id"]


def _beside(edge: Key, *, back: bool) -> Key:
    """Where to go back from when nothing was found behind *edge*: so that its own row comes again."""
    return edge[0], UUID(int=min(edge[1].int + 1, _LAST) if back else max(edge[1].int - 1, 0))


def _find(store: Store, wanted: dict[str, str], edge: Key | None, *, back: bool, limit: int) -> Page:
    """The next rows under one filter or none, in the order of reading; and where the page ends, if more follow."""
    before, after = (None, edge) if back else (edge, None)
    found = store.find_jobs(**wanted, before=before, after=after, limit=limit + 1)
    read = found[::-1] if back else found
    return read[:limit], _key(read[limit - 1]) if len(read) > limit else None


def _look(store: Store, wanted: dict[str, str], edge: Key | None, *, back: bool, limit: int) -> Page:
    """The same under several: by whichever of them reaches furthest, as that is the one that few jobs have."""
    ids: list[UUID] = []
    end: Key | None = None
    looks = min(_LOOKS, max(_LOOKS_EACH * limit, _FEWEST))
    for by in _drivers(wanted):
        seen = inspection.look(store, by, wanted, edge=edge, back=back, limit=looks)
        fitting = [one for one in seen if one.fits]
        if len(fitting) > limit:
            ids, end = [one.id for one in fitting[:limit]], fitting[limit - 1][:2]
            break
        reached = seen[-1][:2] if len(seen) == looks else None
        if end is None or reached is None or (reached > end if back else reached < end):
            ids, end = [one.id for one in fitting], reached
        if reached is None:
            break
    rows = store.jobs(ids)
    kept = [rows[one] for one in ids if one in rows]
    return [row for row in kept if all(row[name] == value for name, value in wanted.items())], end


def _drivers(wanted: dict[str, str]) -> list[str]:
    """The filters whose indexes are tried, the most telling first, as far as one can tell without counting."""
    common = wanted.get("status") in _COMMON
    order = [*_ORDER, "status"] if common else ["status", *_ORDER]
    return [name for name in order if wanted.get(name)][:_TRIED]


def beginning(log: JobLog, digits: str, sees: Callable[[JobRow], bool], *, limit: int) -> list[JobRow]:
    """The jobs of those that one may see whose ids begin so."""
    ids: list[UUID] = inspection.jobs_beginning(log.store, digits, limit=_ALIKE)
    rows = log.store.jobs(ids)
    return [rows[one] for one in ids if one in rows and sees(rows[one])][:limit]
