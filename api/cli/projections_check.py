"""`projections rebuild`, `verify`, `diff` and `drop-old`: making rows new from the log, and checking them against it."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any, Final

import click

from ..text import clean, counted
from .exits import Exit
from .measure import Measure
from .output import answer
from .progress import Progress
from .session import open_log
from .settings import shared_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...projections.rebuild import Progress as Step
    from ...projections.verify import Difference
    from ...projections.view_verify import RowDifference
    from ...workers.commands.log import JobLog

JOBS: Final = "jobs"
#: By name, so that no command has to import a view to know what there is; a test compares.
NAMES: Final = (JOBS, "counters", "versions", "recovery", "security", "failures", "schedule")
_NAME: Final = click.argument("name", type=click.Choice(NAMES))
_TOLD: Final = 100  #: differences that are shown; the others are counted
_PAGE: Final = 500


# -- rebuild ---------------------------------------------------------------------------------------------------------


@click.command(name="rebuild")
@_NAME
@shared_options()
def rebuild_command(*, name: str) -> None:
    """Fold the whole log into a new generation beside the live one, then switch; workers go on meanwhile."""
    with open_log() as log:
        progress = Progress("rebuilding")
        owner = f"{socket.gethostname()}:{os.getpid()}"
        position = _rebuild(log, name, owner, _reporting(progress))
        progress.end()
        generation = _generation(log, name)
    document = {"name": name, "position": position, "generation": generation}
    answer(document, f"{name} was rebuilt up to position {position:,}; generation {generation} is live")


def _reporting(progress: Progress) -> Callable[[Step], None]:
    return lambda step: progress.update(Measure(step.position, max(step.head, step.position), "event"))


def _rebuild(log: JobLog, name: str, owner: str, report: Callable[[Step], None]) -> int:
    from ...projections import rebuild, view_rebuild
    from ...projections.views import VIEWS

    if name == JOBS:
        return rebuild.rebuild(log.store, log.mapper, owner, report=report)
    return view_rebuild.rebuild(log.store, log.mapper, VIEWS[name], owner, report=report)


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
    with open_log(reading=True) as log:
        if name == JOBS:
            return _verify_jobs(log, units=units)
        found = [_verified_jobs(log, units=units)] if name is None else []
        found += [_verified(log, one, lambda _: None) for one in NAMES[1:] if name in {None, one}]
    lines = [
        f"{one['name']}: {counted(one['rows'], 'row')} up to position {one['position']:,}, "
        + ("as the log says" if not one["differences"] else counted(one["differences"], "difference"))
        for one in found
    ]
    answer({"items": found} if name is None else found[0], *lines)
    return Exit.CHECK_FAILED if any(one["differences"] for one in found) else Exit.DONE


@click.command(name="diff")
@_NAME
@shared_options()
def diff_command(*, name: str) -> Exit:
    """Print the rows that are not what the log says; ends with 5 if there are any."""
    with open_log(reading=True) as log:
        if name == JOBS:
            return _verify_jobs(log, units=True)
        told: list[RowDifference] = []

        def tell(one: RowDifference) -> None:
            if len(told) < _TOLD:
                told.append(one)

        document = _verified(log, name, tell)
    document["items"] = [
        {"table": one.table, "key": [_text(part) for part in one.key], "columns": one.columns}
        | {"stored": _plain(one.stored), "log": _plain(one.folded)}
        for one in told
    ]
    lines = [line for one in told for line in _told(one)]
    if document["differences"] > len(told):
        lines.append(f"… and {document['differences'] - len(told):,} more rows")
    lines.append(f"{counted(document['differences'], 'difference')} up to position {document['position']:,}")
    answer(document, *lines)
    return Exit.CHECK_FAILED if document["differences"] else Exit.DONE


def _told(one: RowDifference) -> Iterator[str]:
    where = f"{one.table} {', '.join(str(part) for part in one.key)}"
    if one.stored is None or one.folded is None:
        yield clean(f"{where}: " + ("is missing" if one.stored is None else "is not in the log"))
        return
    for column in one.columns:
        yield clean(f"{where}: {column} is {one.stored[column]!r}, the log says {one.folded[column]!r}")


def _plain(row: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if row is None else {name: _text(value) for name, value in row.items()}


def _verified(log: JobLog, name: str, found: Callable[[RowDifference], None]) -> dict[str, Any]:
    from ...projections.view_verify import verify
    from ...projections.views import VIEWS

    progress = Progress(f"verifying {name}")
    made = verify(log.store, log.mapper, VIEWS[name], report=_reporting(progress), found=found)
    progress.end()
    return {"name": name, **made._asdict()}


def _verified_jobs(log: JobLog, *, units: bool) -> dict[str, Any]:
    progress, jobs = Progress(f"verifying {JOBS}"), [0]
    count = sum(1 for _ in _differences(log, progress, jobs, units=units))
    progress.end()
    return {"name": JOBS, "position": log.store.head(), "rows": jobs[0], "differences": count}


def _verify_jobs(log: JobLog, *, units: bool) -> Exit:
    progress, count = Progress("verifying"), 0
    told: list[Difference] = []
    for difference in _differences(log, progress, [0], units=units):
        count += 1
        if len(told) < _TOLD:
            told.append(difference)
    progress.end()
    position = log.store.head()
    document = {"name": JOBS, "position": position, "differences": count}
    shown = [
        {"job": str(one.job_id), "what": one.what, "stored": _text(one.stored), "log": _text(one.folded)}
        for one in told
    ]
    lines = [clean(f"job {one.job_id}: {one.what} is {one.stored!r}, the log says {one.folded!r}") for one in told]
    if count > len(told):
        lines.append(f"… and {count - len(told):,} more")
    lines.append(f"{counted(count, 'difference')} up to position {position:,}")
    answer(document | {"items": shown}, *lines)
    return Exit.CHECK_FAILED if count else Exit.DONE


def _text(value: Any) -> Any:
    return value if value is None or isinstance(value, int | str) else str(value)


def _differences(log: JobLog, progress: Progress, jobs: list[int], *, units: bool) -> Iterator[Difference]:
    from ...domain.events import Submitted
    from ...projections import verify

    position, head = 0, log.store.head()
    while page := log.store.log(position, _PAGE, topics=(Submitted.TOPIC,)):
        for logged in page:
            row = log.store.job(logged.stream_id)
            if row is None:
                yield verify.Difference(logged.stream_id, "row", None, "a submitted job")
            else:
                yield from verify.compare_row(log.store, log.mapper, row)
            if units:
                yield from verify.unit_differences(log.store, log.mapper, logged.stream_id)
        position = page[-1].position
        jobs[0] += len(page)
        progress.update(Measure(position, max(head, position), "event"))
