"""What is derived, held against the log: one document, whichever projection it is, for whoever asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ..domain.events import Submitted
from . import verify
from .rebuild import Progress
from .view_verify import verify as verify_view
from .views import VIEWS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..eventstore.mapper import OrjsonMapper
    from ..eventstore.store import Store
    from .verify import Difference
    from .view_verify import RowDifference

    Report = Callable[[Progress], None]

JOBS: Final = "jobs"
TOLD: Final = 100  #: differences that are told; the others are counted
_PAGE: Final = 500


def compare(
    store: Store, mapper: OrjsonMapper, name: str, *, units: bool, report: Report = lambda _: None
) -> dict[str, Any]:
    """Fold the log again, and compare every row of *name* with what it makes; the first differences are told.

    *units*: of the job table, also every stored unit result with its event.
    """
    if name == JOBS:
        return _jobs(store, mapper, units=units, report=report)
    told: list[dict[str, Any]] = []

    def tell(one: RowDifference) -> None:
        if len(told) < TOLD:
            key = [_plain(part) for part in one.key]
            sides = {"stored": _row(one.stored), "log": _row(one.folded)}
            told.append({"table": str(one.table), "key": key, "columns": [str(name) for name in one.columns]} | sides)

    made = verify_view(store, mapper, VIEWS[name], report=report, found=tell)
    return {"name": name, **made._asdict(), "items": told}


def _jobs(store: Store, mapper: OrjsonMapper, *, units: bool, report: Report) -> dict[str, Any]:
    told: list[dict[str, Any]] = []
    jobs, count = [0], 0
    for one in _differences(store, mapper, jobs, units=units, report=report):
        count += 1
        if len(told) < TOLD:
            sides = {"stored": _plain(one.stored), "log": _plain(one.folded)}
            told.append({"job": str(one.job_id), "what": one.what} | sides)
    return {"name": JOBS, "position": store.head(), "rows": jobs[0], "differences": count, "items": told}


def _differences(
    store: Store, mapper: OrjsonMapper, jobs: list[int], *, units: bool, report: Report
) -> Iterator[Difference]:
    position, head = 0, store.head()
    while page := store.log(position, _PAGE, topics=(Submitted.TOPIC,)):
        for logged in page:
            row = store.job(logged.stream_id)
            if row is None:
                yield verify.Difference(logged.stream_id, "row", None, "a submitted job")
            else:
                yield from verify.compare_row(store, mapper, row)
            if units:
                yield from verify.unit_differences(store, mapper, logged.stream_id)
        position = page[-1].position
        jobs[0] += len(page)
        report(Progress(position, max(head, position)))


def _row(row: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if row is None else {str(name): _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, int) else str(value)  # names of columns are no plain text
