"""The courier of one destination: record by record, each a unit whose evidence is the receipt.

The couriers of a worker look for their next records together, and their receipts travel in one commit.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

from ...domain.errors import InputError
from ...eventstore import webhooks as table
from ...eventstore.append import Delivery
from ...eventstore.clock import micros
from ..errors import Fatal, NeedsOperator, OperationError
from ..outbound.limits import Limits
from ..outbound.secrets import Secrets
from ..verbs import Verbs
from .webhook_signing import headers, key_of
from .webhooks import PROVIDER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...eventstore.store import Store
    from ...eventstore.webhooks import Destination, Record
    from ..run import Run

_LIMITS: Final = Limits(total_ms=20_000, body=64 * 1024)
_GONE: Final = "http-410"
_MARK: Final = "b:records"  #: where the courier goes on, in its checkpoint: number of the next unit, last record


class Ready(NamedTuple):
    """A record, and what is needed to send it, looked up right before."""

    record: Record
    url: str
    keys: tuple[bytes, ...]


class Desk:
    """Where the couriers of a worker learn what to send next."""

    def __init__(self, store: Store) -> None:
        self._store, self._secrets = store, Secrets(os.environ, store)

    def look(self, couriers: Sequence[tuple[str, str]]) -> list[Ready | Exception | None]:
        """For each (tenant, destination) its oldest record, None if there is none, or why it may not be sent."""
        found = table.next_of(self._store, couriers)
        return [
            self._next(tenant, destination, record)
            for (tenant, _), (destination, record) in zip(couriers, found, strict=True)
        ]

    def _next(self, tenant: str, destination: Destination | None, record: Record | None) -> Ready | Exception | None:
        if record is None:
            return None
        try:
            allowed = _allowed(destination, record)
            keys = tuple(key_of(self._secrets.resolve(one, tenant=tenant).reveal()) for one in allowed.secrets)
        except (OperationError, InputError) as error:  # of this destination alone
            return error
        return Ready(record, allowed.url, keys)

    def rest(self, tenant: str, name: str) -> bool:
        """Let the courier go, if there is nothing to be sent."""
        with self._store.atomic() as transaction:
            return table.rest(transaction.connection, tenant, name)

    def disable(self, tenant: str, name: str) -> None:
        """Send nothing more to who said that it is gone."""
        with self._store.atomic() as transaction:
            now = self._store.now()
            table.enable(transaction.connection, tenant, name, enabled=False, reason="gone", by="joblog", at=now)


async def deliver(run: Run, name: str) -> dict[str, int]:
    """See ``webhook_deliver``."""
    desk, verbs = Desk(run.store), Verbs(run)
    number = verbs.mark(_MARK, (0, None))[0]
    while (ready := await _next(run, verbs, desk, name)) is not None:
        record, unit, mark = ready.record, f"records:{number}", (_MARK, [number + 1, ready.record.seq])
        number += 1
        await verbs.begin(unit, mark)
        state, code = await _sent(run, name, ready)
        if code == _GONE:
            await verbs.in_thread(desk.disable, run.tenant, name)
        receipt = {"id": record.id, "event": record.event, "digest": record.digest, "state": state, "code": code}
        run.tally(state)
        await verbs.done(unit, receipt, mark, Delivery(record.seq, state, code, micros(run.now())))
    return {state: run.total(state) for state in (table.SENT, table.REFUSED)}


async def _next(run: Run, verbs: Verbs, desk: Desk, name: str) -> Ready | None:
    """What is to be sent now; None once the courier may go.

    Raises:
        NeedsOperator: the destination may not have the next record, or a secret is missing.
    """
    while True:
        found: Ready | Exception | None = await verbs.gathered("webhooks", desk.look, (run.tenant, name))
        if isinstance(found, Exception):
            raise found
        if found is not None or await verbs.in_thread(desk.rest, run.tenant, name):
            return found


async def _sent(run: Run, name: str, ready: Ready) -> tuple[str, str]:
    """State and code of the record after one request; a passing fault is raised, and the record stays first in line."""
    body = ready.record.body or b""
    signed = headers(ready.keys, ready.record.id, int(run.now().timestamp()), body)
    gate = run.gate(PROVIDER, credential=name)
    try:
        answer = await gate.request("POST", ready.url, headers=signed, body=body, unit_id="", limits=_LIMITS)
    except Fatal as verdict:
        return table.REFUSED, verdict.code
    return table.SENT, f"http-{answer.status}"


def _allowed(destination: Destination | None, record: Record) -> Destination:
    """The destination, if it may have this record.

    Raises:
        NeedsOperator: it is gone, disabled, or not what the record was frozen for.
    """
    if destination is None:
        raise NeedsOperator("destination-gone", "its row is not there; cancel this job, or set it again")
    if not destination.enabled:
        why = f" ({destination.reason})" if destination.reason else ""
        raise NeedsOperator("destination-disabled", f"it was disabled{why}; enable it, then resume this job")
    if destination.revision != record.revision:
        text = f"its URL was edited after record {record.id} was frozen; joblog webhooks replay {destination.name}"
        raise NeedsOperator("destination-edited", f"{text}, then resume this job")
    return destination
