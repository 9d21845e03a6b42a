"""`why`: one paragraph on why a job stands where it stands."""

from __future__ import annotations

import click

from .output import answer
from .session import find_job, open_log
from .settings import shared_options


@click.command(name="why")
@click.argument("job_id", metavar="ID")
@shared_options()
def why_command(*, job_id: str) -> None:
    """Say why a job stands where it stands."""
    from .. import explain

    with open_log(reading=True) as log:
        row = log.row(find_job(log, job_id))
        found = explain.reasons(log, row)
    text = explain.paragraph(row, found)
    reasons = [one.document() for one in found]
    answer({"id": str(row["id"]), "status": row["status"], "text": text, "reasons": reasons}, text)
