"""The courier of one destination: record by record, each a unit whose evidence is the receipt."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ...eventstore import webhooks as table
from ..errors import Fatal, NeedsOperator
from .webhook_signing import headers, key_of
from .webhooks import PROVIDER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...eventstore.store import Store
    from ...eventstore.webhooks import Destination, Record
    from ..run import Run

_TOTAL_MS: Final = 20_000
_ANSWER: Final = 64 * 1024  #: bytes of an answer that are read
_GONE: Final = "http-410"


class Pending:
    """The records that are still to be sent, the oldest first; what was settled is no longer among them."""

    def __init__(self, store: Store, tenant: str, name: str) -> None:
        self._store, self._tenant, self._name = store, tenant, name

    def batches(self, size: int, cursor: Any) -> Iterator[tuple[Sequence[Record], Any]]:
        """See ``Source``: the table says where to go on, not the cursor."""
        del size, cursor
        while True:
            with table.reading(self._store) as connection:
                record = table.first_pending(connection, self._tenant, self._name)
            if record is not None:
                yield [record], record.seq
                continue
            with self._store.atomic() as transaction:
                if table.rest(transaction.connection, self._tenant, self._name):
                    return


async def deliver(run: Run, name: str) -> dict[str, int]:
    """See ``webhook_deliver``."""
    async for batch in run.batches("records", Pending(run.log.store, run.tenant, name), size=1):
        [record] = batch
        state, code = await _sent(run, name, record)
        batch.note(id=record.id, event=record.event, digest=record.digest, state=state, code=code)
        batch.tally(state)
        async with batch.atomic() as db:
            await db.run(partial(_settle, run, name, record, state, code))
    return {state: run.total(state) for state in (table.SENT, table.REFUSED)}


def _settle(run: Run, name: str, record: Record, state: str, code: str, connection: Any) -> None:
    """In the commit of the evidence: what was accepted is never sent again, and what is sent again has no receipt."""
    now = run.log.store.now()
    table.settle(connection, record, state, code, now)
    if code == _GONE:
        table.enable(connection, run.tenant, name, enabled=False, reason="gone", by="joblog", at=now)


async def _sent(run: Run, name: str, record: Record) -> tuple[str, str]:
    """State and code of the record after one request; a passing fault is raised, and the record stays first in line."""
    from ..outbound.limits import Limits

    found = await asyncio.to_thread(_looked_up, run, name)
    destination, keys = _allowed(found, record), await asyncio.to_thread(_keys, run, found)
    body = record.body or b""
    signed = headers(keys, record.id, int(run.now().timestamp()), body)
    limits = Limits(total_ms=_TOTAL_MS, body=_ANSWER)
    gate = run.gate(PROVIDER, credential=name)
    try:
        answer = await gate.request("POST", destination.url, headers=signed, body=body, unit_id="", limits=limits)
    except Fatal as verdict:
        return table.REFUSED, verdict.code
    return table.SENT, f"http-{answer.status}"


def _looked_up(run: Run, name: str) -> Destination | None:
    """The destination as it is now, before each request."""
    with table.reading(run.log.store) as connection:
        return next((one for one in table.all_of(connection, run.tenant) if one.name == name), None)


def _allowed(destination: Destination | None, record: Record) -> Destination:
    """The destination, if it may have this record.

    Raises:
        NeedsOperator: it is gone, disabled, or not what the record was frozen for.
    """
    if destination is None:
        raise NeedsOperator("destination-gone", "it was removed; cancel this job, or add it again")
    if not destination.enabled:
        why = f" ({destination.reason})" if destination.reason else ""
        raise NeedsOperator("destination-disabled", f"it was disabled{why}; enable it, then resume this job")
    if destination.revision != record.revision:
        text = f"its URL was edited after record {record.id} was frozen; joblog webhooks replay {destination.name}"
        raise NeedsOperator("destination-edited", f"{text}, then resume this job")
    return destination


def _keys(run: Run, destination: Destination | None) -> list[bytes]:
    from ..outbound.secrets import Secrets

    secrets = Secrets(os.environ, run.log.store)
    references = () if destination is None else destination.secrets
    return [key_of(secrets.resolve(one, tenant=run.tenant).reveal()) for one in references]
