"""``webhook.announce`` and ``webhook.deliver``: each event once to each destination, in order, at least once.

``announce`` freezes one delivery record for each destination, in the transaction of the change that it tells of, or in one
of its own.  A destination has one courier at a time, a job that sends its records one by one: a dead destination holds
nobody else up, and nothing overtakes.  Between the receiver's answer and our receipt a crash sends a record once more,
under the same ``webhook-id``; behind the receipt never again.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, uuid5

import msgspec

from ...domain import identity, storable
from ...domain.errors import InvalidFieldError, TooLargeError
from ...domain.retry import RetryPolicy
from ...domain.spec import JobSpec
from ...domain.status import ENDED
from ...eventstore.clock import micros

if TYPE_CHECKING:
    from collections.abc import Sequence

    import sqlalchemy as sa

    from ...eventstore.webhooks import Destination
    from ..commands.log import JobLog
    from ..registry import Jobs
    from ..run import Run

ANNOUNCE: Final = "webhook.announce"
DELIVER: Final = "webhook.deliver"
PRUNE: Final = "webhook.prune"
PROVIDER: Final = "webhook"  #: of the gate; each destination is a credential of it
_NAME_LIMIT: Final = 100  #: of a destination, which is part of keys
BODY_LIMIT: Final = 20 * 1024  #: bytes, as the specification advises
_RECORDS: Final = UUID("9d0c1b72-4e8f-4a53-8c1d-7f2e6a5b9c03")  # namespace of webhook-ids: never edit
#: 5 s to 6 h: some 17 hours in all, and then an operator.
RETRY: Final = RetryPolicy(first_seconds=5.0, factor=3.0, ceiling_seconds=21_600.0, retries=10)


class Announce(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What ``webhook.announce`` takes; it stands in the log, so *data* holds references."""

    event: str  #: names the event: the same again is not sent again
    type: str
    data: dict[str, Any] = {}
    destinations: tuple[str, ...] = ()  #: all of the tenant's, if none is named


class Deliver(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What ``webhook.deliver`` takes; made by ``announce``."""

    destination: str


class Prune(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What ``webhook.prune`` takes."""

    days: int = 90


# -- destinations ----------------------------------------------------------------------------------------------------


def set_destination(
    log: JobLog, name: str, url: str, secrets: Sequence[str], *, tenant: str = "default", by: str = "joblog"
) -> None:
    """Add a destination, or edit it; *secrets* are references, and all of them sign: the new one beside the old one.

    Raises:
        InvalidFieldError: a name, an URL or a reference that is none.
    """
    from ...eventstore import webhooks as table
    from ..outbound.secrets import parse_reference
    from ..outbound.target import parse_url

    storable.name(name, "destination", limit=_NAME_LIMIT)
    storable.name(tenant, "tenant")
    storable.refuse_secrets(url, "url")
    parse_url(url)
    if not secrets:
        raise InvalidFieldError("secrets", "none", "give a reference, such as env:HOOK_SECRET")
    for one in secrets:
        parse_reference(one)
    with log.store.atomic() as transaction:
        table.put(transaction.connection, tenant, name, url, secrets, by, log.store.now())


def enable_destination(
    log: JobLog, name: str, *, enabled: bool, reason: str = "", tenant: str = "default", by: str = "joblog"
) -> None:
    """Let records be made and sent again, or keep those that there are from being sent.

    Raises:
        InvalidFieldError: no such destination.
    """
    from ...eventstore import webhooks as table

    said = storable.text(reason, limit=200)
    with log.store.atomic() as transaction:
        made = table.enable(
            transaction.connection, tenant, name, enabled=enabled, reason=said, by=by, at=log.store.now()
        )
    if not made:
        raise InvalidFieldError("destination", f"{name!r} is not known", "see `joblog webhooks`")


def remove_destination(log: JobLog, name: str, *, tenant: str = "default", by: str = "joblog") -> int:
    """Take a destination away: what was still to be sent to it is cancelled, unsent.  Returns how many records that were.

    Raises:
        InvalidFieldError: no such destination.
    """
    from ...eventstore import webhooks as table

    with log.store.atomic() as transaction:
        cancelled = table.remove(transaction.connection, tenant, name, by, log.store.now())
    if cancelled is None:
        raise InvalidFieldError("destination", f"{name!r} is not known", "see `joblog webhooks`")
    return cancelled


def prune(log: JobLog, older_than: timedelta, *, tenant: str | None = None) -> int:
    """Forget the receipts that are older; returns how many.  An event whose receipt is gone would be sent again.

    Raises:
        InvalidFieldError: less than a day.
    """
    from ...eventstore import webhooks as table

    if older_than < timedelta(days=1):
        raise InvalidFieldError("older_than", "less than a day", "receipts keep an event from being sent again")
    before, after, pruned = micros(log.now() - older_than), 0, 0
    while True:
        with log.store.atomic() as transaction:
            count, further = table.prune(transaction.connection, before, after, tenant)
        pruned += count
        if further is None:
            return pruned
        after = further


# -- announcing ------------------------------------------------------------------------------------------------------


def announce(log: JobLog, event: str, kind: str, data: Any, *, tenant: str = "default", **options: Any) -> int:
    """Freeze *event* for the tenant's destinations; returns for how many it is new.  See ``announce_in``."""
    with log.store.atomic() as transaction:
        made = announce_in(log, transaction.connection, event, kind, data, tenant=tenant, **options)
    log.waker.notify(ready=True)
    return made


def announce_in(
    log: JobLog,
    connection: sa.Connection,
    event: str,
    kind: str,
    data: Any,
    *,
    tenant: str = "default",
    destinations: Sequence[str] = (),
) -> int:
    """As ``announce``, inside the caller's own transaction in the log's database: sent if it commits, and only then.

    Raises:
        InvalidFieldError: a destination that does not exist.
        TooLargeError: a body over 20 KiB.
    """
    from ...eventstore import webhooks as table

    storable.name(event, "event")
    storable.name(kind, "type")
    said = {"type": kind, "timestamp": log.now().isoformat(), "data": data}
    body = msgspec.json.encode(storable.payload(said, "event"))
    if len(body) > BODY_LIMIT:
        raise TooLargeError(
            "data", f"{len(body):,} bytes", f"at most {BODY_LIMIT:,} are sent; name what can be fetched"
        )
    found = table.present(connection, tenant, sorted(set(destinations)) or None)
    if unknown := sorted(set(destinations) - {one.name for one in found}):
        raise InvalidFieldError("destinations", f"{unknown[0]!r} is not known", "see `joblog webhooks`")
    to = [one for one in found if one.enabled]
    ids = [record_id_of(tenant, one.name, event) for one in to]
    new = table.add(connection, to, ids, event, body, log.store.now())
    see_to(log, connection, [one for one in to if one.name in new])
    return len(new)


def record_id_of(tenant: str, destination: str, event: str) -> str:
    """The ``webhook-id`` of an event at a destination: the same, whoever asks and however often."""
    return str(uuid5(_RECORDS, identity.joined(tenant, destination, event)))


def see_to(log: JobLog, connection: sa.Connection, destinations: Sequence[Destination]) -> None:
    """Make sure that a courier is on its way to each; they are locked."""
    from ...eventstore import webhooks as table

    busy = {one.name: courier(one, one.courier).job_id for one in destinations if not one.idle}
    rows = log.store.jobs(list(busy.values())) if busy else {}
    for one in destinations:
        row = rows.get(busy[one.name]) if one.name in busy else None
        if one.name in busy and (row is None or row["status"] not in ENDED):  # without a row it is in the outbox
            continue
        log.submit_in(connection, courier(one, table.hire(connection, one)))


def courier(destination: Destination, number: int) -> JobSpec:
    """The job that sends a destination's records."""
    name = destination.name
    return JobSpec(
        DELIVER,
        {"destination": name},
        key=f"{number}:{name}",
        tenant=destination.tenant,
        exclusive_key=f"{PROVIDER}/{name}",
        gate=f"{PROVIDER}/{name}",
        retry=RETRY,
    )


def replay(log: JobLog, name: str, *, tenant: str = "default", record_id: str = "") -> int:
    """Send again what was refused, and to its new URL what was frozen for the old one; returns how many.

    Raises:
        InvalidFieldError: no such destination.
    """
    from ...eventstore import webhooks as table

    with log.store.atomic() as transaction:
        found = table.present(transaction.connection, tenant, [name])
        if not found:
            raise InvalidFieldError("destination", f"{name!r} is not known", "see `joblog webhooks`")
        replayed = table.again(transaction.connection, tenant, name, found[0].revision, record_id)
        if replayed:
            see_to(log, transaction.connection, found)
    log.waker.notify(ready=True)
    return replayed


# -- the kinds -------------------------------------------------------------------------------------------------------


async def webhook_announce(run: Run, args: Announce) -> int:
    """Freeze the event for each destination; returns for how many."""

    def once() -> int:
        return announce(run.log, args.event, args.type, args.data, tenant=run.tenant, destinations=args.destinations)

    return await run.step("announce", lambda: asyncio.to_thread(once))


async def webhook_deliver(run: Run, args: Deliver) -> dict[str, int]:
    """Send the destination's records in order until none is left; returns how many were accepted and refused."""
    from .webhook_courier import deliver

    return await deliver(run, args.destination)


async def webhook_prune(run: Run, args: Prune) -> int:
    """Forget the tenant's receipts that are older; returns how many."""

    def once() -> int:
        return prune(run.log, timedelta(days=args.days), tenant=run.tenant)

    return await run.step("prune", lambda: asyncio.to_thread(once))


def register(jobs: Jobs) -> None:
    """Add them."""
    jobs.job(ANNOUNCE)(webhook_announce)
    jobs.job(DELIVER, retry=RETRY)(webhook_deliver)
    jobs.job(PRUNE)(webhook_prune)
