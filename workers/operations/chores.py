"""Jobs about the log itself, handed in over HTTP: commands to many jobs, verifications, rebuilds.

They have a queue of their own, so that neither a paused queue nor one full of work holds them up.  The service runs them;
so does `joblog worker --queue joblog`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ..registry import Jobs

QUEUE: Final = "joblog"
PREFIX: Final = "joblog."  #: of their kinds; nobody hands them in but the way in that checks rights


def register(jobs: Jobs) -> None:
    """Add them all."""
    from ...domain.retry import RetryPolicy
    from . import bulk, care, queue_bulk

    patient = RetryPolicy(first_seconds=2.0, ceiling_seconds=60.0, retries=20)
    jobs.job(bulk.KIND, queue=QUEUE, priority=0, retry=patient)(bulk.bulk)
    jobs.job(queue_bulk.KIND, queue=QUEUE, priority=0, retry=patient)(queue_bulk.queue_bulk)
    jobs.job(care.VERIFY, queue=QUEUE, retry=patient)(care.verify)
    jobs.job(care.REBUILD, queue=QUEUE, retry=patient)(care.rebuild)
    jobs.job(care.DIFF, queue=QUEUE, retry=patient)(care.diff)
