"""`credentials`: secret values that jobs use by reference, sealed with a key that is not in the database."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from ...domain.errors import InvalidFieldError
from ..text import iso
from .output import answer
from .session import open_log
from .settings import shared_options
from .terminal import table

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEAD: Final = ("REFERENCE", "CHANGED")
_VALUE_LIMIT: Final = 64 * 1024
_TENANT: Final = click.option("--tenant", default="default", show_default=True, help="Whose it is.")


@click.group(name="credentials", invoke_without_command=True)
@_TENANT
@shared_options()
@click.pass_context
def credentials_command(ctx: click.Context, *, tenant: str) -> None:
    """Keep secret values for jobs, sealed; jobs say cred:NAME."""
    if ctx.invoked_subcommand is None:
        _list(tenant)


@credentials_command.command(name="key")
@shared_options()
def key_command() -> None:
    """Make a key for JOBLOG_SECRET_KEY; keep it away from the database."""
    from ...workers.outbound.sealing import new_key

    key = new_key()
    answer({"key": key}, key)


@credentials_command.command(name="set")
@click.argument("name")
@_TENANT
@shared_options()
def set_command(*, name: str, tenant: str) -> None:
    """Keep the value that is typed unseen, or piped in, as cred:NAME; an older one is replaced."""
    from ...workers.outbound.secrets import Secrets

    value = _value(name)
    with open_log() as log, _told_as_refusal():
        Secrets(os.environ, log.store).keep(name, value, tenant=tenant)
    answer({"reference": f"cred:{name}", "tenant": tenant}, f"kept as cred:{name}")


def _value(name: str) -> str:
    if sys.stdin.isatty():
        value = str(click.prompt(f"value of {name}", hide_input=True, err=True))
    else:
        value = sys.stdin.read(_VALUE_LIMIT + 1).removesuffix("\n").removesuffix("\r")
    if not 0 < len(value) <= _VALUE_LIMIT:
        raise InvalidFieldError("value", "empty, or too long", f"give 1 to {_VALUE_LIMIT:,} characters on stdin")
    return value


@contextmanager
def _told_as_refusal() -> Iterator[None]:
    """What pauses a job is a refusal here."""
    from ...workers.errors import NeedsOperator

    try:
        yield
    except NeedsOperator as error:
        raise InvalidFieldError("key", str(error), "see `joblog credentials key --help`") from None


@credentials_command.command(name="list")
@_TENANT
@shared_options()
def list_command(*, tenant: str) -> None:
    """List the references; values are never shown."""
    _list(tenant)


def _list(tenant: str) -> None:
    from ...eventstore.credentials import listed

    with open_log(reading=True) as log:
        rows = listed(log.store, tenant)
    items = [{"reference": f"cred:{name}", "changed_at": iso(changed)} for name, changed in rows]
    answer({"items": items}, *table(_HEAD, [[str(one["reference"]), str(one["changed_at"])] for one in items]))


@credentials_command.command(name="remove")
@click.argument("name")
@_TENANT
@shared_options()
def remove_command(*, name: str, tenant: str) -> None:
    """Forget a value; jobs that need it are paused at their next use."""
    from ...eventstore.credentials import remove

    with open_log() as log:
        is_gone = remove(log.store, tenant, name)
    answer({"removed": is_gone}, f"removed cred:{name}" if is_gone else f"there was no cred:{name}")
