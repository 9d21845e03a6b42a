"""`projections`: what is derived from the log; it can be looked at, rebuilt beside the live one, and verified."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any, Final

import click

from ..text import clean, counted, iso
from .exits import Exit
from .measure import Measure
from .output import answer
from .progress import Progress
from .session import open_log
from .settings import shared_options
from .terminal import table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...projections.verify import Difference
    from ...workers.commands.log import JobLog

_NAME: Final = click.argument("name", type=click.Choice(["jobs"]))
_HEAD: Final = ("PROJECTION", "POSITION", "BEHIND", "GENERATION", "REBUILD")
_TOLD: Final = 100  #: differences that are shown; the others are counted
_PAGE: Final = 500


@click.group(name="projections", invoke_without_command=True)
@shared_options()
@click.pass_context
def projections_command(ctx: click.Context) -> None:
    """List, rebuild and verify what is derived from the log."""
    if ctx.invoked_subcommand is None:
        _list()


@projections_command.command(name="list")
@shared_options()
def list_command() -> None:
    """Show each projection and how far it has come."""
    _list()


def _list() -> None:
    from ...eventstore import inspection

    with open_log(reading=True) as log:
        state, followers = log.store.state(), inspection.followers(log.store)
        rebuild, now = inspection.rebuild(log.store), log.store.now()
    # The job table is written in the transaction of each append: it is never behind.
    jobs: dict[str, Any] = {"name": "jobs", "position": state.head, "behind": 0, "generation": state.generation}
    jobs["rebuild"] = None
    if rebuild is not None:
        alive = {"owner": rebuild.owner, "alive_until": iso(rebuild.alive_until), "alive": rebuild.alive_until > now}
        jobs["rebuild"] = {"position": rebuild.position, **alive}
    items = [jobs]
    for name, position in followers.items():
        items.append({"name": name, "position": position, "behind": max(state.head - position, 0), "rebuild": None})
    answer({"items": items, "head": state.head}, *table(_HEAD, [_cells(one) for one in items]))


def _cells(one: dict[str, Any]) -> list[str]:
    rebuild = one["rebuild"]
    said = ""
    if rebuild is not None:
        said = f"{clean(rebuild['owner'])} at {rebuild['position']:,}"
        said += "" if rebuild["alive"] else ", dead: the next rebuild goes on there"
    return [clean(one["name"]), f"{one['position']:,}", f"{one['behind']:,}", str(one.get("generation", "")), said]


@projections_command.command(name="rebuild")
@_NAME
@shared_options()
def rebuild_command(*, name: str) -> None:
    """Fold the whole log into a new generation beside the live one, then switch; workers go on meanwhile."""
    from ...projections import rebuild

    with open_log() as log:
        progress = Progress("rebuilding")
        owner = f"{socket.gethostname()}:{os.getpid()}"
        position = rebuild.rebuild(
            log.store,
            log.mapper,
            owner,
            report=lambda step: progress.update(Measure(step.position, step.head, "event")),
        )
        progress.end()
        generation = log.store.state().generation
    document = {"name": name, "position": position, "generation": generation}
    answer(document, f"{name} was rebuilt up to position {position:,}; generation {generation} is live")


@projections_command.command(name="verify")
@_NAME
@click.option("--units", is_flag=True, help="Also compare every stored unit result with its event.")
@shared_options()
def verify_command(*, name: str, units: bool) -> Exit:
    """Compare every row with the fold of its events; ends with 5 if any differs."""
    with open_log(reading=True) as log:
        progress, count = Progress("verifying"), 0
        told: list[Difference] = []
        for difference in _differences(log, progress, units=units):
            count += 1
            if len(told) < _TOLD:
                told.append(difference)
        progress.end()
        position = log.store.head()
    document = {"name": name, "position": position, "differences": count}
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


def _differences(log: JobLog, progress: Progress, *, units: bool) -> Iterator[Difference]:
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
        progress.update(Measure(position, max(head, position), "event"))


@projections_command.command(name="drop-old")
@_NAME
@shared_options()
def drop_old_command(*, name: str) -> None:
    """Empty the generation that is not live, which a rebuild left behind."""
    with open_log() as log:
        log.store.rebuild_drop_old()
        generation = log.store.state().generation
    answer({"name": name, "generation": generation}, f"only generation {generation} of {name} is kept")
