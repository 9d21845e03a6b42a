"""`archive` and `archives`: bodies of finished jobs in files beside the log."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ...domain.errors import InvalidFieldError
from ..instants import parse_instant
from ..text import clean, counted
from .output import answer
from .session import actor, open_log
from .settings import shared_options
from .terminal import table

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
@click.option("--dry-run", is_flag=True, help="Only say what it would be.")
@shared_options()
def archive_command(*, before: str, folder: Path, most: int, dry_run: bool) -> None:
    """Move the bodies of jobs that ended for good into a file that the log can check.

    Only of whole jobs, completed or cancelled, whose last event a signed head covers (`joblog heads sign`).  The log keeps the
    rows: positions, ids, versions and proofs stay, and whoever reads a body gets it from the file.  One archive a run; run it
    again for more.  A backup of the log does not hold the archives: keep them as you keep backups.
    """
    from ...projections.archive.plan import plan
    from ...workers.commands.archiving import Made, archive

    with open_log() as log:
        instant = _instant(before, log.now())
        at = round(instant.timestamp() * 1_000_000)
        if dry_run:
            _tell(Made(plan(log.store, at, most), None, 0), folder, dry_run=True)
        else:
            _tell(archive(log, actor(), folder, before=at, most=most), folder)


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


@click.command(name="archives")
@click.option("--moved", default="", metavar="NAME", help="Say that this archive is in another folder by now.")
@click.option("--to", "folder", type=_FOLDER, metavar="DIR", help="The folder.")
@shared_options()
def archives_command(*, moved: str, folder: Path | None) -> None:
    """List archives, and whether their files are at hand; say where one is by now."""
    from ...eventstore.archive_rows import archive_rows
    from .. import documents

    if bool(moved) != (folder is not None):
        raise click.UsageError("give both --moved and --to, or neither")
    with open_log(reading=not moved) as log:
        if folder is not None and not archive_rows(log.store).move(moved, str(folder.absolute())):
            raise InvalidFieldError("moved", f"there is no archive {moved[:60]!r}", "see `joblog archives`")
        document = documents.archives(log)
    answer(document, *table(_HEAD, [_cells(one) for one in document["items"]]))


def _cells(one: dict[str, Any]) -> list[str]:
    where = f"{one['first']:,} to {one['last']:,}"
    return [one["name"], where, f"{one['events']:,}", "yes" if one["here"] else "no", clean(one["folder"])]
