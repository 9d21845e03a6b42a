"""``joblog.queue-bulk``: one command to every job that a queue has, as a job, so that it outlives who asked for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from ...domain.errors import ForbiddenError
from ...domain.job import Actor
from ..errors import Fatal
from .bulk import Action, still

if TYPE_CHECKING:
    from ..run import SyncRun

KIND: Final = "joblog.queue-bulk"


class QueueBulk(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What ``joblog.queue-bulk`` takes; made by the way in that knows who asks."""

    queue: str
    command: Action
    actor: str
    request_id: str  #: of the command: interrupted, it goes on under it
    reason: str = ""
    address: str = ""
    right: str = ""  #: the id of the token that must still stand


def queue_bulk(run: SyncRun, args: QueueBulk) -> dict[str, Any]:
    """Do it; returns what ``JobLog.command_queue`` answers."""
    who = Actor(args.actor, args.request_id, args.address, args.reason)

    def command() -> dict[str, Any]:
        try:
            made = run.log.command_queue(args.queue, args.command, who, may=still(run.log, args.right))
        except ForbiddenError as error:
            raise Fatal("right-withdrawn", str(error)) from None
        return {"queue": args.queue, "action": args.command, **made._asdict()}

    return run.step("commanded", command)
