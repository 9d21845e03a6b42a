"""Whether the process lives, and whether it can serve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...domain.errors import JobLogError, StoreError
from ...eventstore import inspection
from ...eventstore.schema import SCHEMA_VERSION
from .route import Answer

if TYPE_CHECKING:
    from .route import Call

_LAGS: Final = 10_000  #: events that a follower may be behind before it is worth a word


async def livez(call: Call) -> Answer:
    """Whether the process answers; the database is not asked."""
    del call
    return Answer({"status": "ok"})


async def startupz(call: Call) -> Answer:
    """Whether it has started: it answers, so it has."""
    del call
    return Answer({"status": "ok"})


async def readyz(call: Call) -> Answer:
    """Whether it can serve: the database answers, has our schema, and nobody is shutting us down."""
    try:
        checks = await call.service.ask(_checks, call)
    except JobLogError as error:
        checks = {"database": f"fail: {error.code}"}
    if call.service.draining:
        checks["draining"] = "fail: it is shutting down"
    good = not any(text.startswith("fail") for text in checks.values())
    body: dict[str, Any] = {"status": "ok" if good else "fail"}
    if call.query.verbose in {"", "true", "1"}:
        body["checks"] = checks
    return Answer(body, 200 if good else 503)


def _checks(call: Call) -> dict[str, str]:
    store = call.log.store
    try:
        state = store.state()
        schema = inspection.schema(store)
    except StoreError as error:
        return {"database": f"fail: {error.code}"}
    checks = {"database": "ok"}
    fits = schema.version >= SCHEMA_VERSION >= schema.min_code
    checks["schema"] = "ok" if fits else f"fail: version {schema.version}, this code writes {SCHEMA_VERSION}"
    seen = call.log.writer.seen
    behind = state.epoch < seen.epoch or (state.epoch == seen.epoch and state.head < seen.position)
    checks["log"] = "fail: log-rewound" if behind else "ok"
    lag = max((state.head - position for position in inspection.followers(store).values()), default=0)
    checks["followers"] = "ok" if lag < _LAGS else f"warn: the slowest is {lag} events behind"
    return checks
