"""The courier of one destination: record by record, each a unit whose evidence is the receipt."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...eventstore import webhooks as table
from ..errors import Fatal, NeedsOperator
from ..outbound.limits import Limits
from ..outbound.secrets import Secrets
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


class Ready(NamedTuple):
    """A record, and what is needed to send it, looked up right before."""

    record: Record
    url: str
    keys: tuple[bytes, ...]


class Pending:
    """The records that are still to be sent, the oldest first; what was settled is no longer among them."""

    def __init__(self, store: Store, tenant: str, name: str) -> None:
        self._store, self._tenant, self._name = store, tenant, name
        self._secrets = Secrets(os.environ, store)

    def batches(self, size: int, cursor: Any) -> Iterator[tuple[Sequence[Ready], Any]]:
        """See ``Source``: the table says where to go on, not the cursor.

        Raises:
            NeedsOperator: the destination may not have the next record, or a secret is missing.
        """
        del size, cursor
        while True:
            with table.reading(self._store) as connection:
                record = table.first_pending(connection, self._tenant, self._name)
                destination = table.find(connection, self._tenant, self._name)
            if record is not None:
                yield [self._ready(record, _allowed(destination, record))], record.seq
                continue
            with self._store.atomic() as transaction:
                if table.rest(transaction.connection, self._tenant, self._name):
                    return

    def _ready(self, record: Record, destination: Destination) -> Ready:
        secrets = [self._secrets.resolve(one, tenant=self._tenant) for one in destination.secrets]
        return Ready(record, destination.url, tuple(key_of(one.reveal()) for one in secrets))


async def deliver(run: Run, name: str) -> dict[str, int]:
    """See ``webhook_deliver``."""
    async for batch in run.batches("records", Pending(run.log.store, run.tenant, name), size=1):
        [ready] = batch
        record = ready.record
        state, code = await _sent(run, name, ready)
        batch.note(id=record.id, event=record.event, digest=record.digest, state=state, code=code)
        batch.tally(state)
        await batch.commit(partial(_settle, run, name, record, state, code))
    return {state: run.total(state) for state in (table.SENT, table.REFUSED)}


def _settle(run: Run, name: str, record: Record, state: str, code: str, connection: Any) -> None:
    """In the commit of the evidence: what was accepted is never sent again, and what is sent again has no receipt."""
    now = run.log.store.now()
    table.settle(connection, record, state, code, now)
    if code == _GONE:
        table.enable(connection, run.tenant, name, enabled=False, reason="gone", by="joblog", at=now)


async def _sent(run: Run, name: str, ready: Ready) -> tuple[str, str]:
    """State and code of the record after one request; a passing fault is raised, and the record stays first in line."""
    body = ready.record.body or b""
    signed = headers(ready.keys, ready.record.id, int(run.now().timestamp()), body)
    limits = Limits(total_ms=_TOTAL_MS, body=_ANSWER)
    gate = run.gate(PROVIDER, credential=name)
    try:
        answer = await gate.request("POST", ready.url, headers=signed, body=body, unit_id="", limits=limits)
    except Fatal as verdict:
        return table.REFUSED, verdict.code
    return table.SENT, f"http-{answer.status}"


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
