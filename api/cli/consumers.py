"""`consumers`: who follows the log under a name."""

from __future__ import annotations

from typing import Final

import click

from ..text import clean
from .door import open_door
from .output import answer
from .session import open_log
from .settings import shared_options
from .terminal import table

_HEAD: Final = ("CONSUMER", "CURSOR", "BEHIND", "MOVED", "")


@click.group(name="consumers", invoke_without_command=True)
@shared_options()
@click.pass_context
def consumers_command(ctx: click.Context) -> None:
    """List who follows the log under a name, and how far each has come."""
    if ctx.invoked_subcommand is None:
        _list()


@consumers_command.command(name="list")
@shared_options()
def list_command() -> None:
    """Show each consumer and its lag."""
    _list()


def _list() -> None:
    with open_door(reading=True) as door:
        document = door.consumers()
    cells = [
        [
            clean(one["name"]),
            one["cursor"],
            f"{one['behind']:,}",
            one["moved_at"],
            "rewound: see `joblog consumers rejoin`" if one["rewound"] else "",
        ]
        for one in document["items"]
    ]
    answer(document, *table(_HEAD, cells))


@consumers_command.command(name="rejoin")
@click.argument("name")
@shared_options()
def rejoin_command(*, name: str) -> None:
    """After the log was put back: let a consumer go on where its log and the present one are still the same."""
    from ...projections.feed.consumers import find

    with open_log() as log:
        consumer = find(log.store, name)
        before = consumer.committed
        after = consumer.rejoin()
    document = {"name": name, "before": str(before), "cursor": str(after)}
    answer(document, f"{clean(name)} was at {before}, and goes on behind {after}")


@consumers_command.command(name="drop")
@click.argument("name")
@shared_options()
def drop_command(*, name: str) -> None:
    """Forget a consumer."""
    with open_door() as door:
        door.drop_consumer(name)
    answer({"name": name}, f"{clean(name)} is forgotten")
