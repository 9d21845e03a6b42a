"""How much of a job is done, of how much, in what: units where the total is known, rows where a file is read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ..eventstore.store import JobRow
    from ..workers.commands.log import JobLog


class Measure(NamedTuple):
    """What a progress line shows."""

    done: int
    total: int | None
    noun: str
    is_estimate: bool = False  #: the total is told by how far the file's bytes are read


class Measuring:
    """Measures one job again and again; what never changes is read once."""

    def __init__(self, log: JobLog) -> None:
        self._log = log
        self._plan: dict[str, Any] | None = None

    def of(self, row: JobRow) -> Measure:
        """Where the job stands."""
        if row["total"] is None and (place := _place(row["cursor"])) is not None:
            return Measure(place["row"], *self._estimate(row, place))
        return Measure(row["done"] + row["skipped"], row["total"], "unit")

    def _estimate(self, row: JobRow, place: dict[str, int]) -> tuple[int | None, str, bool]:
        plan = self._plan_of(row)
        total, start = plan.get("total"), (plan.get("start") or {}).get("offset", 0)
        read = place["offset"] - start
        if not isinstance(total, int) or read <= 0:
            return None, "row", False
        if place["offset"] >= total:
            return place["row"], "row", False
        return max(round(place["row"] * (total - start) / read), place["row"]), "row", True

    def _plan_of(self, row: JobRow) -> dict[str, Any]:
        """What the first step of an import found out about its file."""
        if self._plan is None:
            from ..eventstore.mapper import evidence_of

            state = self._log.store.unit_states(row["id"], ["step:plan"]).get("step:plan")
            plan = None if state is None else evidence_of(state)
            self._plan = plan if isinstance(plan, dict) else {}
        return self._plan


def _place(cursor: str | None) -> dict[str, int] | None:
    """The place in a file that a checkpoint names, if it names one."""
    marks = json.loads(cursor) if cursor else None
    for name, mark in marks.items() if isinstance(marks, dict) else ():
        place = mark[1] if name.startswith("b:") and isinstance(mark, list) else None
        if isinstance(place, dict) and {"row", "offset"} <= place.keys():
            return place
    return None
