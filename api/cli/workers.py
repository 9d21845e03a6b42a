"""`workers`: who holds jobs now."""

from __future__ import annotations

from typing import Final

import click

from ..text import clean, span
from .door import open_door
from .output import answer, say
from .settings import shared_options
from .terminal import table

_HEAD: Final = ("WORKER", "JOBS", "FIRST LEASE ENDS IN")


@click.command(name="workers")
@shared_options()
def workers_command() -> None:
    """List the workers that hold jobs now."""
    with open_door(reading=True) as door:
        document = door.workers()
    rows = [[clean(one["worker"]), f"{one['jobs']:,}", span(one["seconds_left"])] for one in document["items"]]
    answer(document, *table(_HEAD, rows))
    if not rows:
        say("No worker holds a job.")
