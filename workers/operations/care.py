"""``joblog.verify``, ``joblog.rebuild``, ``joblog.diff``: what is too long for one request about the log, as jobs.

Each runs in a process of its own, so that who serves or works beside it goes on.
"""

from __future__ import annotations

import os
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

import msgspec

from ...domain.errors import RebuildRunningError
from ...eventstore.sql_store import SqlStore
from ..errors import RetryLater, Stopped
from ..process_unit import in_process

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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


#: The key under which they exclude each other: one at a time folds or hashes the whole log.
ONE: Final = "joblog.care"
_LOWER: Final = 10  #: by so much is their priority lower than that of the process that serves


def verify(run: SyncRun, args: Verify) -> dict[str, Any]:
    """Hold the log, a range or a job against its tree and the heads that lie in the database."""
    return apart(run, "check", _checked, args.first, args.last, args.job)


def rebuild(run: SyncRun, args: Projection) -> dict[str, Any]:
    """Fold the log into a new generation, then switch; killed, it goes on where it was."""
    return apart(run, "rebuild", _rebuilt, args.name, f"job {run.job_id}")


def diff(run: SyncRun, args: Projection) -> dict[str, Any]:
    """The rows that are not what the log says: how many, and the first of them."""
    return apart(run, "compare", _compared, args.name, args.units)


# -- in a process of its own -------------------------------------------------------------------------------------------


def apart(run: SyncRun, step: str, look: Callable[..., dict[str, Any]], *args: Any) -> dict[str, Any]:
    """A step that takes a processor for long: in a process of lower priority, which ends when the job is to stop."""
    store = run.log.store
    if not isinstance(store, SqlStore):
        return run.step(step, look, run.log, *args)
    url = store.engine.url.render_as_string(hide_password=False)
    opened = Opened(url, bool(getattr(store, "pooler_safe", False)), next(iter(store.bodies.files.folders), None))
    return run.step(step, in_process(_in_child, watch=partial(_stop_if_wished, run)), opened, look, *args)


def _stop_if_wished(run: SyncRun) -> None:
    row = run.log.store.job(run.job_id)
    if row is not None and row["wish"]:
        raise Stopped("wish")


class Opened(NamedTuple):
    """How the log was opened, to be opened again."""

    url: str
    pooler_safe: bool
    archives: Path | None


def _in_child(opened: Opened, look: Callable[..., dict[str, Any]], *args: Any) -> dict[str, Any]:
    from ..commands.log import JobLog

    os.nice(_LOWER)
    with JobLog.open(opened.url, pooler_safe=opened.pooler_safe, archives=opened.archives) as log:
        return look(log, *args)


def _checked(log: JobLog, first: int | None, last: int | None, job: UUID | None) -> dict[str, Any]:
    from ...projections.proof.known import check  # here: a worker that verifies nothing needs no cryptography

    return check(log.store, job=job, first=first, last=last).document()


def _compared(log: JobLog, name: str, units: bool) -> dict[str, Any]:  # noqa: FBT001 - as it is handed over
    from ...projections.compare import compare

    made: dict[str, Any] = compare(log.store, log.mapper, name, units=units)
    return made


def _rebuilt(log: JobLog, name: str, owner: str) -> dict[str, Any]:
    try:
        return rebuilt(log, name, owner)
    except RebuildRunningError as error:
        raise RetryLater("rebuild-running", str(error), after=timedelta(seconds=5), category="storage") from None


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
