"""Why a job stands where it stands: the conditions of a claim, evaluated one by one for one job.

Each reason has a stable code, a sentence, and where it is known since when and until when it holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from ..domain import events as e
from ..domain import identity, queue
from ..domain.gate import GateClosed
from ..domain.job import CRASH_LIMIT
from ..domain.status import ENDED
from ..eventstore import inspection
from . import gate_list
from .text import clean, clock_time, iso, moment, span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..eventstore.gates import GateRow
    from ..eventstore.store import JobRow
    from ..workers.commands.log import JobLog

    Sees = Callable[[JobRow], bool]


@dataclass(frozen=True)
class Reason:
    """One condition that explains the job's status."""

    code: str
    text: str
    until: int | None = None  #: microseconds since 1970
    evidence: list[int] = field(default_factory=list)  #: positions in the log

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {"code": self.code, "text": self.text, "until": iso(self.until), "evidence": self.evidence}


_CHILDREN: Final = 100  #: of those that still go on, are looked at


def all_seen(_: JobRow) -> bool:
    """For who may see everything."""
    return True


def reasons(log: JobLog, row: JobRow, sees: Sees = all_seen) -> list[Reason]:
    """Everything that keeps a job from going on, or what it is doing; another job is named only to who *sees* it."""
    if row.get("in_outbox"):
        return [Reason("in-outbox", "It is in the outbox: the next worker to look there moves it into the log.")]
    if row["status"] in {"queued", "waiting"}:
        return list(_queued(log, row, sees))
    return list({"running": _running, "paused": _paused}.get(row["status"], _ended)(log, row))


# -- not running yet -------------------------------------------------------------------------------------------------


def _queued(log: JobLog, row: JobRow, sees: Sees) -> Iterator[Reason]:
    if row["vocabulary"] > e.CODE_VOCABULARY:
        yield Reason("newer-code", "A newer joblog wrote to it; only a worker of that version may go on.")
    found = [*_not_due(log, row, sees), *_queue_holds(log, row)]
    found += [*_gate_holds(log, row, sees), *_key_is_held(log, row, sees)]
    yield from found
    if found:
        return
    late = span((log.store.now() - row["due_at"]) / 1_000_000)
    running = inspection.leases_by_queue(log.store).get(row["queue"], 0)
    if running and row["crashes"] >= CRASH_LIMIT - 1:
        text = f"It has been due for {late}; {row['crashes']} of its holders died at this checkpoint, so it runs alone:"
        yield Reason("runs-alone", f"{text} a worker of its queue takes it once it has nothing else to do.")
    elif running:
        text = f"It has been due for {late}; {running:,} of its queue run, and it is in line for the next free slot."
        yield Reason("in-line", text)
    else:
        text = f"It has been due for {late} and no worker takes it: none holds a job of queue {clean(row['queue'])}."
        yield Reason("no-worker", f"{text} Start one: joblog worker --queue {clean(row['queue'])} (with its --app).")


def _not_due(log: JobLog, row: JobRow, sees: Sees) -> Iterator[Reason]:
    left = (row["due_at"] - log.store.now()) / 1_000_000
    if left <= 0:
        return
    when = f"{clock_time(moment(row['due_at']), log.now())}, in {span(left)}"
    if row["status"] != "waiting":
        yield Reason("not-due", f"It is not due before {when}.", row["due_at"])
        return
    if row["reason"] == "child":
        yield _child(log, row, sees)
        return
    if row["reason"] == "gate":
        text = f"Its turn at gate {clean(row['gate'])} is kept for it at {when}."
        yield Reason("turn-kept", text, row["due_at"])
        return
    last = _last(log, row["id"], e.RetryScheduled)
    if last is None or not row["reason"]:
        yield Reason("asleep", f"It gave its worker back and sleeps until {when}.", row["due_at"])
        return
    event, position = last
    failed = f"Unit {event.unit} failed on attempt {event.attempt} ({event.category}"
    text = f"{failed}{': ' if event.text else ''}{event.text}). The next attempt is due at {when} ({event.origin})."
    yield Reason("retry-scheduled", clean(text), row["due_at"], [position])


def _child(log: JobLog, row: JobRow, sees: Sees) -> Reason:
    """Which child a parent waits for."""
    ids = inspection.children(log.store, row["id"], limit=_CHILDREN + 1, going=True)
    rows = log.store.jobs(ids)
    going = [rows[one] for one in ids if one in rows and rows[one]["status"] not in ENDED]
    if not going:
        return Reason("waiting-for-child", "Its child has ended; it goes on as soon as a worker looks.", row["due_at"])
    if not sees(going[0]):
        return Reason("waiting-for-child", "It waits for its child.")
    first = f"job {going[0]['id']} ({clean(going[0]['kind'])}), which is {going[0]['status']}"
    count = f"{_CHILDREN:,} or more" if len(going) > _CHILDREN else f"{len(going) - 1:,} more"
    more = f", and {count}" if len(going) > 1 else ""
    return Reason("waiting-for-child", f"It waits for its child, {first}{more}.")


def _queue_holds(log: JobLog, row: JobRow) -> Iterator[Reason]:
    name = row["queue"]
    held = log.store.queue_rows().get(name)
    if held is None:
        return
    if held["paused"]:
        last = _last(log, identity.queue_stream(name), queue.QueuePaused)
        by, evidence = ("", []) if last is None else (f" by {last[0].actor}", [last[1]])
        since = "" if last is None else f" at {clock_time(last[0].timestamp, log.now())}"
        text = f"Its queue {name} was paused{by}{since}; joblog queues resume {name}"
        yield Reason("queue-paused", clean(text) + ".", None, evidence)
    running = inspection.leases_by_queue(log.store).get(name, 0)
    if held["slots"] is not None and running >= held["slots"]:
        text = f"Its queue {clean(name)} runs at most {held['slots']:,} jobs at once, and {running:,} run."
        yield Reason("queue-full", text)


def _gate_holds(log: JobLog, row: JobRow, sees: Sees) -> Iterator[Reason]:
    name = row["gate"]
    for state in log.store.gates(name) if name else ():
        gate = state.row
        left = (gate.closed_until - log.store.now()) / 1_000_000
        if left > 0:
            when = f"{clock_time(moment(gate.closed_until), log.now())}, in {span(left)}"
            by, evidence = ("", []) if _is_hidden(log, gate, sees) else (_closed_by(log, gate), _told(log, gate))
            yield Reason(
                "gate-closed", clean(f"Its gate {name} is closed until {when}{by}."), gate.closed_until, evidence
            )
        taken = max(state.jobs, state.requests)
        if gate.slots is not None and taken >= gate.slots:
            text = f"Its gate {clean(name)} lets {gate.slots:,} through at once, and {taken:,} are on their way."
            yield Reason("gate-full", text)


def _is_hidden(log: JobLog, gate: GateRow, sees: Sees) -> bool:
    """Whether the job that closed it is none of theirs."""
    if gate_list.closer(gate.closed_by) == gate.closed_by:
        return False
    closer = log.store.job(UUID(gate.closed_by))
    return closer is None or not sees(closer)


def _closed_by(log: JobLog, gate: GateRow) -> str:
    """Who closed it: the job that was told so, or an operator."""
    if not gate.closed_by:
        return ""
    since = clock_time(moment(gate.closed_at), log.now())
    said = f" ({gate.closed_reason})" if gate.closed_reason else ""
    who = gate_list.closer(gate.closed_by)
    return f"; {who} was told so at {since}{said}" if who != gate.closed_by else f"; {who} closed it at {since}{said}"


def _told(log: JobLog, gate: GateRow) -> list[int]:
    """The position of the event that the closure stands on."""
    is_job = gate_list.closer(gate.closed_by) != gate.closed_by
    stream = UUID(gate.closed_by) if is_job else identity.gate_stream(gate.gate)
    kinds = (e.RetryScheduled, e.Paused) if is_job else (GateClosed,)
    found = [last[1] for kind in kinds if (last := _last(log, stream, kind)) is not None]
    return [max(found)] if found else []


def _key_is_held(log: JobLog, row: JobRow, sees: Sees) -> Iterator[Reason]:
    if not row["exclusive_key"]:
        return
    holder = inspection.holder_of(log.store, row["exclusive_key"])
    if holder is not None and holder.job_id != row["id"]:
        key = row["exclusive_key"].removeprefix(f"{len(row['tenant'])}:{row['tenant']}/")
        other = log.store.job(holder.job_id)
        who = f"job {holder.job_id}, which runs on {holder.worker}" if other and sees(other) else "another job"
        text = f"Its exclusive key {key!r} is held by {who}."
        yield Reason("exclusive-key-held", clean(text))


# -- running, paused, ended ------------------------------------------------------------------------------------------


def _running(log: JobLog, row: JobRow) -> Iterator[Reason]:
    lease, worker = log.store.lease(row["id"]), clean(row["worker"])
    since = clock_time(moment(row["last_attempt_at"]), log.now())
    left = 0.0 if lease is None else (lease.lease_until - log.store.lease_now()) / 1_000_000
    if lease is None or lease.boot_id != log.store.boot_id() or left <= 0:
        text = f"{worker} held it and its lease has ended; any live worker takes it back and goes on at the checkpoint."
        yield Reason("lease-expired", text)
    else:
        text = f"{worker} runs it since {since}, attempt {row['attempt']}; the lease holds for {span(left)} more."
        yield Reason("running", text)
    total = "" if row["total"] is None else f" of {row['total']:,}"
    tried = f"; attempt {row['unit_attempt']} of the unit in flight" if row["unit_attempt"] else ""
    yield Reason("progress", f"{row['done']:,} units{total} are done, the checkpoint is {row['sequence']:,}{tried}.")
    if row["wish"]:
        yield Reason(f"{row['wish']}-requested", f"A {row['wish']} was asked for; it stops at its next boundary.")


def _paused(log: JobLog, row: JobRow) -> Iterator[Reason]:
    last = _last(log, row["id"], e.Paused)
    by, evidence = "", []
    if last is not None:
        event, position = last
        by = f" by {event.actor}" if event.actor else ""
        by, evidence = f"{by} at {clock_time(event.timestamp, log.now())}", [position]
    said = f": {row['reason_text']}" if row["reason_text"] else ""
    text = f"It was paused{by} ({row['reason']}){said}. Nothing runs it by itself; joblog resume {row['id']}"
    yield Reason(row["reason"] or "paused", clean(text) + ".", None, evidence)
    if row["due_at"] > log.store.now():
        text = f"Even then it is not due before {clock_time(moment(row['due_at']), log.now())}."
        yield Reason("not-due", text, row["due_at"])


def _ended(log: JobLog, row: JobRow) -> Iterator[Reason]:
    when = clock_time(moment(row["finished_at"]), log.now()) if row["finished_at"] else "?"
    said = f": {row['reason_text']}" if row["reason_text"] else ""
    if row["status"] == "completed":
        skipped = f", {row['skipped']:,} were skipped" if row["skipped"] else ""
        yield Reason("completed", f"It was completed at {when}: {row['done']:,} units are done{skipped}.")
    elif row["status"] == "failed":
        text = f"It failed at {when} ({row['reason']}){said}. Mend the input, then: joblog retry {row['id']}"
        yield Reason(row["reason"] or "failed", clean(text) + ".")
    else:
        yield Reason("cancelled", clean(f"It was cancelled at {when}{said}") + "; that is final.")


def _last(log: JobLog, stream: UUID, kind: type[Any]) -> tuple[Any, int] | None:
    row = inspection.last_of(log.store, stream, kind.TOPIC)
    if row is None:
        return None
    return log.mapper.decode(stream, *row), log.store.position_of(stream, row.version) or 0


def paragraph(row: JobRow, found: list[Reason]) -> str:
    """All of it in one paragraph."""
    return " ".join([f"Job {row['id']} ({clean(row['kind'])}) is {row['status']}.", *(one.text for one in found)])
