"""`heads`: what the log promises to have been, signed under a key that does not lie in the database."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ...domain.errors import InvalidFieldError, StoreBusyError, StoreUnavailableError, UnknownOutcomeError
from ..text import clean, iso
from .output import answer, emit, say
from .session import open_log
from .settings import current, shared_options
from .terminal import table

if TYPE_CHECKING:
    from ...projections.proof.notes import Signer
    from ...workers.commands.log import JobLog

_HEAD: Final = ("EPOCH", "SIZE", "SIGNED", "ROOT")
_KEY: Final = "JOBLOG_SIGNING_KEY"
_KEY_OPTION: Final = click.option(
    "--key",
    envvar=_KEY,
    show_envvar=True,
    metavar="FILE",
    help="The signing key's file, as FILE or file:FILE; keep it away from the database.",
)


@click.group(name="heads", invoke_without_command=True)
@shared_options()
@click.pass_context
def heads_command(ctx: click.Context) -> None:
    """Sign the log, and list what was signed."""
    if ctx.invoked_subcommand is None:
        _list()


@heads_command.command(name="list")
@shared_options()
def list_command() -> None:
    """Show the heads that lie in the database."""
    _list()


def _list() -> None:
    from ...eventstore.proof_rows import proof_rows
    from ...projections.proof.notes import parsed

    with open_log(reading=True) as log:
        rows = proof_rows(log.store).heads()
    items: list[dict[str, Any]] = []
    for row in rows:
        root = parsed(row.note)[0].root.hex()
        items.append(
            {"epoch": row.epoch, "size": row.size, "signed_at": iso(row.signed_at), "root": root, "note": row.note}
        )
    cells = [[f"{one['epoch']}", f"{one['size']:,}", str(one["signed_at"]), one["root"][:16]] for one in items]
    answer({"items": items}, *table(_HEAD, cells))


@heads_command.command(name="show")
@shared_options()
def show_command() -> None:
    """Print the newest head as a note, to be kept elsewhere (joblog heads show >> kept.heads)."""
    from ...eventstore.proof_rows import proof_rows

    with open_log(reading=True) as log:
        row = proof_rows(log.store).last_head()
    if row is None:
        raise InvalidFieldError("heads", "nothing was signed yet", "joblog heads sign")
    if current().as_json:
        emit({"note": row.note})
    else:
        click.echo(row.note, nl=False)


@heads_command.command(name="keygen")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--name", default="joblog", show_default=True, help="The key's name, such as log.example.org/prod.")
@shared_options()
def keygen_command(*, file: Path, name: str) -> None:
    """Make a signing key, and beside it FILE.pub for those who check."""
    from ...projections.proof.notes import Signer

    signer = Signer.generate(name)
    signer.save(file)
    document = {"file": str(file), "public": str(signer.verifier)}
    answer(document, f"the key is in {file}; keep it away from the database", f"public key: {signer.verifier}")


@heads_command.command(name="sign")
@_KEY_OPTION
@click.option(
    "--every", type=click.FloatRange(min=1), metavar="SECONDS", help="Go on, and sign whenever there is more."
)
@shared_options()
def sign_command(*, key: str | None, every: float | None) -> None:
    """Sign the log as it stands; what was signed is also kept in FILE.heads, beside the key.

    Refuses, with 5, if any earlier head says otherwise: then the log was changed or put back.
    """
    from ...projections.proof.notes import Signer

    path = _key_file(key)
    signer = Signer.load(path)
    with open_log() as log:
        _sign(log, signer, path, quiet=False)
        while every is not None:
            _wait(every)
            try:
                _sign(log, signer, path, quiet=True)
            except (StoreBusyError, StoreUnavailableError, UnknownOutcomeError) as error:
                say(f"the database does not answer: {clean(str(error))}; trying again")


def _wait(seconds: float) -> None:
    threading.Event().wait(seconds)


def _key_file(key: str | None) -> Path:
    if not key:
        raise InvalidFieldError("key", "no signing key", f"give --key FILE, or set {_KEY}")
    return Path(key.removeprefix("file:"))


def _sign(log: JobLog, signer: Signer, path: Path, *, quiet: bool) -> None:
    from ...projections.proof.heads import sign

    signing = sign(log.store, signer, path.with_name(path.name + ".heads"))
    if signing is None:
        if not quiet:
            answer({"size": 0, "new": False}, "the log is empty: there is nothing to sign")
        return
    if signing.is_new or not quiet:
        head = signing.signed.head
        document = {"epoch": head.epoch, "size": head.size, "root": head.root.hex(), "new": signing.is_new}
        said = "signed" if signing.is_new else "signed before"
        answer(document | {"note": signing.signed.note}, f"{said}: {head.size:,} events, root {head.root.hex()}")
