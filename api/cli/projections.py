"""`projections`: what is derived from the log; it can be looked at, followed, rebuilt beside the live one, and verified."""

from __future__ import annotations

from typing import Any, Final

import click

from ..text import clean, counted, span
from . import projections_check as check
from .door import open_door
from .exits import Exit
from .output import answer, say
from .session import database, open_log, shown
from .settings import shared_options
from .terminal import table

_HEAD: Final = ("PROJECTION", "POSITION", "BEHIND", "LAG", "GENERATION", "STATE")


@click.group(name="projections", invoke_without_command=True)
@shared_options()
@click.pass_context
def projections_command(ctx: click.Context) -> None:
    """List, follow, rebuild and verify what is derived from the log."""
    if ctx.invoked_subcommand is None:
        _list()


for _command in (check.rebuild_command, check.verify_command, check.diff_command, check.drop_old_command):
    projections_command.add_command(_command)

# -- list ------------------------------------------------------------------------------------------------------------


@projections_command.command(name="list")
@shared_options()
def list_command() -> None:
    """Show each projection, how far it has come, and what stands in its way."""
    _list()


def _list() -> None:
    with open_door(reading=True) as door:
        document = door.projections()
    answer(document, *table(_HEAD, [_cells(one) for one in document["items"]]))


def _cells(one: dict[str, Any]) -> list[str]:
    lag = span(one["seconds"]) if one.get("seconds") else ""
    generation = str(one.get("generation", ""))
    return [clean(one["name"]), f"{one['position']:,}", f"{one['behind']:,}", lag, generation, _state(one)]


def _state(one: dict[str, Any]) -> str:
    said: list[str] = []
    if one.get("stopped_at") is not None:
        said.append(f"stopped at {one['stopped_at']:,}: {clean(one['reason'])}")
    if one.get("owner"):
        said.append(f"followed by {clean(one['owner'])}")
    if (rebuild := one["rebuild"]) is not None:
        dead = "" if rebuild["alive"] else ", dead: the next rebuild goes on there"
        said.append(f"rebuilt by {clean(rebuild['owner'])} at {rebuild['position']:,}{dead}")
    return "; ".join(said)


# -- run -------------------------------------------------------------------------------------------------------------


@projections_command.command(name="run")
@click.option("--once", is_flag=True, help="Catch up with the log, then end.")
@shared_options()
def run_command(*, once: bool) -> Exit:
    """Follow the log and keep the projections; for a process of its own, as workers do it in a thread."""
    from ...workers.following import Following
    from .signals import Stopping

    with open_log() as log:
        following = Following(log)
        if once:
            events = following.runner.run()
            following.runner.resign()
            answer({"events": events, "head": log.store.head()}, f"caught up: {counted(events, 'event')} read")
            return Exit.DONE
        say(f"following {shown(database())}; stop it with Ctrl-C")
        with Stopping(following) as stopping:
            following.run()
    answer({"stopped_by": stopping.received})
    return stopping.end
