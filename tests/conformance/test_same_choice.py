"""Three stores with one history choose the same jobs, in the same order, at every claim."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import count
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from joblog.domain.errors import JobLogError
from joblog.workers.commands.held import Held
from joblog.workers.commands.log import JobLog
from tests.clocks import DatabaseClock
from tests.conformance.backends import Backend, MemoryBackend, PostgresBackend, SqlBackend, SqliteBackend
from tests.conformance.builders import ADA, a_spec, claim, set_queue, stored
from tests.postgres_server import fresh_database

pytestmark = pytest.mark.postgres
QUEUES, KINDS, GATES = ("p", "q"), ("a", "b", "é"), ("", "g", "h")
TENANTS = ("ada", "bob", "cyd", "Ada", "\U0010ffff")
_names = count()

Step = Callable[["Three"], Any]


class Three:
    """One log of each kind, with one clock, that get the same commands."""

    def __init__(self, backends: list[Backend], clock: DatabaseClock) -> None:
        self.backends, self.clock = backends, clock
        self.logs = [backend.open() for backend in backends]
        self.held: list[tuple[Held, ...]] = []

    def start(self) -> None:
        """Forget the jobs of the last example; their streams stay, the next one has other keys."""
        self.name, self.keys, self.held = f"{next(_names)}", count(), []
        for backend, log in zip(self.backends, self.logs, strict=True):
            log.served_tenant = ""
            if isinstance(backend, MemoryBackend):
                tables = backend.store.tables
                for part in (*tables.jobs, tables.leases, tables.queues, tables.gates.rows):
                    part.clear()
            elif isinstance(backend, SqlBackend):
                for table in ("jobs_0", "leases", "queues", "gates"):
                    backend.run(f"DELETE FROM {table}")

    def all(self, command: Callable[[JobLog], Any]) -> Any:
        """Give *command* to each log; their answers must be the same."""
        answers = [command(log) for log in self.logs]
        assert answers[1:] == answers[:1] * 2
        return answers[0]

    def rows(self) -> list[tuple[Any, ...]]:
        """What the claim index holds of each job."""
        columns = ("status", "ready", "blocked", "due_at", "version", "token")

        def look(log: JobLog) -> list[tuple[Any, ...]]:
            rows = log.store.find_jobs(limit=1000)
            return sorted((row["id"].bytes, *(row[name] for name in columns)) for row in rows)

        found: list[tuple[Any, ...]] = self.all(look)
        return found


@pytest.fixture(scope="module")
def three(prepared: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    path = tmp_path_factory.mktemp("three") / "joblog.db"
    with fresh_database(prepared) as url:
        clock = DatabaseClock(url)
        backends = [MemoryBackend("", clock), SqliteBackend(f"sqlite:///{path}", clock), PostgresBackend(url, clock)]
        yield Three(backends, clock)
        for backend in backends:
            backend.close()


def submit(due: int, newer: bool, fields: dict[str, Any]) -> Step:
    def step(three: Three) -> None:
        key = f"{three.name}-{next(three.keys)}"
        spec = a_spec(key, due_at=three.clock.now() + timedelta(seconds=due), **fields)

        def command(log: JobLog) -> None:
            [append] = log._new_appends([spec])
            append.row["vocabulary"] = 1 + newer
            stored(log.writer.append(append))

        three.all(command)

    return step


def take(limit: int, queues: tuple[str, ...], kinds: tuple[str, ...] | None, crashes: int) -> Step:
    def step(three: Three) -> None:
        taken = [claim(log, limit=limit, queues=queues, kinds=kinds, max_crashes=crashes) for log in three.logs]
        order = [[held.job_id for held in mine] for mine in taken]
        assert order[1:] == order[:1] * 2
        three.held += zip(*taken, strict=True)

    return step


def end(which: int, how: str) -> Step:
    def step(three: Three) -> None:
        if not three.held:
            return
        mine = dict(zip(map(id, three.logs), three.held.pop(which % len(three.held)), strict=True))

        def command(log: JobLog) -> str:
            held = mine[id(log)]
            try:
                if how == "complete":
                    held.complete()
                elif how == "fail":
                    held.fail(reason="bad", text="")
                else:
                    held.release(how, due_at=three.clock.now() + timedelta(seconds=3))
            except JobLogError as error:
                return type(error).__name__
            return ""

        three.all(command)

    return step


def operate(action: str, which: int) -> Step:
    def step(three: Three) -> None:
        jobs: list[UUID] = [UUID(bytes=row[0]) for row in three.rows()]
        if jobs:

            def command(log: JobLog) -> str:
                try:
                    return log.command(action, jobs[which % len(jobs)], ADA).status
                except JobLogError as error:
                    return type(error).__name__

            three.all(command)

    return step


SUBMIT = st.builds(
    submit,
    st.sampled_from([0, 0, 0, -90, 2, 70]),
    st.sampled_from([False] * 5 + [True]),
    st.fixed_dictionaries(
        {
            "queue": st.sampled_from(QUEUES),
            "kind": st.sampled_from(KINDS),
            "tenant": st.sampled_from(TENANTS),
            "priority": st.integers(0, 3),
            "gate": st.sampled_from(GATES),
            "exclusive_key": st.sampled_from(["", "", "x"]),
        }
    ),
)
TAKE = st.builds(
    take,
    st.integers(1, 6),
    st.sampled_from([QUEUES, QUEUES, ("q",), ("q", "p")]),
    st.sampled_from([None, None, ("a",), ("b", "a")]),
    st.sampled_from([0, 9]),
)
OTHERS = st.one_of(
    st.builds(end, st.integers(0, 9), st.sampled_from(["complete", "fail", "yield", "wait"])),
    st.builds(operate, st.sampled_from(["pause", "resume", "cancel"]), st.integers(0, 9)),
    st.builds(lambda seconds: lambda three: three.clock.move(seconds), st.sampled_from([1, 31, 61, 200])),
    st.just(lambda three: three.all(lambda log: log.promote(limit=3))),
    st.just(lambda three: three.all(lambda log: len(log.expire("reaper")))),
    st.builds(
        lambda queue, paused, slots: (
            lambda three: three.all(lambda log: set_queue(log, queue, paused=paused, slots=slots))
        ),
        st.sampled_from(QUEUES),
        st.booleans(),
        st.sampled_from([None, 0, 1, 2]),
    ),
    st.builds(
        lambda gate, slots, closed: (
            lambda three: three.all(lambda log: log.store.set_gate(gate, slots, log.store.now() + closed * 1_000_000))
        ),
        st.sampled_from(GATES[1:]),
        st.sampled_from([None, 1, 2]),
        st.sampled_from([-1, 0, 40]),
    ),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(jobs=st.lists(SUBMIT, min_size=1, max_size=10), steps=st.lists(SUBMIT | TAKE | TAKE | OTHERS, max_size=12))
def test_three_stores_choose_the_same_jobs_in_the_same_order(three: Three, jobs: list[Step], steps: list[Step]) -> None:
    three.start()

    for step in [*jobs, *steps, take(3, QUEUES, None, 9)]:
        step(three)
        three.rows()
