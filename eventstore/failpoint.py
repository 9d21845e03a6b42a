"""Named points where a test can kill, fail or stop the process; a dict look-up when off.

Every durable step has one, named ``what.when``.  ``POINTS`` lists them all: the rigs check that each was hit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

POINTS: Final = (
    "append.begin",
    "append.units_inserted",
    "append.rows_written",
    "append.locked",
    "append.events_inserted",
    "append.before_commit",
    "append.after_commit",
    "append.acknowledged",
    "append.diagnosing",
    "claim.begin",
    "claim.selected",
    "claim.before_commit",
    "claim.after_commit",
    "renew.before",
    "renew.after",
    "expire.before",
    "expire.after",
    "promote.before_commit",
    "promote.after_commit",
    "gate.before_commit",
    "gate.after_commit",
    "snapshot.before",
    "snapshot.before_commit",
    "snapshot.after",
    "checkpoint.before",
    "checkpoint.after",
    "outbox.read",
    "outbox.submitted",
    "outbox.deleted",
    "rebuild.begun",
    "rebuild.batch",
    "rebuild.before_switch",
    "rebuild.after_switch",
    "rebuild.dropped",
    "migrate.begin",
    "migrate.statement",
    "migrate.before_commit",
    "migrate.after_commit",
)

#: Points of what follows the log: tree, feed, export, backup.
FOLLOWER_POINTS: Final = (
    "tree.before",
    "tree.before_commit",
    "tree.after",
    "consumer.before",
    "consumer.before_commit",
    "consumer.after",
    "export.chunk",
    "export.written",
    "export.published",
    "import.before_commit",
    "import.after_commit",
    "backup.copied",
    "backup.packed",
    "backup.verified",
    "backup.published",
    "archive.written",
    "archive.verified",
    "archive.published",
    "archive.before_commit",
    "archive.after_commit",
    "restore.verified",
    "restore.raised",
    "restore.kept",
    "restore.replaced",
)

#: Points of the workers, which run on top of the log.
WORKER_POINTS: Final = (
    "worker.claimed",
    "worker.replayed",
    "unit.attempted",
    "unit.before_effect",
    "unit.after_effect",
    "unit.recorded",
    "atomic.rows_written",
    "atomic.before_commit",
    "atomic.committed",
    "marks.before_commit",
    "marks.after_commit",
    "list.stored",
    "list.frozen",
    "import.planned",
    "import.prepared",
    "import.written",
    "retry.classified",
    "retry.stored",
    "job.before_completed",
    "job.completed",
    "shutdown.begun",
    "shutdown.released",
    "startup.begun",
    "startup.present",
)

#: Points of the views that follow the log.
VIEW_POINTS: Final = (
    "view.elected",
    "view.folded",
    "view.rows_written",
    "view.before_commit",
    "view.after_commit",
    "view.rebuild_begun",
    "view.rebuild_batch",
    "view.before_switch",
    "view.after_switch",
    "view.dropped",
    "recovery.read",
    "recovery.appended",
)

_armed: dict[str, Callable[[], None]] = {}


def failpoint(name: str) -> None:
    """Run what a test has armed at *name*; nothing in production."""
    if _armed and (action := _armed.get(name)) is not None:
        action()


def arm(name: str, action: Callable[[], None]) -> None:
    """Make *name* run *action* each time it is passed."""
    if not any(name in points for points in (POINTS, WORKER_POINTS, FOLLOWER_POINTS, VIEW_POINTS)):
        raise KeyError(name)
    _armed[name] = action


def disarm() -> None:
    """Switch all points off."""
    _armed.clear()
