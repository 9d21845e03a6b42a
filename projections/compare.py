"""What is derived, held against the log: one document, whichever projection it is, for whoever asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from . import verify
from .rebuild import Progress
from .view_verify import verify as verify_view
from .views import VIEWS

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..eventstore.mapper import OrjsonMapper
    from ..eventstore.store import Store
    from .view_verify import RowDifference

    Report = Callable[[Progress], None]

JOBS: Final = "jobs"
TOLD: Final = 100  #: differences that are told; the others are counted


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
    count = jobs = 0

    def passed(position: int, found: int) -> None:
        nonlocal jobs
        jobs += found
        report(Progress(position, max(store.head(), position)))

    for one in verify.row_differences(store, mapper, units=units, passed=passed):
        count += 1
        if len(told) < TOLD:
            sides = {"stored": _plain(one.stored), "log": _plain(one.folded)}
            told.append({"job": str(one.job_id), "what": one.what} | sides)
    return {"name": JOBS, "position": store.head(), "rows": jobs, "differences": count, "items": told}


def _row(row: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if row is None else {str(name): _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, int) else str(value)  # names of columns are no plain text
