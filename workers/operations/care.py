"""``joblog.verify``, ``joblog.rebuild``, ``joblog.diff``: what is too long for one request about the log, as jobs."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import msgspec

from ...domain.errors import RebuildRunningError
from ..errors import RetryLater

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...projections.rebuild import Progress
    from ..commands.log import JobLog
    from ..run import SyncRun

    Report = Callable[[int, int], None]

VERIFY: Final = "joblog.verify"
REBUILD: Final = "joblog.rebuild"
DIFF: Final = "joblog.diff"


class Verify(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What ``joblog.verify`` takes: nothing for the whole log."""

    first: int | None = None
    last: int | None = None
    job: UUID | None = None


class Projection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the other two take."""

    name: str
    units: bool = True  #: stored unit results are compared, too


def verify(run: SyncRun, args: Verify) -> dict[str, Any]:
    """Hold the log, a range or a job against its tree and the heads that lie in the database."""
    from ...projections.proof.known import (
        check,
    )  # here, not above: a worker that verifies nothing needs no cryptography

    return run.step("check", lambda: check(run.store, job=args.job, first=args.first, last=args.last).document())


def rebuild(run: SyncRun, args: Projection) -> dict[str, Any]:
    """Fold the log into a new generation, then switch; killed, it goes on where it was."""
    return run.step("rebuild", _rebuilt, run, args.name)


def _rebuilt(run: SyncRun, name: str) -> dict[str, Any]:
    try:
        return rebuilt(run.log, name, f"job {run.job_id}")
    except RebuildRunningError as error:
        raise RetryLater("rebuild-running", str(error), after=timedelta(seconds=5), category="storage") from error


def rebuilt(log: JobLog, name: str, owner: str, report: Report | None = None) -> dict[str, Any]:
    """Rebuild the job table or a view; *report* is told how many events are folded, of how many."""
    from ...projections import rebuild as job_rebuild
    from ...projections import view_rebuild
    from ...projections.compare import JOBS
    from ...projections.views import VIEWS

    def told(step: Progress) -> None:
        if report is not None:
            report(step.position, max(step.head, step.position))

    if name == JOBS:
        position = job_rebuild.rebuild(log.store, log.mapper, owner, report=told)
        return {"name": name, "position": position, "generation": log.store.state().generation}
    position = view_rebuild.rebuild(log.store, log.mapper, VIEWS[name], owner, report=told)
    standing = log.store.views.standings().get(name)
    return {"name": name, "position": position, "generation": standing.generation if standing else 0}


def diff(run: SyncRun, args: Projection) -> dict[str, Any]:
    """The rows that are not what the log says: how many, and the first of them."""
    from ...projections.compare import compare

    return run.step("compare", lambda: compare(run.log.store, run.log.mapper, args.name, units=args.units))
