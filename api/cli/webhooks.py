"""`webhooks`: where events go, what was delivered, and sending again what was refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from ..instants import parse_span
from ..text import clean, counted
from .output import answer, say
from .session import open_log, user
from .settings import shared_options
from .terminal import painted, table

if TYPE_CHECKING:
    from collections.abc import Callable

_HEAD: Final = ("TENANT", "DESTINATION", "STATE", "URL", "PENDING", "SENT", "REFUSED")
_RECORDS: Final = ("ID", "EVENT", "STATE", "CODE")
_STATES: Final = ("pending", "sent", "refused")
_SHOWN: Final = 25


@click.group(name="webhooks", invoke_without_command=True)
@shared_options()
@click.pass_context
def webhooks_command(ctx: click.Context) -> None:
    """List, set, disable, remove and replay the destinations of webhooks; forget old receipts."""
    if ctx.invoked_subcommand is None:
        _list()


@webhooks_command.command(name="list")
@shared_options()
def list_command() -> None:
    """Show each destination and what became of its deliveries."""
    _list()


def _list() -> None:
    from ...eventstore import webhooks as store

    with open_log(reading=True) as log, store.reading(log.store) as connection:
        found, counts = store.all_of(connection), store.counts(connection)
    items = [
        {
            "tenant": one.tenant,
            "destination": one.name,
            "url": one.url,
            "secrets": list(one.secrets),
            "enabled": one.enabled,
            "reason": one.reason or None,
            **{state: counts.get((one.tenant, one.name, state), 0) for state in _STATES},
        }
        for one in found
    ]
    answer({"items": items}, *table(_HEAD, [_row(one) for one in items]))
    if not items:
        say("No destination was ever set; see `joblog webhooks set --help`.")


def _row(one: dict[str, Any]) -> list[str]:
    why = f" ({one['reason']})" if one["reason"] else ""
    state = "● enabled" if one["enabled"] else painted(f"‖ disabled{clean(why)}", "yellow")
    names = [clean(one["tenant"]), clean(one["destination"]), state, clean(one["url"])]
    return names + [f"{one[name]:,}" for name in _STATES]


def _controls(function: Callable[..., Any]) -> Callable[..., Any]:
    for add in (
        shared_options(),
        click.option("--tenant", default="default", show_default=True, help="Whose destination it is."),
        click.argument("destination"),
    ):
        function = add(function)
    return function


@webhooks_command.command(name="set")
@_controls
@click.argument("url")
@click.option(
    "--secret", "secrets", multiple=True, metavar="REF", help="env:NAME, file:/PATH or cred:NAME; each signs."
)
def set_command(*, destination: str, tenant: str, url: str, secrets: tuple[str, ...]) -> None:
    """Add a destination, or edit it.  Give the new secret and the old one until the receiver has changed over."""
    from ...workers.operations import webhooks

    with open_log() as log:
        webhooks.set_destination(log, destination, url, secrets, tenant=tenant, by=user())
    answer({"tenant": tenant, "destination": destination, "url": url}, f"destination {clean(destination)} is set")


@webhooks_command.command(name="enable")
@_controls
def enable_command(*, destination: str, tenant: str) -> None:
    """Let events be sent again; a courier that was paused meanwhile goes on with `joblog resume`."""
    _enable(destination, tenant, enabled=True)


@webhooks_command.command(name="disable")
@_controls
@click.option("--reason", default="", help="Why; it is shown.")
def disable_command(*, destination: str, tenant: str, reason: str) -> None:
    """Send nothing more to a destination, and keep no new events for it."""
    _enable(destination, tenant, enabled=False, reason=reason)


def _enable(destination: str, tenant: str, *, enabled: bool, reason: str = "") -> None:
    from ...workers.operations import webhooks

    with open_log() as log:
        webhooks.enable_destination(log, destination, enabled=enabled, reason=reason, tenant=tenant, by=user())
    document = {"tenant": tenant, "destination": destination, "enabled": enabled}
    answer(document, f"destination {clean(destination)} is {'enabled' if enabled else 'disabled'}")


@webhooks_command.command(name="remove")
@_controls
def remove_command(*, destination: str, tenant: str) -> None:
    """Take a destination away; what was still to be sent to it is cancelled, unsent."""
    from ...workers.operations import webhooks

    with open_log() as log:
        found = webhooks.remove_destination(log, destination, tenant=tenant, by=user())
    document = {"tenant": tenant, "destination": destination, "cancelled": found}
    answer(document, f"destination {clean(destination)} is removed, {counted(found, 'record')} cancelled")


@webhooks_command.command(name="prune")
@shared_options()
@click.option("--older-than", "span", required=True, metavar="SPAN", help="Such as 90d; a day at least.")
@click.option("--tenant", default=None, help="Of this one alone.")
def prune_command(*, span: str, tenant: str | None) -> None:
    """Forget old receipts: an event whose receipt is gone would be sent again, what was refused is not replayed."""
    from ...workers.operations import webhooks

    with open_log() as log:
        found = webhooks.prune(log, parse_span(span, "older-than"), tenant=tenant)
    answer({"pruned": found}, f"{counted(found, 'record')} forgotten")


@webhooks_command.command(name="replay")
@_controls
@click.option("--record", "record_id", default="", metavar="ID", help="Only this one.")
def replay_command(*, destination: str, tenant: str, record_id: str) -> None:
    """Send again what was refused, and to the new URL what was kept for the old one; under the same ids."""
    from ...workers.operations import webhooks

    with open_log() as log:
        found = webhooks.replay(log, destination, tenant=tenant, record_id=record_id)
    document = {"tenant": tenant, "destination": destination, "replayed": found}
    answer(document, f"{counted(found, 'record')} of {clean(destination)} will be sent again")


@webhooks_command.command(name="records")
@_controls
def records_command(*, destination: str, tenant: str) -> None:
    """Show a destination's newest deliveries."""
    from ...eventstore import webhooks as store

    with open_log(reading=True) as log, store.reading(log.store) as connection:
        found = store.newest(connection, tenant, destination, _SHOWN)
    items = [{"id": one.id, "event": one.event, "state": one.state, "code": one.code or None} for one in found]
    rows = [[one.id, clean(one.event), one.state, clean(one.code)] for one in found]
    answer({"items": items}, *table(_RECORDS, rows))
