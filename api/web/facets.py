"""Beside the table of jobs: how many stand under each state, kind and queue; from the counters, nothing is counted here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlencode

from ...domain.status import Status
from ...projections import queries

if TYPE_CHECKING:
    from ..http.route import Call

_NAMES: Final = ("status", "kind", "queue")
_SHOWN: Final = 12  #: values of one


class Value(NamedTuple):
    """One that a job may have, with the list that it leads to."""

    value: str
    jobs: int | None  #: None: not counted here
    url: str
    is_on: bool


class Facet(NamedTuple):
    """All values of one property."""

    name: str
    values: list[Value]
    more: int


class Facets(NamedTuple):
    """Beside one list."""

    all: list[Facet]
    total: int | None  #: jobs under all filters


def url(filters: dict[str, Any], **more: Any) -> str:
    """The list with these filters."""
    kept = {name: value for name, value in {**filters, **more}.items() if value}
    return f"/jobs?{urlencode(kept)}" if kept else "/jobs"


def facets(call: Call, filters: dict[str, Any]) -> Facets:
    """How many there are under each value, the other filters as they are.  Jobs of one owner, and the past, are not counted."""
    at, owner = call.query.at, filters.get("owner")
    narrow = {name: filters.get(name) for name in (*_NAMES, "tenant")}
    made: list[Facet] = []
    total = 0
    for name in _NAMES:
        others = narrow if owner is None and not at else {"tenant": narrow["tenant"]}
        others = {other: value for other, value in others.items() if other != name}
        found = {key[0]: jobs for key, jobs in queries.counters(call.log.store, by=(name,), **others).items()}
        if name == "status":
            total = found.get(filters["status"], 0) if filters.get("status") else sum(found.values())
            found = {one.value: found.get(one.value, 0) for one in Status}
        on = filters.get(name)
        if on is not None and on not in found:
            found[on] = 0
        order = list(found) if name == "status" else sorted(found, key=lambda one: (-found[one], one))
        shown = order[:_SHOWN] if on is None or on in order[:_SHOWN] else [*order[:_SHOWN], on]
        is_told = owner is None and not at
        values = [
            Value(
                one,
                found[one] if is_told else None,
                url(_own(call, filters), at=at, **{name: None if one == on else one}),
                one == on,
            )
            for one in shown
        ]
        made.append(Facet(name, values, len(order) - len(shown)))
    return Facets(made, total if owner is None and not at else None)


def _own(call: Call, filters: dict[str, Any]) -> dict[str, Any]:
    """The filters without those that who asks is bound to anyway."""
    who = call.principal
    return {
        name: value
        for name, value in filters.items()
        if not (name == "tenant" and who.tenant) and not (name == "owner" and who.owner)
    }
