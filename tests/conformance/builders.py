"""Appends and jobs for the tests of the stores: a builder names only what matters."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Thread
from typing import Any
from uuid import UUID, uuid4

import orjson

from joblog.domain.errors import JobLogError
from joblog.domain.identity import queue_stream
from joblog.domain.job import Actor
from joblog.domain.lease import Token
from joblog.domain.queue import Queue
from joblog.domain.spec import JobSpec
from joblog.eventstore import failpoint
from joblog.eventstore.append import Append, EventRow, Fence, Stored
from joblog.eventstore.store import LoggedEvent, Store
from joblog.workers.commands.held import Held
from joblog.workers.commands.log import JobLog

BOUND = 30.0  # seconds: how long a test waits for what must happen
ADA = Actor("ada")
LEASE = 30


def an_append(stream: UUID | None = None, expected: int = 0, *, size: int = 1, **more: Any) -> Append:
    """Events for the end of a stream that is no job's."""
    name = uuid4().hex
    rows = [
        EventRow(expected + 1 + i, "test.happened", orjson.dumps({"event_id": f"{name}.{i}", "n": i}))
        for i in range(size)
    ]
    return Append(stream or uuid4(), expected, rows, f"{name}.0", **more)


def stored(answer: Stored | JobLogError) -> int:
    """Give the position of an append that must have landed."""
    assert isinstance(answer, Stored), answer
    return answer.position


def refused(answer: Stored | JobLogError) -> JobLogError:
    assert isinstance(answer, JobLogError), answer
    return answer


def whole_log(store: Store) -> list[LoggedEvent]:
    return store.log(0, 1_000_000)


def assert_whole(store: Store) -> None:
    """Positions are 1..n, and the versions of each stream 1..k, in that order."""
    events = whole_log(store)
    assert [e.position for e in events] == list(range(1, len(events) + 1))
    versions: dict[UUID, int] = {}
    for event in events:
        versions[event.stream_id] = versions.get(event.stream_id, 0) + 1
        assert event.version == versions[event.stream_id]


def a_spec(key: str = "", **fields: Any) -> JobSpec:
    return JobSpec(**{"kind": "import", "key": key or uuid4().hex} | fields)


def submit(log: JobLog, key: str = "", **fields: Any) -> UUID:
    return log.submit(a_spec(key, **fields)).job_id


def submit_newer(log: JobLog, **fields: Any) -> UUID:
    """Submit a job whose row says that only newer code knows its events (S18)."""
    [append] = log._new_appends([a_spec(**fields)])
    append.row["vocabulary"] = 2
    stored(log.writer.append(append))
    return append.stream_id


def claim(log: JobLog, worker: str = "w", **query: Any) -> list[Held]:
    return log.claim(worker, **{"limit": 100} | query)


def claimed(log: JobLog, key: str = "", **fields: Any) -> Held:
    """Submit a job and claim it."""
    job_id = submit(log, key, **fields)
    found = {held.job_id: held for held in claim(log, queues=[fields.get("queue", "default")])}
    return found[job_id]


def ids(held: list[Held]) -> list[UUID]:
    return [one.job_id for one in held]


def unit_append(log: JobLog, held: Held, unit: str = "a", evidence: Any = "proof", **changes: Any) -> Append:
    """Encode the append of one finished unit, to be sent by the test."""
    job, now = log.job(held.job_id), log.now()
    before = job.version
    job.complete_units(Token(job.epoch, job.token), [(unit, evidence)], now=now)
    append = log.job_append(job.id, before, job.collect_events(), log.ids.next(), now)
    append.units, append.fence = ((unit, 0),), Fence(held.token)
    return replace(append, **changes)


def set_queue(log: JobLog, name: str, *, paused: bool = False, slots: int | None = None) -> None:
    """Pause or limit a queue, by events of its own stream and its row."""
    queue = Queue.open(name, ADA, now=log.now())
    if paused:
        queue.pause(ADA, now=log.now())
    queue.limit(slots, ADA, now=log.now())
    stream = queue_stream(name)
    rows = log.to_append(stream, 0, queue.collect_events(), log.ids.next()).events
    have = len(log.store.read(stream))
    renumbered = [EventRow(have + 1 + i, row.topic, row.state) for i, row in enumerate(rows)]
    append = Append(stream, have, renumbered, uuid4().hex)
    append.queue_row = {"queue": name, "paused": int(paused), "slots": slots, "generation": have + len(rows)}
    stored(log.writer.append(append))


def once(error: BaseException) -> Callable[[], None]:
    """Make an action for a failpoint that raises *error* the first time it is passed."""
    left = [error]

    def action() -> None:
        if left:
            raise left.pop()

    return action


@contextmanager
def armed(point: str, action: Callable[[], None]) -> Iterator[None]:
    failpoint.arm(point, action)
    try:
        yield
    finally:
        failpoint.disarm()


class Side:
    """A function in a thread of its own, with what it returned or raised."""

    def __init__(self, run: Callable[[], Any]) -> None:
        self._run = run
        self._result: Any = None
        self._error: BaseException | None = None
        self._thread = Thread(target=self._call, daemon=True)
        self._thread.start()

    def _call(self) -> None:
        try:
            self._result = self._run()
        except BaseException as error:  # noqa: BLE001 - raised again by ``result``
            self._error = error

    def is_done(self, within: float) -> bool:
        self._thread.join(within)
        return not self._thread.is_alive()

    def result(self) -> Any:
        assert self.is_done(BOUND), "still running"
        if self._error is not None:
            raise self._error
        return self._result


class Beside:
    """An action for a failpoint: the first time it is passed, *run* goes on in a thread of its own, and is waited for."""

    def __init__(self, run: Callable[[], Any], within: float = 0.3) -> None:
        self._run, self._within = run, within
        self._has_begun = False
        self._side: Side | None = None

    def __call__(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            self._side = Side(self._run)
            self._side.is_done(self._within)

    def result(self) -> Any:
        assert self._side is not None, "never passed"
        return self._side.result()
