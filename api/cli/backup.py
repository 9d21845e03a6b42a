"""`backup` and `restore`: whole copies of the log, made while it is written."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ...domain.errors import InvalidFieldError
from ..text import clean, counted, size
from .output import answer
from .session import check_place, database, file_of, open_log, user
from .settings import shared_options
from .terminal import table

if TYPE_CHECKING:
    from ...projections.backup.generations import Generation

_FOLDER: Final = click.Path(file_okay=False, path_type=Path)
_HEAD: Final = ("BACKUP", "KIND", "EPOCH", "HEAD", "SIZE", "REASON")


@click.command(name="backup")
@click.argument("folder", type=_FOLDER)
@click.option("--keep", type=click.IntRange(min=1), default=7, show_default=True, help="How many backups to keep.")
@click.option("--reason", default="", help="Why; it is kept with the backup.")
@click.option("--list", "only_list", is_flag=True, help="Only show the backups that are there.")
@shared_options()
def backup_command(*, folder: Path, keep: int, reason: str, only_list: bool) -> None:
    """Make a verified copy of the log while it is written.

    SQLite: of the whole database.  PostgreSQL: of the events; for all of it use pg_basebackup and WAL archiving, and say
    `joblog epoch raise` after a restore.
    """
    from ...projections.backup.generations import Folder
    from ...projections.backup.make import backup

    if only_list:
        found = Folder(folder).generations()
        answer({"items": [_document(one) for one in found]}, *table(_HEAD, [_cells(one) for one in found]))
        return
    with open_log() as log:
        made = backup(log.store, folder, reason=reason, keep=keep)
    said = f"{made.name}: {made.manifest.head:,} events, {size(made.manifest.packed_bytes)}, verified"
    answer(_document(made), said, *_needs(made))


def _needs(made: Generation) -> list[str]:
    names = made.manifest.archives
    return [clean(f"it needs {counted(len(names), 'archive')} besides: {', '.join(names)}")] if names else []


def _document(made: Generation) -> dict[str, Any]:
    return {"name": made.name, **asdict(made.manifest)}


def _cells(made: Generation) -> list[str]:
    about = made.manifest
    numbers = [str(about.epoch), f"{about.head:,}", size(about.packed_bytes)]
    return [made.name, about.kind, *numbers, clean(about.reason)]


@click.command(name="restore")
@click.argument("folder", type=_FOLDER)
@click.option("--backup", "name", default="", metavar="NAME", help="Which one; by default the newest.")
@click.option("--reason", required=True, help="Why; it is written into the log.")
@click.option("--request-id", default="", metavar="ID", help="The same id again restores nothing a second time.")
@shared_options()
def restore_command(*, folder: Path, name: str, reason: str, request_id: str) -> None:
    """Put a backup in the place of the log, under a new epoch; what was there is kept beside it.

    Stop every process that has the log open before.  Into PostgreSQL: `joblog import-log`, into an empty database.
    """
    from ...domain import storable
    from ...eventstore.clock import SystemClock, SystemIds
    from ...eventstore.mapper import OrjsonMapper, OrjsonTranscoder
    from ...projections.backup.restore import Request, SqliteRestore, choose

    target = file_of(database())
    if target is None:
        raise InvalidFieldError("database", "only an SQLite file is restored", "use `joblog import-log` on PostgreSQL")
    check_place(target)
    restore = SqliteRestore(target, OrjsonMapper(OrjsonTranscoder()), SystemClock(), SystemIds())
    chosen = choose(folder, name)
    made = restore.run(chosen, Request(user(), storable.text(reason), request_id))
    document = {"backup": made.generation, "head": made.head, "epoch": made.epoch, "new": made.is_new}
    kept = f"; what was there is in {made.kept}" if made.kept else ""
    said = f"{made.generation} is in place, epoch {made.epoch} begins behind position {made.head:,}{kept}"
    if not made.is_new:
        said = f"request {request_id} was carried out before, with {made.generation}; nothing was done"
    document |= {"kept": str(made.kept) if made.kept else None, "archives": chosen.manifest.archives}
    answer(document, said, *_needs(chosen))
