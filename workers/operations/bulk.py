"""``joblog.bulk``: one command to many jobs, as a job.

Its list of pages of ids is frozen before the first command, and holds only jobs that were in the log before it (CTL-03).
Each page is a unit, each job in it is commanded under an id that follows from this job's and its own: killed anywhere, it
goes on, and nothing is commanded twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal
from uuid import UUID, uuid5

import msgspec

from ...domain.errors import ForbiddenError, JobNotFoundError, StateError
from ...domain.job import Actor
from ...domain.status import Status
from ..commands.queueing import FITTING
from ..errors import Fatal
from .chores import PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...eventstore.store import JobRow
    from ..commands.log import JobLog
    from ..run import SyncRun

KIND: Final = "joblog.bulk"
PAGE: Final = 200
Action = Literal["pause", "resume", "cancel", "retry"]


class Chosen(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which jobs: all that fit."""

    status: str | None = None
    kind: str | None = None
    queue: str | None = None
    tenant: str | None = None
    owner: str | None = None


class Bulk(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What ``joblog.bulk`` takes; made by the way in that knows who asks."""

    command: Action
    actor: str
    filter: Chosen = Chosen()  #: with *ids*: what those must fit, too
    ids: tuple[UUID, ...] | None = None
    reason: str = ""
    address: str = ""
    right: str = ""  #: the id of the token that must still stand
    most: int | None = None  #: nothing is done if there are more


def bulk(run: SyncRun, args: Bulk) -> dict[str, int]:
    """Do it; returns how many jobs took the command, and how many had moved on."""
    log, may = run.log, still(run.log, args.right)
    count = 0
    for page in run.items("pages", _pages(run, args), key=lambda one: str(one[0])):
        count += len(page.value[1])
        made = page.once("commanded", _command, log, run.job_id, args, page.value[1], may)
        run.tally("done", made["done"])
        run.tally("refused", made["refused"])
    return {"jobs": count, "done": run.total("done"), "refused": run.total("refused")}


def _pages(run: SyncRun, args: Bulk) -> Iterator[list[Any]]:
    """Numbered pages of ids; they are looked for once, and then stored."""
    from ...eventstore import inspection

    before = run.store.position_of(run.job_id, 1) or 0
    page: list[str] = []
    number = count = 0
    for rows in matching(run.log, args.command, args.filter, args.ids):
        began = inspection.first_positions(run.store, [row["id"] for row in rows])
        for row in rows:
            if began.get(row["id"], before) < before:
                page.append(str(row["id"]))
                count += 1
        if args.most is not None and count > args.most:
            raise Fatal("more-than-expected", f"more than {args.most:,} jobs; nothing was done")
        while len(page) >= PAGE:
            yield [number, page[:PAGE]]
            number, page = number + 1, page[PAGE:]
    if page:
        yield [number, page]


def matching(
    log: JobLog, command: str, chosen: Chosen, ids: tuple[UUID, ...] | None, *, limit: int = PAGE
) -> Iterator[list[JobRow]]:
    """Pages of the jobs that a command would reach now; other commands like it are left out unless named."""
    if ids is not None:
        for start in range(0, len(ids), limit):
            rows = log.store.jobs(ids[start : start + limit]).values()
            yield [row for row in rows if _fits(row, command, chosen)]
        return
    wanted = [status.value for status in FITTING[command]]
    given = {name: getattr(chosen, name) for name in ("kind", "queue", "tenant", "owner")}
    for status in wanted if chosen.status is None else [chosen.status] if chosen.status in wanted else []:
        before: tuple[int, UUID] | None = None
        while page := log.store.find_jobs(status=status, before=before, limit=limit, **given):
            before = (page[-1]["created_at"], page[-1]["id"])
            yield [row for row in page if chosen.kind is not None or not row["kind"].startswith(PREFIX)]


def _fits(row: JobRow, command: str, chosen: Chosen) -> bool:
    given = {name: getattr(chosen, name) for name in Chosen.__struct_fields__}
    is_chosen = all(row[name] == value for name, value in given.items() if value is not None)
    return is_chosen and Status(row["status"]) in FITTING[command]


def _command(log: JobLog, bulk_id: UUID, args: Bulk, ids: list[str], may: Callable[[], bool] | None) -> dict[str, int]:
    done = refused = 0
    for text in ids:
        request = str(uuid5(bulk_id, text))
        who = Actor(args.actor, request, args.address, args.reason)
        try:
            log.command(args.command, UUID(text), who, may=may)
        except ForbiddenError as error:
            raise Fatal("right-withdrawn", str(error)) from None
        except (StateError, JobNotFoundError):  # it moved on meanwhile: its own state stands
            refused += 1
        else:
            done += 1
    return {"done": done, "refused": refused}


def still(log: JobLog, right: str) -> Callable[[], bool] | None:
    """Whether the token that asked still may; asked again before each command (CTL-07)."""
    if not right:
        return None
    from ...eventstore import tokens

    return lambda: tokens.may(log.store, right, "jobs:control")
