"""`projections rebuild`, `verify`, `diff` and `drop-old`: making rows new from the log, and checking them against it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from ..measure import Measure
from ..text import clean, counted
from .door import open_door
from .exits import Exit
from .output import answer
from .progress import Progress
from .session import open_log
from .settings import shared_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...workers.commands.log import JobLog
    from .door import Door, Report

JOBS: Final = "jobs"
#: By name, so that no command has to import a view to know what there is; a test compares.
NAMES: Final = (JOBS, "counters", "versions", "recovery", "security", "failures", "schedule")
_NAME: Final = click.argument("name", type=click.Choice(NAMES))


# -- rebuild ---------------------------------------------------------------------------------------------------------


@click.command(name="rebuild")
@_NAME
@shared_options()
def rebuild_command(*, name: str) -> None:
    """Fold the whole log into a new generation beside the live one, then switch; workers go on meanwhile."""
    with open_door() as door, _progress("rebuilding") as report:
        document = door.rebuild(name, report)
    position, generation = document["position"], document["generation"]
    answer(document, f"{name} was rebuilt up to position {position:,}; generation {generation} is live")


@contextmanager
def _progress(what: str) -> Iterator[Report]:
    """Where progress is told: over a service none is."""
    progress = Progress(what)
    yield lambda done, end: progress.update(Measure(done, end, "event"))
    progress.end()


def _generation(log: JobLog, name: str) -> int:
    if name == JOBS:
        return log.store.state().generation
    standing = log.store.views.standings().get(name)
    return standing.generation if standing else 0


@click.command(name="drop-old")
@_NAME
@shared_options()
def drop_old_command(*, name: str) -> None:
    """Empty the generations that are not live, which a rebuild left behind."""
    from ...projections import view_rebuild
    from ...projections.views import VIEWS

    with open_log() as log:
        if name == JOBS:
            log.store.rebuild_drop_old()
        elif name in log.store.views.standings():
            view_rebuild.drop_old(log.store, VIEWS[name])
        generation = _generation(log, name)
    answer({"name": name, "generation": generation}, f"only generation {generation} of {name} is kept")


# -- verify and diff -------------------------------------------------------------------------------------------------


@click.command(name="verify")
@click.argument("name", type=click.Choice(NAMES), required=False)
@click.option("--units", is_flag=True, help="Also compare every stored unit result with its event (with `jobs`).")
@shared_options()
def verify_command(*, name: str | None, units: bool) -> Exit:
    """Fold the log again and compare every row with what it makes; ends with 5 if any differs.  Without a name: all."""
    with open_door(reading=True) as door:
        found = [_compared(door, one, units=units) for one in NAMES if name in {None, one}]
    if name == JOBS:
        return _tell(found[0])
    documents = [{key: value for key, value in one.items() if key != "items"} for one in found]
    lines = [
        f"{one['name']}: {counted(one['rows'], 'row')} up to position {one['position']:,}, "
        + ("as the log says" if not one["differences"] else counted(one["differences"], "difference"))
        for one in found
    ]
    answer({"items": documents} if name is None else documents[0], *lines)
    return Exit.CHECK_FAILED if any(one["differences"] for one in found) else Exit.DONE


@click.command(name="diff")
@_NAME
@shared_options()
def diff_command(*, name: str) -> Exit:
    """Print the rows that are not what the log says; ends with 5 if there are any."""
    with open_door(reading=True) as door:
        return _tell(_compared(door, name, units=True))


def _compared(door: Door, name: str, *, units: bool) -> dict[str, Any]:
    with _progress(f"verifying {name}") as report:
        return door.compare(name, units=units, report=report)


def _tell(document: dict[str, Any]) -> Exit:
    lines = [line for one in document["items"] for line in _told(one)]
    if (more := document["differences"] - len(document["items"])) > 0:
        lines.append(f"… and {more:,} more rows")
    lines.append(f"{counted(document['differences'], 'difference')} up to position {document['position']:,}")
    answer(document, *lines)
    return Exit.CHECK_FAILED if document["differences"] else Exit.DONE


def _told(one: dict[str, Any]) -> Iterator[str]:
    if "job" in one:
        yield clean(f"job {one['job']}: {one['what']} is {one['stored']!r}, the log says {one['log']!r}")
        return
    where = f"{one['table']} {', '.join(str(part) for part in one['key'])}"
    if one["stored"] is None or one["log"] is None:
        yield clean(f"{where}: " + ("is missing" if one["stored"] is None else "is not in the log"))
        return
    for column in one["columns"]:
        yield clean(f"{where}: {column} is {one['stored'][column]!r}, the log says {one['log'][column]!r}")
