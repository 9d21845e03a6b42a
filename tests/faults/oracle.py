"""The judge of every fault rig: reads a log's database raw and says which invariant does not hold, and where.

``Oracle.check`` is quick: it follows the events behind those it has judged already and looks at the rows of the jobs
they touch.  With ``full`` it starts from the first event again, compares what it remembers of each position (S3) and
lets the database check its own files.  ``finish.finish`` adds what only a running product can show.

Ids are those of the design: S1 to S18; and ``leases``, ``unit-results``, ``receipts``, ``queues`` for the tables that
are an authority beside the log, ``hints`` for the claim index, ``epoch``, ``time``, ``structure``, ``schema``.
"""

import sqlite3
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

import orjson
import psycopg

from joblog.domain import identity
from joblog.domain.events import CODE_VOCABULARY
from joblog.domain.job import Job, fold
from joblog.eventstore import schema as s
from joblog.eventstore.mapper import OrjsonMapper, OrjsonTranscoder, known_topics
from joblog.projections import job_table
from tests.faults.journal import ACKED, REFUSED, Story, digest
from tests.faults.reader import Logged, Reader, Row

Say = Callable[[str, str, str], None]
CLAIMABLE: Final = ("queued", "waiting")
MAPPER: Final = OrjsonMapper(OrjsonTranscoder())
TOPICS: Final = known_topics()
JOB: Final = "joblog.job."
QUEUE: Final = "joblog.queue."


class Violation(NamedTuple):
    """An invariant that does not hold, and where."""

    invariant: str
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.invariant} at {self.where}: {self.text}"


def micros(instant: str) -> int:
    return job_table.micros(datetime.fromisoformat(instant))


class Requested(NamedTuple):
    """A command as its event tells it."""

    action: str
    version: int
    status: str
    wish: str


class StreamTrace:
    """One stream, followed event by event in the plainest way: versions and time."""

    def __init__(self, stream: UUID, say: Say, slack: int) -> None:
        self.stream, self.slack = stream, slack
        self._say = say
        self.version = self.at = self.parked = 0
        self.requests: dict[str, Requested] = {}

    def say(self, invariant: str, position: int, text: str) -> None:
        self._say(invariant, f"position {position}, stream {self.stream}, version {self.version}", text)

    def follow(self, logged: Logged) -> None:
        expected, self.version = self.version + 1, logged.version
        if logged.version != expected:
            self.say("S5", logged.position, f"version {logged.version} follows {expected - 1}")
        if logged.topic not in TOPICS:
            self.parked = self.parked or logged.version
            return
        if self.parked:
            self.say("S18", logged.position, f"{logged.topic} follows an event that this code does not know")
        try:
            fields = orjson.loads(logged.state)
            at = micros(fields["timestamp"])
        except (ValueError, KeyError, TypeError) as error:
            self.say("structure", logged.position, f"{logged.topic} can't be read: {error}")
            return
        if at < self.at:
            self.say("time", logged.position, f"its instant is {self.at - at} µs before the one of the event before it")
        self.at = at
        self.take(logged, fields)

    def take(self, logged: Logged, fields: dict[str, Any]) -> None:
        """Whatever more the kind of stream says."""


class QueueTrace(StreamTrace):
    """A queue's stream."""

    paused, slots, generation, name = False, None, 0, ""

    def take(self, logged: Logged, fields: dict[str, Any]) -> None:
        what = logged.topic.removeprefix(QUEUE)
        if what == "paused":
            self.paused = True
        elif what == "resumed":
            self.paused = False
        elif what == "limited":
            self.slots = fields["slots"]
        if fields["generation"] < self.generation:
            self.say("queues", logged.position, f"generation {fields['generation']} follows {self.generation}")
        self.generation, self.name = fields["generation"], fields["queue"]
        if fields["request_id"]:
            self.requests[fields["request_id"]] = Requested(what, logged.version, "", "")


class EpochTrace(StreamTrace):
    """The log's own stream."""

    epoch = 1

    def take(self, logged: Logged, fields: dict[str, Any]) -> None:
        if logged.topic == "joblog.log.epoch-raised":
            if fields["epoch"] <= self.epoch:
                self.say("epoch", logged.position, f"epoch {fields['epoch']} follows {self.epoch}")
            self.epoch = fields["epoch"]


class JobTrace(StreamTrace):
    """One job, judged by a small machine of its own."""

    def __init__(self, stream: UUID, say: Say, slack: int) -> None:
        super().__init__(stream, say, slack)
        self.status = self.wish = self.worker = ""
        self.token = (0, 0)
        self.leased = self.waits_for_child = False
        self.lease_until = self.due = self.sequence = self.done = self.skipped = 0
        self.units: dict[str, tuple[int, bytes]] = {}
        self.row: Row = {}
        self._topic, self._position = "", 0

    @property
    def ended(self) -> bool:
        return self.status in {"completed", "failed", "cancelled"}

    def bad(self, invariant: str, text: str) -> None:
        self.say(invariant, self._position, f"{self._topic}: {text}")

    def take(self, logged: Logged, fields: dict[str, Any]) -> None:
        self._topic, self._position = logged.topic.removeprefix(JOB), logged.position
        if self.ended and not (self.status == "failed" and self._topic == "resumed"):
            self.bad("S12", f"the job was {self.status}")
        handler = getattr(self, f"_{self._topic.replace('-', '_')}", None)
        if handler is None:
            self.bad("structure", "the oracle does not know this event: teach it")
        else:
            handler(fields, logged)
        try:
            event = MAPPER.decode(logged.stream, logged.version, logged.topic, logged.state)
            self.row.update(job_table.changes([event]))
        except Exception as error:  # noqa: BLE001 - whatever a damaged event does to the product is a finding
            self.bad("structure", f"the product can't decode it: {error!r}")

    # -- by whom and when ----------------------------------------------------------------------------------------

    def _by_holder(self) -> None:
        if not self.leased:
            self.bad("S6", "nobody held the job")

    def _raise_due(self, due: str, *, freely: bool = False) -> None:
        """Move the instant before which the job may not run: only an operator's retry may bring it forward."""
        instant = micros(due)
        if instant < self.due and not freely:
            self.bad("S11", f"it brings the stored instant forward by {self.due - instant} µs")
        self.due = instant

    def _ask(self, action: str, fields: dict[str, Any]) -> None:
        if fields.get("request_id"):
            self.requests[fields["request_id"]] = Requested(action, self.version, self.status, self.wish)

    def _end_lease(self, status: str) -> None:
        self.status, self.leased, self.worker = status, False, ""

    # -- one method an event -------------------------------------------------------------------------------------

    def _submitted(self, fields: dict[str, Any], _: Logged) -> None:
        if self.version != 1:
            self.bad("S5", "a job is submitted once, at version 1")
        self.status, self.due = "queued", micros(fields["due_at"])

    def _claimed(self, fields: dict[str, Any], _: Logged) -> None:
        token = (fields["epoch"], fields["token"])
        if token <= self.token or token[1] != self.token[1] + 1:
            self.bad("S6" if token < self.token else "S7", f"token {token} follows {self.token}")
        if self.leased:
            self.bad("S7", f"{self.worker} still held the job")
        if self.status not in CLAIMABLE and not self.leased:
            self.bad("S7", f"it was {self.status}")
        if self.at < self.due:
            self.bad("S11", f"claimed {self.due - self.at} µs before its instant")
        self.token, self.leased, self.status = token, True, "running"
        self.worker, self.lease_until = fields["worker"], micros(fields["lease_until"])

    def _list_frozen(self, _: dict[str, Any], __: Logged) -> None:
        self._by_holder()

    def _unit_attempted(self, _: dict[str, Any], __: Logged) -> None:
        self._by_holder()
        if self.at < self.due:
            self.bad("S11", f"attempted {self.due - self.at} µs before its instant")

    def _unit_completed(self, fields: dict[str, Any], logged: Logged) -> None:
        self._by_holder()
        if fields["unit"] in self.units:
            self.bad("S8", f"unit {fields['unit']!r} was completed at version {self.units[fields['unit']][0]}")
        if fields["done"] != self.done + 1:
            self.bad("S8", f"unit number {fields['done']} follows {self.done}")
        self.units[fields["unit"]] = (logged.version, logged.state)
        self.done = fields["done"]

    def _unit_skipped(self, fields: dict[str, Any], _: Logged) -> None:
        self._by_holder()
        if fields["skipped"] != self.skipped + 1:
            self.bad("S8", f"skip number {fields['skipped']} follows {self.skipped}")
        self.skipped = fields["skipped"]

    def _checkpoint_advanced(self, fields: dict[str, Any], _: Logged) -> None:
        self._by_holder()
        if fields["sequence"] < self.sequence:
            self.bad("S10", f"the checkpoint goes back from {self.sequence} to {fields['sequence']}")
        if fields["sequence"] > self.done + self.skipped:
            self.bad("S10", f"checkpoint {fields['sequence']} lies past {self.done + self.skipped} settled units")
        self.sequence = fields["sequence"]

    def _lease_released(self, fields: dict[str, Any], _: Logged) -> None:
        self._by_holder()
        self._end_lease("waiting" if fields["cause"] in {"wait", "child"} else "queued")
        self.waits_for_child = fields["cause"] == "child"
        self._raise_due(fields["due_at"])

    def _gate_awaited(self, fields: dict[str, Any], _: Logged) -> None:
        self._by_holder()
        self._end_lease("waiting")
        self.waits_for_child = False
        self._raise_due(fields["due_at"])

    def _woken(self, _: dict[str, Any], __: Logged) -> None:
        if self.status != "waiting" or not self.waits_for_child:
            self.bad("S11", "only a job that waits for a child is woken")
        self.due = self.at

    def _lease_expired(self, fields: dict[str, Any], _: Logged) -> None:
        self._by_holder()
        if fields["token"] != self.token[1]:
            self.bad("S6", f"it ends token {fields['token']}, the newest is {self.token[1]}")
        if fields["cause"] == "expired" and self.at + self.slack < self.lease_until:
            self.bad("S7", f"{self.lease_until - self.at} µs before the lease's end")
        self._end_lease("queued")
        self.due = max(self.due, self.at)

    def _retry_scheduled(self, fields: dict[str, Any], _: Logged) -> None:
        self._by_holder()
        self._end_lease("waiting")
        self._raise_due(fields["next_attempt_at"])

    def _pause_requested(self, fields: dict[str, Any], _: Logged) -> None:
        self.wish = "pause"
        self._ask("pause", fields)

    def _paused(self, fields: dict[str, Any], _: Logged) -> None:
        self._end_lease("paused")
        self.wish = ""
        if fields.get("not_before"):
            self._raise_due(fields["not_before"])
        self._ask("pause", fields)

    def _resumed(self, fields: dict[str, Any], _: Logged) -> None:
        self.wish = ""
        retried = fields["cause"] == "retry"
        if fields["cause"] != "withdrawn":
            self.status = "queued"
            self._raise_due(fields["due_at"], freely=retried)
        self._ask("retry" if retried else "resume", fields)

    def _cancel_requested(self, fields: dict[str, Any], _: Logged) -> None:
        self.wish = "cancel"
        self._ask("cancel", fields)

    def _cancelled(self, fields: dict[str, Any], _: Logged) -> None:
        self._end_lease("cancelled")
        self.wish = ""
        self._ask("cancel", fields)

    def _failed(self, _: dict[str, Any], __: Logged) -> None:
        self._by_holder()
        self._end_lease("failed")
        self.wish = ""

    def _completed(self, _: dict[str, Any], __: Logged) -> None:
        self._by_holder()
        if self.sequence != self.done + self.skipped:
            self.bad("S10", f"completed at checkpoint {self.sequence} of {self.done + self.skipped} settled units")
        self._end_lease("completed")
        self.wish = ""


def _trace_of(logged: Logged, say: Say, slack: int) -> StreamTrace:
    if logged.stream == identity.LOG_STREAM:
        return EpochTrace(logged.stream, say, slack)
    if logged.topic.startswith(QUEUE):
        return QueueTrace(logged.stream, say, slack)
    return JobTrace(logged.stream, say, slack)


class Oracle:
    """Judges one database, again and again.

    *slack* is how far an instant that a process stamps may be from the store's: nothing where they share a clock.
    Without *effects* the bodies of units are not in the story, and judged by others.
    """

    def __init__(self, *, slack: timedelta = timedelta(0), effects: bool = True) -> None:
        self._effects = effects
        self._slack = slack // timedelta(microseconds=1)
        self.digests: list[str] = []  #: of each position judged so far
        self.touched: set[UUID] = set()  #: streams with events that the last check was the first to see
        self._forget()

    def _forget(self) -> None:
        self._streams: dict[UUID, StreamTrace] = {}
        self._event_ids: dict[str, int] = {}
        self._by_position: list[tuple[UUID, int, str]] = []  #: stream, version, digest of topic and state
        self._units = 0
        self._accepted = self._acked = 0
        self._found: list[Violation] = []

    def _say(self, invariant: str, where: str, text: str) -> None:
        self._found.append(Violation(invariant, where, text))

    @property
    def head(self) -> int:
        return len(self.digests)

    def jobs(self) -> list[JobTrace]:
        return [trace for trace in self._streams.values() if isinstance(trace, JobTrace)]

    # -- the check -----------------------------------------------------------------------------------------------

    def check(self, reader: Reader, story: Story | None = None, *, full: bool = False) -> list[Violation]:
        """Judge what *reader* shows; *story* is what its callers were told, read before *reader* was opened."""
        if full:
            self._forget()
        self._found = []
        try:
            self._check(reader, story, full=full)
        except (sqlite3.DatabaseError, psycopg.DatabaseError) as error:
            self._say("structure", "the database", f"it can't be read: {error}")
        return self._found

    def _check(self, reader: Reader, story: Story | None, *, full: bool) -> None:
        missing = reader.schema() if full or not self.digests else []
        if "log_state is missing" in missing:
            if self.digests or (story is not None and story.acked):
                self._say("S1", "the database", "the whole log is missing")
            return
        for text in missing:
            self._say("schema", "the database", text)
        for text in reader.structure(full=full):
            self._say("structure", "the database", text)
        touched = self.touched = self._follow(reader, story)
        self._check_rows(reader, touched, full=full)
        self._check_leases(reader)
        self._check_units(reader, touched, full=full)
        self._check_receipts(reader)
        self._check_queues(reader)
        self._check_snapshots(reader, touched, full=full)
        self._check_state(reader)
        if story is not None:
            self._check_acknowledged(story, reader)
            if self._effects:
                self._check_effects(story, self._streams.keys() if full else touched)

    # -- the log -------------------------------------------------------------------------------------------------

    def _follow(self, reader: Reader, story: Story | None) -> set[UUID]:
        """S2 to S12 for the events behind those that were followed; returns their streams."""
        known = len(self._by_position)
        count, head = reader.extent()
        if count != head:
            self._say("S4", f"positions 1 to {head}", f"there are {count} events")
        if head < len(self.digests):
            self._say("S3", f"position {head}", f"the log ends here, and has been {len(self.digests)} long")
        touched: set[UUID] = set()
        for logged in reader.events(max(known - 1, 0)):
            if logged.position <= known:
                self._compare(logged)
                continue
            if logged.position != len(self._by_position) + 1:
                self._say("S4", f"position {logged.position}", f"follows position {len(self._by_position)}")
                while len(self._by_position) + 1 < logged.position:
                    self._by_position.append((UUID(int=0), 0, ""))
            self._compare(logged)
            self._by_position.append((logged.stream, logged.version, digest(logged.topic, logged.state)))
            self._judge(logged, story)
            touched.add(logged.stream)
        return touched

    def _compare(self, logged: Logged) -> None:
        """S3: a position that was seen holds what it held."""
        name = f"{logged.stream.hex}.{logged.version}.{digest(logged.topic, logged.state)}"
        if logged.position > len(self.digests):
            self.digests += [name] * (logged.position - len(self.digests))
        elif self.digests[logged.position - 1] != name:
            self._say("S3", f"position {logged.position}", "it held another event before")

    def _judge(self, logged: Logged, story: Story | None) -> None:
        trace = self._streams.get(logged.stream)
        if trace is None:
            trace = self._streams[logged.stream] = _trace_of(logged, self._say, self._slack)
        done = trace.done if isinstance(trace, JobTrace) else 0
        trace.follow(logged)
        self._units += (trace.done if isinstance(trace, JobTrace) else 0) > done
        where = f"position {logged.position}, stream {logged.stream}, version {logged.version}"
        try:
            event_id = str(orjson.loads(logged.state)["event_id"])
        except (ValueError, KeyError, TypeError):
            self._say("structure", where, "it has no readable event id")
            return
        if event_id in self._event_ids:
            self._say("S2", where, f"event id {event_id!r} stands at position {self._event_ids[event_id]} too")
        self._event_ids[event_id] = logged.position
        if story is None:
            return
        sending = story.sending(event_id, logged.version, digest(logged.topic, logged.state))
        if sending is None or sending.stream != logged.stream:
            self._say("S2", where, f"nobody sent event {event_id!r} with these bytes")
        elif ACKED not in sending.answers and REFUSED in sending.answers:
            self._say("S2", where, f"a ghost: the append was refused ({sending.code})")

    def _check_acknowledged(self, story: Story, reader: Reader) -> None:
        """S1 for what was acknowledged since the last check."""
        for sending in story.acked[self._acked :]:
            for index, name in enumerate(sending.digests):
                position = sending.position + index
                have = self._by_position[position - 1] if position <= len(self._by_position) else None
                if have != (sending.stream, sending.first + index, name):
                    where = f"position {position}, stream {sending.stream}, version {sending.first + index}"
                    self._say(
                        "S1", where, f"event {sending.event_id} was acknowledged, and is not there as it was written"
                    )
        self._acked = len(story.acked)
        if len(story.accepted) > self._accepted:
            boxed = {row["job_id"] for row in reader.table(s.outbox)}
            for job_id in story.accepted[self._accepted :]:
                if job_id not in self._streams and job_id not in boxed:
                    self._say(
                        "S1", f"job {job_id}", "its submission was accepted, and it is neither in the log nor boxed"
                    )
            self._accepted = len(story.accepted)

    def _check_effects(self, story: Story, touched: Collection[UUID]) -> None:
        """S9 for the jobs that were touched, and S8 as callers were told."""
        for job in self.jobs():
            for unit in job.units if job.stream in touched else ():
                if not story.effects[job.stream, unit]:
                    self._say("S9", f"job {job.stream}, unit {unit}", "completed, and its body never ran")
        for job_id, unit in story.effects_after:
            self._say("S9", f"job {job_id}, unit {unit}", "its body ran again after its completion was acknowledged")
        for (job_id, unit), count in story.told_done.items():
            if count > 1:
                self._say("S8", f"job {job_id}, unit {unit}", f"its completion was acknowledged {count} times")

    # -- what is derived from the log, and the authorities beside it ------------------------------------------------

    def _check_rows(self, reader: Reader, touched: Collection[UUID], *, full: bool) -> None:
        """S13 for the job table, with the hints of the claim index."""
        generation = reader.rows("SELECT generation FROM log_state WHERE id = 1")[0][0]
        table = s.jobs[generation % 2]
        jobs = {trace.stream: trace for trace in self.jobs()}
        rows = {row["id"]: row for row in (reader.table(table) if full else reader.table(table, "id", touched))}
        if (count := reader.count(table)) != len(jobs):
            self._say("S13", "the job table", f"{count} rows for {len(jobs)} jobs")
        for job_id in jobs if full else set(touched) & jobs.keys():
            row = rows.pop(job_id, None)
            if row is None:
                self._say("S13", f"job {job_id}", "it has no row")
            else:
                self._check_row(jobs[job_id], row)
        for job_id in rows:
            self._say("S13", f"job {job_id}", "a row without a job")

    def _check_row(self, job: JobTrace, row: Row) -> None:
        where = f"job {job.stream}, version {job.version}"
        if job.parked:
            if row["vocabulary"] <= CODE_VOCABULARY:
                self._say(
                    "S18", where, f"its events are newer than this code, its row claims vocabulary {row['vocabulary']}"
                )
            return
        for column in s.JOB_COLUMNS:
            if column not in s.HINTS and row[column] != job.row.get(column):
                self._say("S13", where, f"{column} is {row[column]!r}, its events say {job.row.get(column)!r}")
        mine = {"status": job.status, "wish": job.wish, "token": job.token[1], "due_at": job.due}
        mine |= {"done": job.done, "skipped": job.skipped, "sequence": job.sequence, "version": job.version}
        for column, value in mine.items():
            if row[column] != value:
                self._say("S13", where, f"{column} is {row[column]!r}, the oracle's own count is {value!r}")
        if (row["ready"] or row["blocked"]) and job.status not in CLAIMABLE:
            self._say("hints", where, f"ready {row['ready']}, blocked {row['blocked']}, while {job.status}")

    def _check_leases(self, reader: Reader) -> None:
        rows = {row["job_id"]: row for row in reader.table(s.leases)}
        for job in self.jobs():
            row = rows.pop(job.stream, None)
            where = f"job {job.stream}"
            if job.parked:
                continue
            if job.leased != (row is not None):
                self._say("leases", where, "it runs without a lease" if job.leased else f"a lease, while {job.status}")
            elif row is not None:
                have = (row["epoch"], row["token"], row["worker"])
                if have != (*job.token, job.worker):
                    self._say("leases", where, f"the lease is {have}, the log says {(*job.token, job.worker)}")
                for name in ("queue", "gate", "exclusive_key"):
                    if row[name] != job.row.get(name):
                        self._say("leases", where, f"its {name} is {row[name]!r}, the job's is {job.row.get(name)!r}")
        for job_id in rows:
            self._say("leases", f"job {job_id}", "a lease without a job")

    def _check_units(self, reader: Reader, touched: Collection[UUID], *, full: bool) -> None:
        if (count := reader.count(s.unit_results)) != self._units:
            self._say("unit-results", "the table", f"{count} rows for {self._units} completed units")
        stored = reader.table(s.unit_results) if full else reader.table(s.unit_results, "job_id", touched)
        rows = {(row["job_id"], row["unit"]): (row["version"], row["state"]) for row in stored}
        for job in self.jobs():
            if full or job.stream in set(touched):
                for unit, logged in job.units.items():
                    row = rows.pop((job.stream, unit), None)
                    if row != logged:
                        text = "its result is missing" if row is None else "its result is not the logged one"
                        self._say("unit-results", f"job {job.stream}, unit {unit}", text)
        for job_id, unit in rows:
            self._say("unit-results", f"job {job_id}, unit {unit}", "a result without an event")

    def _check_receipts(self, reader: Reader) -> None:
        asked: dict[str, tuple[StreamTrace, Requested]] = {}
        for trace in self._streams.values():
            asked |= {request: (trace, made) for request, made in trace.requests.items()}
        rows = {row["request_id"]: row for row in reader.table(s.receipts)}
        for request in asked.keys() - rows.keys():
            self._say("receipts", f"request {request}", "the command is in the log, its receipt is missing")
        for request, row in rows.items():
            where = f"request {request}"
            if request not in asked:
                self._say("receipts", where, "a receipt for a command that is not in the log")
                continue
            trace, made = asked[request]
            answer = orjson.loads(row["answer"])
            if isinstance(trace, JobTrace):
                have = (row["action"], row["target"], answer["version"], answer["status"], answer["wish"])
                want = (made.action, str(trace.stream), made.version, made.status, made.wish)
                if have != want:
                    self._say("receipts", where, f"it says {have}, the log says {want}")
            elif isinstance(trace, QueueTrace) and row["target"] != trace.name:
                self._say("receipts", where, f"it names {row['target']!r}, the log {trace.name!r}")

    def _check_queues(self, reader: Reader) -> None:
        rows = {row["queue"]: row for row in reader.table(s.queues)}
        for trace in self._streams.values():
            if isinstance(trace, QueueTrace):
                row = rows.pop(trace.name, None)
                have = None if row is None else (bool(row["paused"]), row["slots"], row["generation"])
                want = (trace.paused, trace.slots, trace.generation)
                if have != want:
                    self._say("queues", f"queue {trace.name}", f"its row says {have}, the log {want}")
        for queue in rows:
            self._say("queues", f"queue {queue}", "a row without a stream")

    def _check_snapshots(self, reader: Reader, touched: Collection[UUID], *, full: bool) -> None:
        """S15: each snapshot is the job at its version, and snapshot and tail are the job."""
        for row in reader.table(s.snapshots) if full else reader.table(s.snapshots, "stream_id", touched):
            job_id, where = row["stream_id"], f"job {row['stream_id']}, snapshot at version {row['version']}"
            if row["vocabulary"] > CODE_VOCABULARY or getattr(self._streams.get(job_id), "parked", 0):
                continue
            events = [(logged.version, logged.topic, logged.state) for logged in reader.stream(job_id)]
            try:
                snapshot = MAPPER.decode(job_id, row["version"], row["topic"], row["state"])
                happened = MAPPER.decode_all(job_id, events)
                before = [event for event in happened if event.originator_version <= row["version"]]
                tail = happened[len(before) :]
                same = _state(fold(None, before)) == _state(snapshot.mutate(None))
                whole = same and _state(fold(None, happened)) == _state(fold(snapshot.mutate(None), tail))
            except Exception as error:  # noqa: BLE001 - whatever a damaged row does to the product is a finding
                self._say("S15", where, f"it can't be folded: {error!r}")
                continue
            if not whole:
                self._say(
                    "S15", where, "it is not what the log says" if not same else "with its tail it is not the job"
                )

    def _check_state(self, reader: Reader) -> None:
        rows = reader.table(s.log_state)
        trace = self._streams.get(identity.LOG_STREAM)
        epoch = trace.epoch if isinstance(trace, EpochTrace) else 1
        if len(rows) != 1 or rows[0]["epoch"] != epoch:
            self._say("epoch", "the log's state", f"{[row['epoch'] for row in rows]}, the log says {epoch}")
        for row in reader.table(s.tracking):
            if row["notification_id"] > len(self._by_position):
                self._say(
                    "S13",
                    f"follower {row['application_name']}",
                    f"it is past the log's end, at {row['notification_id']}",
                )


def _state(job: Job | None) -> Any:
    """A job's state through JSON, as a snapshot keeps it."""
    return None if job is None else orjson.loads(orjson.dumps([job.version, job.to_state()]))
