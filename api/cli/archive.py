"""`archive` and `archives`: bodies of finished jobs in files beside the log."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ...domain.errors import InvalidFieldError
from ..instants import parse_instant
from ..text import clean, counted
from .door import open_door
from .output import answer
from .session import actor, open_log
from .settings import shared_options
from .terminal import table
from .verify import public_key

if TYPE_CHECKING:
    from datetime import datetime

    from ...projections.archive.plan import Plan
    from ...workers.commands.archiving import Made

_FOLDER: Final = click.Path(file_okay=False, path_type=Path)
_HEAD: Final = ("ARCHIVE", "POSITIONS", "EVENTS", "HERE", "FOLDER")
_MOST: Final = 10_000


@click.command(name="archive")
@click.option(
    "--before",
    "before",
    required=True,
    metavar="INSTANT|DAYS",
    help="Jobs that ended before then, or so many days ago.",
)
@click.option("--to", "folder", type=_FOLDER, required=True, metavar="DIR", help="Where the archive is put.")
@click.option(
    "--most", type=click.IntRange(min=1), default=_MOST, show_default=True, help="Events of one archive, at most."
)
@click.option(
    "--key", default="", envvar="JOBLOG_VERIFY_KEY", metavar="KEY", help="The public key of the heads, or its file."
)
@click.option("--dry-run", is_flag=True, help="Only say what it would be.")
@shared_options()
def archive_command(*, before: str, folder: Path, most: int, key: str, dry_run: bool) -> None:
    """Move the bodies of jobs that ended for good into a file that the log can check.

    Only of whole jobs, completed or cancelled, whose last event a signed head covers (`joblog heads sign`; with --key its
    signature is checked).  The log keeps the
    rows: positions, ids, versions and proofs stay, and whoever reads a body gets it from the file.  One archive a run; run it
    again for more.  A backup of the log does not hold the archives: keep them as you keep backups.
    """
    from ...projections.archive.plan import plan
    from ...workers.commands.archiving import Made, archive

    verifier = public_key(key)
    with open_log() as log:
        instant = _instant(before, log.now())
        at = round(instant.timestamp() * 1_000_000)
        if dry_run:
            _tell(Made(plan(log.store, at, most, verifier), None, 0), folder, dry_run=True)
        else:
            _tell(archive(log, actor(), folder, before=at, most=most, verifier=verifier), folder)


def _instant(text: str, now: datetime) -> datetime:
    from datetime import timedelta

    if text.isdecimal():
        return now - timedelta(days=int(text[:6]))
    instant = parse_instant(text, "before", now).astimezone(UTC)
    if instant > now:
        raise InvalidFieldError("before", f"{text[:40]!r} has not come yet", "give an instant that has passed, or days")
    return instant


def _tell(made: Made, folder: Path, *, dry_run: bool = False) -> None:
    chosen, manifest = made.plan, made.manifest
    document: dict[str, Any] = {"archive": manifest and manifest.name, "position": made.position or None}
    document |= {"streams": len(chosen.streams), "events": len(chosen.positions), "dry_run": dry_run}
    document |= {"first": chosen.positions[0] if chosen.positions else None}
    document |= {"last": chosen.positions[-1] if chosen.positions else None}
    document |= {"more": chosen.left, "too_big": chosen.too_big, "folder": str(folder.absolute())}
    document |= {"digest": manifest and manifest.digest}
    answer(document, *_lines(made, chosen, folder, dry_run=dry_run))


def _lines(made: Made, chosen: Plan, folder: Path, *, dry_run: bool) -> list[str]:
    lines: list[str] = []
    if not chosen.streams:
        lines.append("nothing to archive: no job that ended before then is covered by a signed head")
    else:
        what = f"{counted(len(chosen.positions), 'event')} of {counted(len(chosen.streams), 'job')}"
        where = f"positions {chosen.positions[0]:,} to {chosen.positions[-1]:,}"
        if made.manifest is None or dry_run:
            lines.append(f"would archive {what}, {where}")
        else:
            lines.append(f"{made.manifest.name}: {what}, {where}, in {folder}")
    if chosen.left:
        lines.append("there is more: run it again")
    if chosen.too_big:
        lines.append(
            f"{counted(chosen.too_big, 'job')} with more events than one archive may have: give a higher --most"
        )
    return lines


@click.group(name="archives", invoke_without_command=True)
@shared_options()
@click.pass_context
def archives_command(ctx: click.Context) -> None:
    """List archives, and whether their files are at hand; say where one is by now."""
    if ctx.invoked_subcommand is None:
        _list()


@archives_command.command(name="list")
@shared_options()
def list_command() -> None:
    """Show each archive, and whether its file is at hand."""
    _list()


def _list() -> None:
    with open_door(reading=True) as door:
        document = door.archives()
    answer(document, *table(_HEAD, [_cells(one) for one in document["items"]]))


@archives_command.command(name="moved")
@click.argument("name")
@click.option("--to", "folder", type=_FOLDER, required=True, metavar="DIR", help="Where it is by now.")
@shared_options()
def moved_command(*, name: str, folder: Path) -> None:
    """Say that an archive is in another folder by now; what it holds is what the log has recorded, wherever it is."""
    from ...eventstore.archive_rows import archive_rows
    from .. import documents

    with open_log() as log:
        if not archive_rows(log.store).move(name, str(folder.absolute())):
            raise InvalidFieldError("name", f"there is no archive {name[:60]!r}", "see `joblog archives`")
        [one] = [one for one in documents.archives(log)["items"] if one["name"] == name]
    said = "it is there" if one["here"] else "it is not there yet"
    answer(one, clean(f"{name} is looked for in {folder.absolute()}: {said}"))


def _cells(one: dict[str, Any]) -> list[str]:
    where = f"{one['first']:,} to {one['last']:,}"
    return [one["name"], where, f"{one['events']:,}", "yes" if one["here"] else "no", clean(one["folder"])]
