"""`export` and `import-log`: the log as a file."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Final

import click

from ..measure import Measure
from .output import answer
from .progress import Progress
from .session import open_log
from .settings import shared_options

_FILE: Final = click.Path(dir_okay=False, path_type=Path)


@click.command(name="export")
@click.option(
    "-o", "--output", "file", type=_FILE, required=True, metavar="FILE", help="Where to; packed if it ends in .gz."
)
@click.option("--from", "first", type=click.IntRange(min=1), default=1, metavar="POSITION", help="From here on.")
@click.option("--to", "last", type=click.IntRange(min=1), metavar="POSITION", help="Up to here; by default all.")
@click.option("--replica", is_flag=True, help="The database is a standby.")
@shared_options()
def export_command(*, file: Path, first: int, last: int | None, replica: bool) -> None:
    """Write the log, or a range of it, into a file that can be checked anywhere.

    Beside it FILE.manifest.json is written last.  Killed, the same command goes on.
    """
    from ...projections.transfer.export import export

    with open_log(reading=replica) as log:
        progress = Progress("exporting")
        made = export(
            log.store,
            file,
            first=first,
            last=last,
            report=lambda done, end: progress.update(Measure(done, end, "event")),
        )
        progress.end()
    document = {name: value for name, value in asdict(made).items() if name not in {"chunks", "before"}}
    answer(
        document,
        f"{made.count:,} events, positions {made.first:,} to {made.last:,}, are in {file}",
        f"root {made.root}",
    )


@click.command(name="import-log")
@click.argument("file", type=_FILE)
@shared_options()
def import_log_command(*, file: Path) -> None:
    """Fill an empty log with an export.

    The events are the same, bit for bit, and so are their proofs; job rows are folded from them, and leases of running jobs
    count as ended.
    """
    from ...projections.transfer.take_in import import_log

    with open_log() as log:
        progress = Progress("importing")
        made = import_log(
            log.store, log.mapper, file, report=lambda done, end: progress.update(Measure(done, end, "event"))
        )
        progress.end()
    document = {"count": made.count, "root": made.root, "store_id": made.store_id, "epoch": made.epoch}
    answer(document, f"{made.count:,} events are in the log, as they were in {made.store_id}", f"root {made.root}")
