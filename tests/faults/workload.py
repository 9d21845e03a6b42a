"""What a process does to a log while it is being broken: a random script of commands, everything told to the journal.

The same script runs on both databases.  Its choices come from a seeded generator and from what the log holds, its ids
from the run, and on SQLite its time from a clock that all processes of a rig share: a run can be repeated.
"""

import mmap
import random
import struct
from asyncio import AbstractEventLoop, Future
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final
from uuid import UUID
from zlib import crc32

import orjson
import sqlalchemy as sa

from joblog import Actor, JobLog, JobSpec, RetryPolicy
from joblog.domain.errors import (
    ExhaustedError,
    JobLogError,
    JobNotFoundError,
    KeyConflictError,
    RebuildRunningError,
    RefusedError,
    StoreBusyError,
    StoreUnavailableError,
    UnknownOutcomeError,
)
from joblog.domain.events import CODE_VOCABULARY
from joblog.domain.identity import LOG_STREAM
from joblog.domain.lease import Token
from joblog.eventstore.append import Append, EventRow, Stored
from joblog.eventstore.gates import GateEntry, GateLimits
from joblog.eventstore.outcomes import Answer
from joblog.eventstore.store import ClaimQuery, Seen
from joblog.eventstore.writer import GroupWriter
from joblog.projections import job_table, rebuild
from joblog.workers.commands import claiming, family
from joblog.workers.commands.held import Held
from tests.faults.journal import ACKED, REFUSED, UNKNOWN, Journal

EPOCH: Final = datetime(2030, 1, 1, tzinfo=UTC)
SECOND: Final = timedelta(seconds=1)
FUTURE: Final = "joblog.job.from-the-future"
QUICK: Final = RetryPolicy(first_seconds=0.05, ceiling_seconds=0.2, retries=3)
#: Refusals that a script takes as they come; anything else ends it with an error.
EXPECTED: Final = (RefusedError, StoreBusyError, RebuildRunningError)
BROKEN: Final = (*EXPECTED, StoreUnavailableError, UnknownOutcomeError)  #: also where the database itself is attacked


class SharedClock:
    """One clock for all processes of a rig, in shared memory: it stands still until someone moves it."""

    def __init__(self) -> None:
        self._cells = mmap.mmap(-1, 24)

    def _read(self) -> tuple[int, int, int]:
        now, boot, booted_at = struct.unpack("<qqq", self._cells[:24])
        return now, boot, booted_at

    def advance(self, span: timedelta) -> None:
        now, boot, booted_at = self._read()
        self._cells[:24] = struct.pack("<qqq", now + span // timedelta(microseconds=1), boot, booted_at)

    def reboot(self) -> None:
        """Another boot id, and a boot clock that starts anew."""
        now, boot, _ = self._read()
        self._cells[:24] = struct.pack("<qqq", now, boot + 1, now)

    def now(self) -> datetime:
        return EPOCH + timedelta(microseconds=self._read()[0])

    def monotonic(self) -> float:
        return self._read()[0] / 1_000_000

    def boottime(self) -> float:
        now, _, booted_at = self._read()
        return 1000 + (now - booted_at) / 1_000_000

    def boot_id(self) -> str:
        return f"boot-{self._read()[1]}"


class RunIds:
    """Ids that name their run, the same when it is repeated."""

    def __init__(self, run: str) -> None:
        self._run, self._count = run, 0

    def next(self) -> str:
        self._count += 1
        return f"{self._run}-{self._count:x}"


# -- telling the journal -------------------------------------------------------------------------------------------------


class WatchedWriter(GroupWriter):
    """Tells the journal what is sent and what is answered."""

    journal: Journal
    last: Append | None = None

    def append_many(self, appends: Any, *, timeout: float | None = None) -> list[Answer]:
        batch = list(appends)
        for append in batch:
            self.journal.sent(append)
        answers = super().append_many(batch, timeout=timeout)
        for append, answer in zip(batch, answers, strict=True):
            self.journal.answered(append, answer)
            if isinstance(answer, Stored):
                self.last = append
        return answers

    def append_soon(self, appends: Any, loop: AbstractEventLoop) -> list[Future[Answer]]:
        batch = list(appends)
        for append in batch:
            self.journal.sent(append)
        futures = super().append_soon(batch, loop)
        for append, future in zip(batch, futures, strict=True):
            future.add_done_callback(partial(self._heard, append))
        return futures

    def _heard(self, append: Append, future: Future[Answer]) -> None:
        if not future.cancelled():
            self.journal.answered(append, future.result())

    def append_atomic(self, appends: list[Append]) -> list[tuple[int, Append]] | JobLogError:
        for append in appends:
            self.journal.sent(append)
        placed = super().append_atomic(appends)
        for index, append in enumerate(appends):
            self.journal.answered(append, placed if isinstance(placed, JobLogError) else Stored(placed[index][0]))
        return placed


class WatchedStore:
    """A store that tells the journal of the appends that do not go through the writer."""

    def __init__(self, store: Any, journal: Journal) -> None:
        self._store, self._journal = store, journal

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def claim(self, query: ClaimQuery, build: Callable[..., list[Append]], generation: int, seen: Seen) -> Any:
        made: list[Append] = []

        def watched(rows: Any, now: int) -> list[Append]:
            made[:] = build(rows, now)
            for append in made:
                self._journal.sent(append)
            return made

        with self._answering(made):
            written, first = self._store.claim(query, watched, generation, seen)
        for index, append in enumerate(written):
            self._journal.answered(append, Stored(first + index))
        return written, first

    def raise_epoch(self, append: Append, epoch: int) -> int:
        self._journal.sent(append)
        with self._answering([append]):
            position: int = self._store.raise_epoch(append, epoch)
        self._journal.answered(append, Stored(position))
        return position

    @contextmanager
    def atomic(self) -> Iterator[Any]:
        """What is appended in the transaction is answered when that has ended."""
        sent: list[Append] = []
        placed: list[tuple[Append, int]] = []
        with self._answering(sent), self._store.atomic() as transaction:
            yield WatchedTransaction(transaction, self._journal, sent, placed)
        for append, first in placed:
            self._journal.answered(append, Stored(first))

    @contextmanager
    def _answering(self, sent: list[Append]) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            for append in sent:
                self._journal.answered(append, error)
            raise


class WatchedTransaction:
    """An open transaction of the store, with appends among other writes."""

    def __init__(
        self, transaction: Any, journal: Journal, sent: list[Append], placed: list[tuple[Append, int]]
    ) -> None:
        self._transaction, self._journal, self._sent, self._placed = transaction, journal, sent, placed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transaction, name)

    def append(self, append: Append, generation: int, seen: Seen) -> int:
        self._journal.sent(append)
        try:
            first: int = self._transaction.append(append, generation, seen)
        except Exception as error:
            self._journal.answered(append, error)
            raise
        self._sent.append(append)
        self._placed.append((append, first))
        return first


def watch(log: JobLog, journal: Journal) -> None:
    """Let *journal* hear all that *log* sends and is answered; nothing was sent through it yet."""
    writer = WatchedWriter(log.store, log.busy, on_commit=log.writer._on_commit)
    writer.journal = journal
    log.writer = writer
    watched: Any = WatchedStore(log.store, journal)
    log.store = watched


# -- jobs ----------------------------------------------------------------------------------------------------------------


def a_spec(key: str, *, retry: RetryPolicy | None = None) -> JobSpec:
    """The job that *key* stands for: the key decides everything, so that a second submit is the same."""
    n = crc32(key.encode())
    units = 30 if n % 11 == 0 else n % 6 + 1
    return JobSpec(
        "work",
        {"units": units, "key": key},
        key=key,
        tenant=f"tenant-{n % 3}",
        priority=n % 4,
        exclusive_key=("", "", "ledger", "", "board")[n % 5],
        gate="provider" if n % 7 == 0 else "",
        total=units if n % 2 else None,
        retry=retry or RetryPolicy(retries=3),
    )


def units_left(log: JobLog, held: Held) -> list[str]:
    """Which units have no result and were not skipped; looked up by their keys before any body runs."""
    job = held.job
    settled = set(log.store.unit_states(held.job_id))
    if job.skipped:
        for _, topic, state in log.store.read(held.job_id):
            if topic == "joblog.job.unit-skipped":
                settled.add(orjson.loads(state)["unit"])
    return [unit for i in range(job.args["units"]) if (unit := f"u{i}") not in settled]


def evidence(unit: str) -> dict[str, Any]:
    return {"unit": unit, "digest": f"{crc32(unit.encode()):08x}"}


def complete(journal: Journal, held: Held, units: Sequence[str], **checkpoint: Any) -> None:
    """Carry out *units* and record them."""
    for unit in units:
        journal.effect(held.job_id, unit)
    try:
        held.complete_units([(unit, evidence(unit)) for unit in units], **checkpoint)
    except UnknownOutcomeError:
        journal.settled(held.job_id, units, UNKNOWN)
        raise
    except JobLogError:
        journal.settled(held.job_id, units, REFUSED)
        raise
    journal.settled(held.job_id, units, ACKED)


def finish_job(log: JobLog, journal: Journal, held: Held) -> None:
    """Do all that is left of a job."""
    left = units_left(log, held)
    for start in range(0, len(left), 10):
        complete(journal, held, left[start : start + 10], advance=0)
    job = held.job
    if (rest := job.done + job.skipped - job.sequence) > 0:
        held.complete_units([], advance=rest, cursor={"end": True})
    held.complete({"ended": True})


# -- the script ----------------------------------------------------------------------------------------------------------

#: How often each command comes.
WEIGHTS: Final[dict[str, float]] = {
    "submit": 6,
    "resubmit": 1,
    "claim": 8,
    "work": 22,
    "out_of_order": 2,
    "many": 3,
    "end": 8,
    "attempt": 4,
    "spawn": 2,
    "retry": 3,
    "release": 3,
    "skip": 1,
    "freeze": 1,
    "park": 1,
    "fail": 1,
    "renew": 3,
    "expire": 3,
    "promote": 3,
    "snapshot": 1,
    "resend": 3,
    "command": 9,
    "queue": 1,
    "bulk": 1,
    "checkpoint": 2,
    "advance": 3,
    "gate": 1,
    "outbox": 2,
    "rebuild": 1,
    "future": 1,
    "epoch": 0.3,
}


class Script:
    """A process at work: it claims, works, gives back, commands, and loses what others take from it."""

    may_move_time = True
    alive: frozenset[str] = frozenset()  #: the runs whose processes may still live, this one among them

    def __init__(
        self,
        log: JobLog,
        journal: Journal,
        rng: random.Random,
        *,
        clock: SharedClock | None = None,
        keys: int = 20,
        expected: tuple[type[Exception], ...] = EXPECTED,
        weights: dict[str, float] | None = None,
    ) -> None:
        self.log, self.journal, self.rng = log, journal, rng
        self.clock, self.keys, self.expected = clock, keys, expected
        self.held: dict[UUID, Held] = {}
        self.weights = {**WEIGHTS, **(weights or {})}
        self.done = self.refused = 0
        self._requests = self._fresh = 0
        self.alive = frozenset({journal.run})
        self._commands: list[tuple[str, UUID, Actor, Any]] = []

    @property
    def name(self) -> str:
        return f"worker-{self.journal.run}"

    def run(self, steps: int, *, must: str = "") -> None:
        """Do *steps* random commands, among them *must*."""
        plan = self.rng.choices(list(self.weights), list(self.weights.values()), k=steps)
        if must:
            plan.insert(self.rng.randrange(len(plan) + 1), must)
        for command in plan:
            self.do(command)

    def do(self, command: str) -> None:
        try:
            getattr(self, f"do_{command}")()
            self.done += 1
        except self.expected:
            self.refused += 1

    def _rows(self, *statuses: str) -> list[Any]:
        found = [row for status in statuses for row in self.log.store.find_jobs(status=status, limit=30)]
        return sorted(found, key=lambda row: str(row["id"]))

    def _spec(self) -> JobSpec:
        key = f"job-{self.keys - self.rng.randrange(6) if self.rng.random() < 0.8 else self.rng.randrange(self.keys)}"
        return a_spec(key, retry=None if self.clock is not None else QUICK)

    def _one_held(self) -> Held | None:
        if not self.held:
            self.do("claim")
        if not self.held:
            self.do("fresh")
            self.do("claim")
        return self.held[self.rng.choice(sorted(self.held))] if self.held else None

    # -- submit ------------------------------------------------------------------------------------------------------

    def do_submit(self) -> None:
        specs = [self._spec() for _ in range(self.rng.randint(1, 3))]
        for spec in specs:
            self.journal.submit(spec.job_id)
        for spec, answer in zip(specs, self.log.submit_many(specs), strict=True):
            if isinstance(answer, JobLogError):
                raise answer
            if answer.job_id != spec.job_id:
                raise AssertionError(f"submitting {spec.key} gave {answer}")
            self.journal.accepted(spec.job_id)

    def do_fresh(self) -> None:
        """A job that nothing keeps from being claimed."""
        self._fresh += 1
        spec = JobSpec("work", {"units": 2}, key=f"fresh-{self.journal.run}-{self._fresh}", priority=0)
        self.journal.submit(spec.job_id)
        self.log.submit(spec)
        self.journal.accepted(spec.job_id)

    def do_resubmit(self) -> None:
        """The same key with other arguments: never another job, never the old one in silence."""
        rows = [row for row in self._rows("queued", "completed") if not row["parent_id"]]
        if rows:
            row = self.rng.choice(rows)
            try:
                self.log.submit(JobSpec("work", {"other": 1}, key=row["key"], tenant=row["tenant"]))
            except KeyConflictError:
                return
            raise AssertionError(f"key {row['key']} was accepted with other arguments")

    def do_outbox(self) -> None:
        """Hand in a job in a transaction of the caller's own, then let a worker move it."""
        spec = self._spec()
        url: sa.URL = self.log.store.engine.url  # type: ignore[attr-defined]
        self.journal.submit(spec.job_id)
        try:
            with sa.create_engine(url, poolclass=sa.NullPool).begin() as connection:
                self.log.submit_in(connection, spec)
        except sa.exc.OperationalError:  # the database was busy, or went away
            self.refused += 1
            return
        self.journal.accepted(spec.job_id)
        try:
            self.log.row(spec.job_id)
        except JobNotFoundError as error:
            raise AssertionError(f"a job that was handed in is not to be seen: {error}") from error
        self.log.drain_outbox()

    # -- work --------------------------------------------------------------------------------------------------------

    def do_claim(self) -> None:
        held = self.log.claim(self.name, limit=self.rng.randint(1, 4))
        parked = claiming.replay(self.log, held)
        if parked:
            raise AssertionError(f"S18: a job with events of newer code was claimed: {parked}")
        self.held.update({one.job_id: one for one in held})

    @contextmanager
    def _holding(self, *, to_the_end: bool = False) -> Iterator[Held | None]:
        """A job to work on.  After a refusal its holder drops it, as a worker would; or does not, and stays a zombie."""
        held = self._one_held()
        try:
            yield held
        except JobLogError:
            if held is not None and self.rng.random() < 0.8:
                self.held.pop(held.job_id, None)
            raise
        if held is not None and to_the_end:
            self.held.pop(held.job_id, None)

    def do_work(self) -> None:
        with self._holding() as held:
            if held and (units := units_left(self.log, held)[: self.rng.randint(1, 3)]):
                more: dict[str, Any] = {"cursor": {"at": units[-1]}} if self.rng.random() < 0.5 else {}
                if self.rng.random() < 0.2:
                    more["tallies"] = {"rows": held.job.done}
                complete(self.journal, held, units, **more)

    def do_out_of_order(self) -> None:
        with self._holding() as held:
            if held and (left := units_left(self.log, held)):
                complete(self.journal, held, left[-1:], advance=0)

    def do_many(self) -> None:
        """Units of several jobs in one commit."""
        self._one_held()
        work: list[tuple[Held, str]] = []
        for held in [self.held[job_id] for job_id in sorted(self.held)][:3]:
            try:
                left = units_left(self.log, held)
            except self.expected:
                self.held.pop(held.job_id)
                continue
            if left:
                work.append((held, left[0]))
        for held, unit in work:
            self.journal.effect(held.job_id, unit)
        answers = self.log.complete_many([(held, [(unit, evidence(unit))], {}) for held, unit in work])
        for (held, unit), answer in zip(work, answers, strict=True):
            how = ACKED if isinstance(answer, int) else UNKNOWN if isinstance(answer, UnknownOutcomeError) else REFUSED
            self.journal.settled(held.job_id, [unit], how)
            if isinstance(answer, JobLogError):
                self.held.pop(held.job_id)
        for answer in answers:
            if isinstance(answer, JobLogError):
                raise answer

    def do_end(self) -> None:
        with self._holding(to_the_end=True) as held:
            if held:
                finish_job(self.log, self.journal, held)

    def do_attempt(self) -> None:
        with self._holding() as held:
            if held and (left := units_left(self.log, held)):
                try:
                    held.attempt_unit(left[0])
                except ExhaustedError:
                    held.park(reason="exhausted", text="no attempt is left")

    def do_retry(self) -> None:
        with self._holding(to_the_end=True) as held:
            if held and (left := units_left(self.log, held)):
                try:
                    held.schedule_retry(left[0], category="network", text="reset by peer")
                except ExhaustedError:
                    held.fail(reason="exhausted", text="no attempt is left", unit=left[0])

    def do_release(self) -> None:
        with self._holding(to_the_end=True) as held:
            if held:
                cause = self.rng.choice(("yield", "shutdown", "wait"))
                later = self.log.now() + (SECOND * 5 if self.clock else SECOND / 10)
                if held.job.version % 4 == 0:  # no draw of its own: the scripts of every seed stay what they were
                    held.await_gate("provider", unit="", due_at=later)
                else:
                    held.release(cause, due_at=later if cause == "wait" else None)

    def do_spawn(self) -> None:
        """A child, for whose end its parent waits without a lease."""
        with self._holding(to_the_end=True) as held:
            if held:
                key = f"child-{self.rng.randrange(3)}"
                spec = JobSpec("work", {"units": 1, "key": key}, key=key, parent_id=held.job_id, tenant=held.job.tenant)
                self.journal.submit(spec.job_id)
                self.log.submit(spec)
                self.journal.accepted(spec.job_id)
                held.release("child", due_at=self.log.now() + (SECOND * 60 if self.clock else SECOND / 5))
                family.wake_if_done(self.log, self.log.job(held.job_id))

    def do_skip(self) -> None:
        with self._holding() as held:
            if held and (left := units_left(self.log, held)):
                held.skip_unit(left[0], code="bad-row", text="no number")

    def do_freeze(self) -> None:
        with self._holding() as held:
            if held:
                held.freeze_list(f"rows-{self.rng.randrange(9)}", count=held.job.args["units"], digest="0" * 64)

    def do_park(self) -> None:
        with self._holding(to_the_end=True) as held:
            if held:
                held.park(reason="credential", text="the key has expired")

    def do_fail(self) -> None:
        with self._holding(to_the_end=True) as held:
            if held:
                held.fail(reason="bad-input", text="no such file")

    def do_renew(self) -> None:
        self._one_held()
        for held in self.log.renew(self.held.values()):
            self.held.pop(held.job_id)

    # -- time --------------------------------------------------------------------------------------------------------

    def _pass_time(self, span: timedelta) -> None:
        if self.clock is not None and self.may_move_time:
            self.clock.advance(span)

    def do_advance(self) -> None:
        self._pass_time(timedelta(seconds=self.rng.choice((0.1, 1, 5, 12, 40))))

    def do_expire(self) -> None:
        """Leases run out, those of this process too: it stays a zombie until it notices.

        Where the clock is the database's they do not, and whoever holds a job and is not alive is known to be dead.
        """
        self._one_held()
        self._pass_time(timedelta(seconds=31))
        self.log.expire(self.name)
        if self.clock is None:
            for row in self._rows("running"):
                lease = self.log.store.lease(row["id"])
                if lease is not None and lease.worker.removeprefix("worker-") not in self.alive:
                    self.log.reclaim(lease, self.name)

    def do_promote(self) -> None:
        if not self._rows("waiting"):
            self.do("retry")
        self._pass_time(timedelta(seconds=9))
        self.log.promote()

    # -- beside ------------------------------------------------------------------------------------------------------

    def do_snapshot(self) -> None:
        """A few events more, so that one is due."""
        for _ in range(4):
            self.do("freeze")
            self.do("work")

    def do_checkpoint(self) -> None:
        if self.log.store.dialect == "sqlite":
            self.log.store.checkpoint()  # type: ignore[attr-defined]

    def do_gate(self) -> None:
        closed_until = self.log.store.now() + 2_000_000 if self.rng.random() < 0.3 else 0
        self.log.store.set_gate("provider", self.rng.choice((1, 2, None)), closed_until)
        # A request of nobody's: its slot is as good as its lease, so the next one takes it.
        entry = GateEntry("requests", self.log.ids.next(), LOG_STREAM, Token(1, 1), GateLimits(slots=1))
        assert self.log.store.enter_gate(entry).is_let_go

    def do_rebuild(self) -> None:
        """A killed one goes on under its owner's name, or when it counts as dead."""
        self._pass_time(timedelta(seconds=31))
        owner = "rebuilder" if self.clock is None and len(self.alive) == 1 else self.name
        rebuild.rebuild(self.log.store, self.log.mapper, owner)
        self.log.store.rebuild_drop_old()

    def do_resend(self) -> None:
        """Send an append again that was acknowledged: it stays where it is."""
        writer = self.log.writer
        if not isinstance(writer, WatchedWriter):
            return
        if writer.last is None:
            self.do("submit")
        if (append := writer.last) is None:
            return
        answer = writer.append(append)
        assert not isinstance(answer, RefusedError), f"S2: sent again, {append.event_id} was answered {answer!r}"
        if isinstance(answer, JobLogError):
            raise answer

    def do_future(self) -> None:
        """Newer code appends an event that this code does not know (S18)."""
        rows = [row for row in self._rows("queued") if row["vocabulary"] <= CODE_VOCABULARY]
        if not rows or self.rng.random() < 0.5:
            return
        row = self.rng.choice(rows)
        event_id = f"{self.log.ids.next()}.0"
        at = max(self.log.now(), job_table.moment(row["updated_at"]))
        state = {"timestamp": at.isoformat(), "event_id": event_id, "says": "something new"}
        events = [EventRow(row["version"] + 1, FUTURE, orjson.dumps(state))]
        changes = {"version": row["version"] + 1, "updated_at": job_table.micros(at), "vocabulary": CODE_VOCABULARY + 1}
        answer = self.log.writer.append(Append(row["id"], row["version"], events, event_id, changes))
        if isinstance(answer, JobLogError):
            raise answer

    # -- operators ---------------------------------------------------------------------------------------------------

    def _actor(self) -> Actor:
        self._requests += 1
        return Actor("operator", f"request-{self.journal.run}-{self._requests}".ljust(20, "."))

    def do_command(self) -> None:
        if self._commands and self.rng.random() < 0.15:
            action, job_id, actor, first = self.rng.choice(self._commands)
            again = self.log.command(action, job_id, actor)
            if again != first._replace(repeated=True):
                raise AssertionError(f"request {actor.request_id} was answered {first}, and now {again}")
            return
        action = self.rng.choice(("pause", "resume", "resume", "retry", "retry", "cancel"))
        fitting = ("paused", "failed") if action in {"resume", "retry"} else ("queued", "running", "waiting")
        rows = self._rows(*fitting)
        if rows:
            job_id, actor = self.rng.choice(rows)["id"], self._actor()
            self._commands.append((action, job_id, actor, self.log.command(action, job_id, actor)))

    def do_queue(self) -> None:
        """Pause the queue for a moment, or limit it."""
        if self.rng.random() < 0.5:
            self.log.control_queue("default", "pause", self._actor())
            self.log.control_queue("default", "resume", self._actor())
        else:
            self.log.control_queue("default", "limit", self._actor(), slots=self.rng.choice((2, 8, None)))

    def do_bulk(self) -> None:
        self.log.command_queue("default", self.rng.choice(("resume", "retry", "pause")), self._actor())

    def do_epoch(self) -> None:
        """As after a restore: every lease of the older epoch is void."""
        self.log.raise_epoch(self._actor(), reason="restored")
