"""The security stream: what a guard refused or what touches everybody's rights, one row for each kind of problem.

A thousand refusals of the same kind are one row that says a thousand: what makes a row is the kind (category, action,
source, severity, refusal), never who did it or the text.  Any event whose topic begins with ``joblog.security.`` is
taken in, with whatever of these fields it has.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, uuid5

import orjson

from ..domain import addresses
from ..domain import log_events as le
from ..eventstore import mapper
from ..eventstore.view_schema import security_rows
from .view import View

if TYPE_CHECKING:
    from .view import Folded, Happened, State

PREFIX: Final = "joblog.security."
TALLIED: Final = 50  #: users and addresses that are named; the others are counted
DETAIL: Final = 500  #: characters
_KINDS: Final = UUID("9a1b0c4d-2f6e-4b7a-8c55-3d1e6f7a8b90")
_STEERS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_IDENTITY: Final = ("category", "action", "source", "severity", "refusal")


def _told(event: Any) -> dict[str, str]:
    """What the event says, as text, under the names of the columns."""
    if isinstance(event, le.EpochRaised):
        said: dict[str, Any] = {"category": "log", "action": "epoch-raised", "source": "admin", "severity": "warning"}
        said |= {"detail": event.reason, "actor": event.actor}
    else:
        said = vars(event)
    told = {name: str(said.get(name) or "") for name in (*_IDENTITY, "actor", "detail")}
    told["category"] = told["category"] or event.TOPIC.removeprefix(PREFIX)
    told["severity"] = told["severity"] or "warning"
    told["ipv4"], told["ipv6"] = addresses.split(str(said.get("address") or ""))
    told["detail"] = _STEERS.sub(" ", told["detail"])[:DETAIL]
    return told


def key(event: Any) -> UUID:
    """The kind of problem."""
    told = _told(event)
    return uuid5(_KINDS, orjson.dumps([told[name] for name in _IDENTITY]).decode())


def fold(state: State | None, happened: Happened) -> Folded:
    """Count it under its kind."""
    told, at = _told(happened.event), happened.at
    row: State = state or {"count": 0, "first_at": at, "actors": {}, "addresses": {}, "more_actors": 0}
    row = {"more_addresses": 0} | row | told
    more = getattr(happened.event, "missed", 0)  # as many came before this one, too fast to be written
    row |= {"count": row["count"] + 1 + more, "last_at": at, "last_position": happened.position}
    for names, others, name in (
        ("actors", "more_actors", told["actor"]),
        ("addresses", "more_addresses", told["ipv4"] or told["ipv6"]),
    ):
        tally = row[names]
        if name and (name in tally or len(tally) < TALLIED):
            row[names] = {**tally, name: tally.get(name, 0) + 1}
        elif name:
            row[others] += 1
    told_whole = {**row, **{names: orjson.dumps(row[names]).decode() for names in ("actors", "addresses")}}
    return row, ((security_rows, (key(happened.event),), told_whole),)


EVENTS: Final[frozenset[type[Any]]] = frozenset({le.EpochRaised, *mapper.classes(PREFIX)})
VIEW: Final = View("security", 1, (security_rows,), EVENTS, fold, key)
