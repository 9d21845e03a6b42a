"""An append as the arguments of one function call: what all have as packed arrays, what only some have as JSON."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import orjson

from . import postgres_arrays as arrays
from . import postgres_functions as functions
from .append import HOT_VALUES, Append, EventRow
from .store import NOT_CONSECUTIVE, ConflictError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .store import Seen

_FUNCTION_ARGS: Final = 20
_MARKS: Final = ", ".join(["%s", "%s", "%s", "%s"] + ["%b"] * (_FUNCTION_ARGS - 6) + ["%s", "%s"])
#: The call, by generation of the job table.
APPEND: Final = tuple(f"SELECT joblog_append_{parity}({_MARKS})" for parity in (0, 1))


def arguments(batch: Sequence[Append], generation: int, seen: Seen, *, wait: bool) -> tuple[Any, ...]:
    """The function's arguments: what all appends have as packed arrays, what only some have as JSON."""
    streams: list[bytes] = []
    events: list[EventRow] = []
    units: list[str | None] = []  # of each event; only some have one
    has_units = False
    hot: list[tuple[Any, ...]] = []
    rest: dict[str, list[Any]] = {}
    for append in batch:
        stream, base, mine = append.stream_id.bytes, len(events), append.events
        upcoming = append.expected
        for version, _, _ in mine:
            upcoming += 1
            if version != upcoming:
                raise ConflictError(NOT_CONSECUTIVE)
        events += mine
        streams += [stream] * len(mine)
        units += [None] * len(mine)
        for unit, index in append.units:
            units[base + index], has_units = unit, True
        fence = append.fence
        if fence is not None and fence.token.epoch == seen.epoch and append.is_hot:
            hot.append((stream, append.expected, *HOT_VALUES(append.row), fence.token.grant, fence.renew))
        else:
            _add_rest(rest, append)
        if append.delivery is not None:
            rest.setdefault("delivery", []).append(append.delivery._asdict())
    hot.sort(key=itemgetter(0))  # rows are locked in id order by everyone
    new = rest.pop("new", None)
    versions, topics, states = zip(*events, strict=True) if events else ((), (), ())
    return (
        *(seen.epoch, seen.position, generation, wait),
        *(arrays.uuids(streams), arrays.bigints(versions), arrays.topics(topics), arrays.byteas(states)),
        arrays.texts(units) if has_units else None,
        *_hot_columns(hot),
        None if new is None else orjson.dumps(new).decode(),
        orjson.dumps(rest).decode() if rest else None,
    )


def _hot_columns(hot: list[tuple[Any, ...]]) -> list[Any]:
    """The columns of plain unit commits, each an array; NULL if there are none."""
    if not hot:
        return [None] * 9
    ids, expected, version, updated, done, sequence, cursor, grant, renew = zip(*hot, strict=True)
    numbers = [arrays.bigints(column) for column in (expected, version, updated, done, sequence)]
    return [
        arrays.uuids(ids),
        *numbers,
        arrays.texts(cursor),
        arrays.bigints(grant),
        arrays.bigints(renew) if any(renew) else None,
    ]


def _add_rest(rest: dict[str, list[Any]], append: Append) -> None:
    """What only some appends change, as JSON for the function."""
    job = append.stream_id
    if append.expected:
        rest.setdefault("after", []).append({"id": job, "version": append.expected})
    if append.row:
        if append.expected == 0:
            rest.setdefault("new", []).append(_said(append.row))
        else:
            changes = {name: value for name, value in append.row.items() if name != "id"}
            if (frequent := functions.frequent(changes.keys())) is not None:
                rest.setdefault(frequent, []).append({"id": job, "expected": append.expected, **changes})
            else:
                rest.setdefault("set", []).append({"id": job, "expected": append.expected, "c": changes})
    if append.evidence is not None:
        rest.setdefault("evidence", []).append({"job_id": job, "n": append.evidence})
    _add_lease(rest, append)
    if append.receipt is not None:
        rest.setdefault("receipt", []).append(append.receipt._asdict())
    if append.queue_row is not None:
        rest.setdefault("queue", []).append(append.queue_row)
    if append.gate_row is not None:
        rest.setdefault("gate", []).append(append.gate_row)
    if append.tracking is not None:
        name, position = append.tracking
        rest.setdefault("tracking", []).append({"application_name": name, "notification_id": position})


def _said(row: dict[str, Any]) -> dict[str, Any]:
    """What the function does not know of a new row by itself."""
    unsaid = functions.UNSAID
    return {name: value for name, value in row.items() if name not in unsaid or unsaid[name] != value}


def _add_lease(rest: dict[str, list[Any]], append: Append) -> None:
    job = append.stream_id
    if (fence := append.fence) is not None:
        held = {"id": job, "epoch": fence.token.epoch, "token": fence.token.grant}
        if fence.end:
            rest.setdefault("end", []).append({**held, "how": "holder"})
        else:
            rest.setdefault("fence", []).append({**held, "renew": fence.renew})
    if (takeover := append.takeover) is not None:
        held = {"id": job, "epoch": takeover.token.epoch, "token": takeover.token.grant}
        rest.setdefault("end", []).append({**held, "how": "proven" if takeover.proven else "expired"})
    if (grant := append.grant) is not None:
        made = grant._asdict()
        token = made.pop("token")
        rest.setdefault("grant", []).append({"id": job, "epoch": token.epoch, "token": token.grant, **made})
