"""Readers that tail the log beside writers with random delays: each must see every event, in order, without a gap.

What could go wrong is a position that is visible before a smaller one.  So the writers' commits take random times (on
PostgreSQL the server waits before it flushes, on SQLite a fail point does), groups have random sizes, and on PostgreSQL a
stranger's transactions stay open for long.
"""

import hashlib
import multiprocessing as mp
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from threading import Event, Thread
from typing import Any, Final

import psycopg

from joblog import JobLog, JobSpec, LeasePolicy
from joblog.domain.errors import JobLogError
from joblog.eventstore import failpoint
from joblog.eventstore.opening import open_store
from joblog.eventstore.store import LoggedEvent, Store

PAGE: Final = 2000
JOBS: Final = 16  #: of each writer
LONGEST_DELAY: Final = 0.003
STRANGER_SECONDS: Final = 1.0
PATIENCE: Final = 60.0  #: without a new event a reader gives up
LEASES: Final = LeasePolicy(timedelta(hours=2), timedelta(minutes=10))


@dataclass(frozen=True)
class Followed:
    """What one reader saw."""

    events: int
    digest: str
    faults: tuple[str, ...]
    seconds: float


class Ledger:
    """Checks the events one by one as they are read."""

    def __init__(self) -> None:
        self.position = 0
        self.faults: list[str] = []
        self._versions: dict[Any, int] = {}
        self._digest = hashlib.sha256()

    def read(self, events: Sequence[LoggedEvent]) -> None:
        for position, stream, version, topic, state in events:
            if position != self.position + 1:
                self.faults.append(f"{position} follows {self.position}")
            if version != self._versions.get(stream, 0) + 1:
                self.faults.append(f"{position}: version {version} follows {self._versions.get(stream, 0)} of {stream}")
            self.position, self._versions[stream] = position, version
            self._digest.update(b"%d %b %d %b %b;" % (position, stream.bytes, version, topic.encode(), state))

    def seen(self, seconds: float) -> Followed:
        return Followed(self.position, self._digest.hexdigest(), tuple(self.faults[:10]), seconds)


def follow(store: Store, last: Callable[[], int | None]) -> Followed:
    """Read behind the newest seen position until the writers say which one was their last, and it was seen."""
    ledger, tick = Ledger(), Event()
    start = moved = time.monotonic()
    while (end := last()) is None or ledger.position < end:
        page = store.log(ledger.position, PAGE)
        ledger.read(page)
        now = time.monotonic()
        moved = now if page else moved
        if now - moved > PATIENCE:
            ledger.faults.append(f"nothing behind {ledger.position} for {PATIENCE} s")
            break
        if len(page) < PAGE // 10:
            tick.wait(0.001)
    return ledger.seen(time.monotonic() - start)


def run_reader(pipe: Connection, url: str) -> None:
    end: int | None = None

    def last() -> int | None:
        nonlocal end
        while pipe.poll():
            end = pipe.recv()
        return end

    store = open_store(url, read_only=True)
    pipe.send("ready")
    pipe.send(follow(store, last))
    store.close()


def run_writer(pipe: Connection, url: str, seed: int, events: int) -> None:
    """Complete units in groups of random size, with random delays, until the log has so many events."""
    chance, tick = random.Random(seed), Event()
    log = JobLog.open(url, leases=LEASES)

    def be_slow() -> None:
        tick.wait(chance.random() * LONGEST_DELAY / 2)

    if log.store.dialect == "sqlite":
        failpoint.arm("append.before_commit", be_slow)
    queue = f"writer-{seed}"
    log.submit_many(JobSpec("scale", {"n": n}, key=f"{seed}-{n}", queue=queue) for n in range(JOBS))
    held: list[Any] = []
    while len(held) < JOBS:
        held += log.claim(queue, queues=[queue], limit=JOBS)
    position, n = 0, 0
    while position < events:
        if log.store.dialect == "postgresql" and chance.random() < 0.1:
            _commit_slowly(log, chance.randrange(3000))
        group = chance.sample(held, chance.randint(1, JOBS))
        work: list[tuple[Any, Any, dict[str, Any]]] = []
        for one in group:
            units = [(f"{n + i}", {"rows": n}) for i in range(chance.randint(1, 8))]
            n += len(units)
            work.append((one, units, {"cursor": {"row": n}}))
        answers = log.complete_many(work)
        for answer in answers:
            if isinstance(answer, JobLogError):
                raise answer
            position = max(position, answer)
        if chance.random() < 0.5:
            tick.wait(chance.random() * LONGEST_DELAY)
    log.close()
    pipe.send(n)


def _commit_slowly(log: JobLog, micros: int) -> None:
    """Have the server wait so long before it flushes this connection's next commits."""
    pinned = log.store._append_pin  # type: ignore[attr-defined]
    pinned.open()
    pinned.driver.execute("SET commit_siblings = 0")
    pinned.driver.execute(f"SET commit_delay = {micros}")


@contextmanager
def stranger(url: str) -> Iterator[None]:
    """Somebody else's transactions in the same database, each with an id and open for long."""
    done = Event()

    def hold() -> None:
        with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
            while not done.is_set():
                with connection.transaction():
                    connection.execute("SELECT pg_current_xact_id()")
                    done.wait(STRANGER_SECONDS)

    thread = Thread(target=hold)
    if url.startswith("postgresql"):
        thread.start()
    try:
        yield
    finally:
        done.set()
        if thread.ident is not None:
            thread.join()


def campaign(url: str, readers: dict[str, str], *, writers: int, events: int, seed: int = 1) -> dict[str, Followed]:
    """Let *writers* write to *url* until it has *events*, and *readers* (name, URL) follow; what each of them saw.

    ``truth`` is the log as it stands at the end.
    """
    JobLog.open(url).close()  # the schema
    context = mp.get_context("spawn")
    with stranger(url):
        tails = {name: _start(context, run_reader, where) for name, where in readers.items()}
        for pipe, _ in tails.values():
            pipe.recv()
        workers = [_start(context, run_writer, url, seed + n, events) for n in range(writers)]
        for pipe, process in workers:
            process.join()
            if process.exitcode:
                raise RuntimeError(f"a writer ended with {process.exitcode}")
            pipe.close()
        store = open_store(url)
        head = store.head()
        for pipe, _ in tails.values():
            pipe.send(head)
        found = {name: pipe.recv() for name, (pipe, _) in tails.items()}
        for _, process in tails.values():
            process.join()
        found["truth"] = follow(store, lambda: head)
        store.close()
    return found


def _start(context: Any, run: Callable[..., None], *arguments: Any) -> tuple[Connection, Any]:
    here, there = context.Pipe()
    process = context.Process(target=run, args=(there, *arguments), daemon=True)
    process.start()
    there.close()
    return here, process


def faults(found: dict[str, Followed], events: int) -> list[str]:
    """What no reader may have seen, or missed."""
    truth = found["truth"]
    wrong = [f"{name}: {fault}" for name, seen in found.items() for fault in seen.faults]
    wrong += [
        f"{name} read {seen.events} of {truth.events}" for name, seen in found.items() if seen.events != truth.events
    ]
    wrong += [f"{name} read other events" for name, seen in found.items() if seen.digest != truth.digest]
    if truth.events < events:
        wrong.append(f"only {truth.events} events were written")
    return wrong
