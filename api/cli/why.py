"""`why`: one paragraph on why a job stands where it stands."""

from __future__ import annotations

import click

from .door import open_door
from .output import answer
from .settings import shared_options


@click.command(name="why")
@click.argument("job_id", metavar="ID")
@shared_options()
def why_command(*, job_id: str) -> None:
    """Say why a job stands where it stands."""
    with open_door(reading=True) as door:
        document = door.why(door.find(job_id))
    answer(document, document["text"])
