"""`init` and `migrate`: a database that this code can use."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import click

from ...domain.errors import StoreUnavailableError
from .exits import Exit
from .output import answer
from .session import check_place, database, file_of, open_log, shown
from .settings import shared_options

if TYPE_CHECKING:
    from collections.abc import Callable

    import sqlalchemy as sa

T = TypeVar("T")


@click.command(name="init")
@shared_options()
def init_command() -> None:
    """Make the database ready; safe to repeat."""
    from ...eventstore import inspection

    url = database()
    file = file_of(url)
    check_place(file)
    was_there = file is not None and file.exists()
    with open_log(create=True) as log:
        state, version = log.store.state(), inspection.schema(log.store).version
    new = [] if was_there or file is None else [f"the log is one file, {file.absolute()}; -wal and -shm belong to it"]
    document = {"database": shown(url), "schema": version, "store": str(state.store_id), "position": state.head}
    answer(
        document,
        f"{shown(url)} is ready: schema {version}, {state.head:,} events in the log",
        *new,
    )


@click.command(name="migrate")
@click.option("--check", is_flag=True, help="Change nothing; say what differs, and end with 5 if anything does.")
@click.option("--down", is_flag=True, help="Take the schema away again; refused once the log has events.")
@shared_options()
def migrate_command(*, check: bool, down: bool) -> Exit:
    """Bring the schema to this version, or check it."""
    if check and down:
        raise click.UsageError("--check and --down are two things; choose one")
    url = database()
    check_place(file_of(url))
    if check:
        return _check(url)
    from ...eventstore import migrate

    address = url.render_as_string(hide_password=False)
    if down:
        _reached(lambda: migrate.downgrade(address), url)
        answer({"database": shown(url), "schema": None}, f"{shown(url)} has no job log any more")
        return Exit.DONE
    version = _reached(lambda: migrate.upgrade(address), url)
    answer({"database": shown(url), "schema": version}, f"{shown(url)} is at schema {version}")
    return Exit.DONE


def _check(url: sa.URL) -> Exit:
    from ...eventstore import migrate

    file = file_of(url)
    if file is not None and not file.exists():
        differences = [f"there is no job log at {file.absolute()}"]
    else:
        differences = _reached(lambda: migrate.check(url.render_as_string(hide_password=False)), url)
    lines = differences or [f"{shown(url)} is as this joblog expects it"]
    answer({"database": shown(url), "current": not differences, "differences": differences}, *lines)
    return Exit.CHECK_FAILED if differences else Exit.DONE


def _reached(act: Callable[[], T], url: sa.URL) -> T:
    """Do *act*; a database that can't be opened is a refusal, not a traceback."""
    import sqlalchemy as sa

    try:
        return act()
    except (OSError, sa.exc.OperationalError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error.orig).splitlines()[0]
        raise StoreUnavailableError(f"{shown(url)} can't be opened: {reason}") from error
