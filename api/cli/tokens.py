"""`tokens`: who may use the service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from ..instants import parse_span
from ..text import clean, clock_time, iso, moment
from .output import answer, say
from .session import open_log, user
from .settings import shared_options
from .terminal import table

if TYPE_CHECKING:
    from ...eventstore.tokens import TokenRow

_HEAD: Final = ("ID", "NAME", "STATE", "SCOPES", "TENANT", "OWNER", "EXPIRES", "LAST USED")


@click.group(name="tokens", invoke_without_command=True)
@shared_options()
@click.pass_context
def tokens_command(ctx: click.Context) -> None:
    """Create, list and revoke tokens of the service."""
    if ctx.invoked_subcommand is None:
        _list()


@tokens_command.command(name="create")
@click.argument("name")
@click.option("--scope", "scopes", multiple=True, required=True, metavar="SCOPE", help="What it may; may be repeated.")
@click.option("--tenant", default="", help="Only jobs of this tenant.")
@click.option("--owner", default="", help="Only jobs of this owner.")
@click.option("--expires", default="", metavar="SPAN", help="For how long, such as 30d.  [default: for ever]")
@shared_options()
def create_command(*, name: str, scopes: tuple[str, ...], tenant: str, owner: str, expires: str) -> None:
    """Make a token; it is shown once, only its hash is kept."""
    from ...eventstore import tokens
    from ..http.auth import minted

    seconds = parse_span(expires, "expires").total_seconds() if expires else None
    with open_log() as log:
        now = log.store.now()
        ends = None if seconds is None else now + int(seconds * 1_000_000)
        wanted = [scope for given in scopes for scope in given.split(",") if scope]
        secret, row = minted(name=name, scopes=wanted, now=now, tenant=tenant, owner=owner, expires_at=ends)
        tokens.add(log.store, row)
    say("keep it now: it is not shown again")
    answer({"id": row.id, "name": name, "token": secret, "expires_at": iso(ends)}, secret)


@tokens_command.command(name="list")
@shared_options()
def list_command() -> None:
    """Show the tokens, without their secrets."""
    _list()


def _list() -> None:
    from ...eventstore import tokens

    with open_log(reading=True) as log:
        rows, now, micros = tokens.listed(log.store, "token"), log.now(), log.store.now()
    cells = [
        [
            row.id,
            clean(row.name),
            "live" if row.is_live(micros) else "revoked" if row.revoked_at is not None else "expired",
            row.scopes,
            clean(row.tenant),
            clean(row.owner),
            "" if row.expires_at is None else clock_time(moment(row.expires_at), now),
            "" if row.used_at is None else clock_time(moment(row.used_at), now),
        ]
        for row in rows
    ]
    answer({"items": [_document(row, micros) for row in rows]}, *table(_HEAD, cells))
    if not rows:
        say("No tokens yet.  Make one: joblog tokens create NAME --scope jobs:read")


def _document(row: TokenRow, now: int) -> dict[str, object]:
    made: dict[str, object] = {"id": row.id, "name": row.name, "scopes": row.scopes.split(), "live": row.is_live(now)}
    made |= {"tenant": row.tenant or None, "owner": row.owner or None}
    return made | {f"{what}_at": iso(getattr(row, f"{what}_at")) for what in ("created", "expires", "used", "revoked")}


@tokens_command.command(name="revoke")
@click.argument("token", metavar="ID|NAME")
@shared_options()
def revoke_command(*, token: str) -> None:
    """End a token, at once for commands and within a second for reads."""
    from ..http.auth import revoke

    with open_log() as log:
        row = revoke(log, token)
    answer({"id": row.id, "name": row.name, "revoked": True}, f"token {row.id} ({clean(row.name)}) is revoked")


@tokens_command.command(name="sign-in")
@click.option("--url", default="http://127.0.0.1:8765", show_default=True, help="Where the service is reached.")
@shared_options()
def sign_in_command(*, url: str) -> None:
    """Make a link to the page that works once, for ten minutes."""
    from ..http.auth import Auth

    with open_log() as log:
        code = Auth(log).sign_in_link(user())
    answer({"url": f"{url}/sign-in?code={code}"}, f"{url}/sign-in?code={code}")
