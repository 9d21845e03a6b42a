"""`epoch`: what an operator says after a restore or a failover."""

from __future__ import annotations

import click

from .output import answer
from .session import actor, open_log
from .settings import shared_options


@click.group(name="epoch")
def epoch_command() -> None:
    """Accept a log that was restored or failed over."""


@epoch_command.command(name="raise")
@click.option("--reason", required=True, help="Why; it is written into the log.")
@shared_options()
def raise_command(*, reason: str) -> None:
    """Start a new epoch: every lease and cursor of the older one is void."""
    with open_log() as log:
        epoch = log.raise_epoch(actor(reason=reason), reason=reason)
        head = log.store.head()
    answer(
        {"epoch": epoch, "position": head}, f"epoch {epoch} begins behind position {head:,}; open every worker again"
    )
