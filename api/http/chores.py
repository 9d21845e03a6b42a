"""What is too long for one request, handed in as jobs about the log itself; and the worker that the service has for them."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ...domain.errors import InvalidFieldError, JobLogError
from ...domain.spec import JobSpec
from ...domain.status import ENDED, Status
from ...projections import queries
from ...projections.views import VIEWS
from ...workers.commands.queueing import FITTING
from ...workers.operations import bulk, care, chores, queue_bulk
from ...workers.operations.bulk import Bulk, Chosen
from .. import documents, shapes
from .route import Answer

if TYPE_CHECKING:
    from ...workers.commands.log import JobLog
    from ...workers.worker import Worker
    from .route import Call

logger = logging.getLogger(__name__)

AT_ONCE: Final = 10_000  #: events that are verified or compared within the request
_EXAMPLES: Final = 10
_CEILING: Final = 10_000  #: jobs that a dry run counts one by one
_SEEN: Final = 50  #: newest chores among which one is looked for that was left behind
_GRACE: Final = 5.0


def check_kind(kind: str) -> None:
    """Refuse a chore that comes as a job like any other: its own way in checks who asks.

    Raises:
        InvalidFieldError: it is one.
    """
    if kind.startswith(chores.PREFIX):
        raise InvalidFieldError("kind", f"{kind[:60]!r} is handed in by its own path", "see /api/openapi.json")


def _hand_in(call: Call, kind: str, args: Any) -> Answer:
    """202, and where it can be followed."""
    who = call.principal
    plain = msgspec.json.decode(msgspec.json.encode(args))
    spec = JobSpec(
        kind,
        plain,
        key=call.key,
        tenant=who.tenant or "default",
        owner=who.owner or who.name,
        queue=chores.QUEUE,
        priority=0 if kind in {bulk.KIND, queue_bulk.KIND} else 5,
        exclusive_key="" if kind in {bulk.KIND, queue_bulk.KIND} else care.ONE,
    )
    made = call.log.submit(spec)
    call.service.chores.begin()
    headers = {"Location": f"/api/v1/jobs/{made.job_id}"}
    headers |= {} if made.created else {"Idempotency-Replayed": "true"}
    return Answer(documents.submitted(spec, made), 202, headers)


# -- commands to many jobs -------------------------------------------------------------------------------------------


def bulk_jobs(call: Call) -> Answer:
    """Pause, resume, cancel or retry many jobs, as a job; only jobs that are in the log before it."""
    body, who = call.body, call.principal
    if (body.filter is None) == (body.ids is None):
        raise InvalidFieldError("filter", "both or neither of filter and ids", "give one of them; {} is all jobs")
    given: Any = body.filter or Chosen()
    for name in ("tenant", "owner"):
        if (mine := getattr(who, name)) and getattr(given, name) not in {None, mine}:
            raise InvalidFieldError(f"filter.{name}", "not the token's own", "leave it out")
    chosen = Chosen(
        status=given.status and given.status.value,
        kind=given.kind,
        queue=given.queue,
        tenant=who.tenant or given.tenant,
        owner=who.owner or given.owner,
    )
    ids = None if body.ids is None else tuple(dict.fromkeys(body.ids))
    if body.dry_run:
        return Answer(_dry_run(call, chosen, ids), 200)
    most = None if body.expect is None else body.expect.max
    args = Bulk(body.command, who.name, chosen, ids, body.reason, call.address, _right(call), most)
    return _hand_in(call, bulk.KIND, args)


def _right(call: Call) -> str:
    """The token that must still stand when the job comes to an effect."""
    return call.principal.token_id if call.principal.via != "proxy" else ""


def bulk_queue(call: Call) -> Answer:
    """Pause, resume, cancel or retry every job that a queue has now, as a job; a newer command to the queue supersedes it."""
    queue, action = call.request.match_info["name"], call.request.match_info["action"]
    if queue == chores.QUEUE:
        raise InvalidFieldError("name", "the command would be one of its own jobs", "command those by their ids")
    who, reason = call.principal.name, call.body.reason
    args = queue_bulk.QueueBulk(queue, action, who, call.key, reason, call.address, _right(call))  # type: ignore[arg-type]
    return _hand_in(call, queue_bulk.KIND, args)


def _dry_run(call: Call, chosen: Chosen, ids: Any) -> dict[str, Any]:
    """How many it would be, and some of them: by the counters where they tell, else one by one up to a ceiling."""
    log, command = call.log, call.body.command
    examples: list[Any] = []
    for page in bulk.matching(log, command, chosen, ids, limit=_EXAMPLES):
        examples += page[: _EXAMPLES - len(examples)]
        if len(examples) == _EXAMPLES:
            break
    if ids is None and chosen.owner is None:
        standing = log.store.views.standings().get("counters")
        count, position = _counted(log, command, chosen), standing.position if standing else 0
        total = {"value": count, "relation": "eq"}
    else:
        count, position = 0, log.store.head()
        for page in bulk.matching(log, command, chosen, ids):
            count += len(page)
            if count > _CEILING:
                break
        total = {"value": min(count, _CEILING), "relation": "gte" if count > _CEILING else "eq"}
    listed = [shapes.of_row(row) for row in examples]
    return {"command": command, "total": total, "examples": listed, "position": position}


def _counted(log: JobLog, command: str, chosen: Chosen) -> int:
    narrow = {"kind": chosen.kind, "queue": chosen.queue, "tenant": chosen.tenant, "status": chosen.status}
    found = queries.counters(log.store, by=("status", "kind"), **narrow)
    fitting = {status.value for status in FITTING[command]}
    return sum(
        jobs
        for (status, kind), jobs in found.items()
        if status in fitting and (chosen.kind is not None or not kind.startswith(chores.PREFIX))
    )


# -- the log and what is derived from it -----------------------------------------------------------------------------


def verify_log(call: Call) -> Answer:
    """Hold the log, a range or one job against its tree and heads: at once where that is short, else as a job."""
    body, store = call.body, call.log.store
    head = store.head()
    if body.job is not None and (body.first, body.last) != (None, None):
        raise InvalidFieldError("job", "beside a range", "give one of them")
    if body.job is not None:
        row = call.row_of(body.job)
        count = row.get("version", 0)
    else:
        first, last = body.first or 1, head if body.last is None else body.last
        if first > last or last > head:
            raise InvalidFieldError("last", f"{first} to {last} is no range", f"the log has positions 1 to {head}")
        count = last - first + 1
    if count > AT_ONCE:
        return _hand_in(call, care.VERIFY, care.Verify(body.first, body.last, body.job))
    from ...projections.proof.known import check

    return Answer(check(store, job=body.job, first=body.first, last=body.last).document())


def care_for_projection(call: Call) -> Answer:
    """Rebuild a projection beside the live one, or tell its rows that are not what the log says; as a job."""
    action, name = call.request.match_info["action"], call.request.match_info["name"]
    if name != "jobs" and name not in VIEWS:
        raise InvalidFieldError("name", f"{name[:60]!r} is no projection", f"use jobs, {', '.join(VIEWS)}")
    kind = care.REBUILD if action == "rebuild" else care.DIFF
    units = action == "rebuild" or getattr(call.body, "units", True)  # a button of the page does not say
    return _hand_in(call, kind, care.Projection(name, units))


# -- who does it -----------------------------------------------------------------------------------------------------


class Chores:
    """A worker of the service for its own queue: started with the first job there, and for one that was left behind."""

    def __init__(self, log: JobLog) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._worker: Worker | None = None
        self._thread: threading.Thread | None = None
        self._is_over = False

    def look(self) -> None:
        """Begin if an earlier service has left something."""
        try:
            rows = self._log.store.find_jobs(queue=chores.QUEUE, limit=_SEEN)
        except JobLogError as error:
            logger.warning("it is not known whether a job about the log was left behind: %s", error)
            return
        if any(Status(row["status"]) not in ENDED and row["status"] != Status.PAUSED for row in rows):
            self.begin()

    def begin(self) -> None:
        """Run what is in the queue, and what comes."""
        from ...workers.registry import Jobs
        from ...workers.worker import Worker, WorkerSettings

        with self._lock:
            if self._is_over or (self._thread is not None and self._thread.is_alive()):
                return
            jobs = Jobs()
            chores.register(jobs)
            settings = WorkerSettings(queues=(chores.QUEUE,), slots=2, grace_seconds=_GRACE)
            self._worker = Worker(self._log, jobs, settings)
            self._thread = threading.Thread(target=self._worker.run, name="joblog-chores", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Give back what runs; the next service goes on with it."""
        with self._lock:
            self._is_over = True
            worker, thread = self._worker, self._thread
        if worker is not None and thread is not None:
            worker.stop()
            thread.join()
