"""The runs of ``costs.py``: one kind of work, done once in a process of its own, and what it took."""

from __future__ import annotations

import multiprocessing as mp
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from joblog import JobLog
from joblog.workers.worker import Worker, WorkerSettings

from bench import limit
from bench.bodies import jobs
from bench.crew import server_cpu
from bench.stages import Stages
from bench.workloads import span

if TYPE_CHECKING:
    from collections.abc import Callable


class Work(NamedTuple):
    """What is measured: *count* of them, by so many jobs; *group*: how many the bare side writes in one commit."""

    name: str
    count: int
    jobs: int
    group: int
    floors: dict[str, int]  #: a second, by kind of database: multiples of what peers did in bench/PEERS.md


WORKS: Final = {
    "units": Work("a unit, 10 jobs", 5000, 10, 10, {"postgresql": 6831, "sqlite": 8380}),
    "unit": Work("a unit, one job alone", 1500, 1, 1, {"postgresql": 2180}),
    "drain": Work("a no-op job drained", 4000, 4000, 0, {"postgresql": 8864}),
    "submit": Work("a job handed in", 1500, 1500, 0, {}),
}


class Run(NamedTuple):
    """What one process found, for each unit or job; seconds."""

    wall: float
    cpu: float
    server: float
    statements: float
    stages: dict[str, tuple[float, float, float]]  #: calls, CPU, waiting


class _Finite(Worker):
    """Stops when so many jobs have ended."""

    left = 0

    def _ended(self, *of: Any) -> None:
        super()._ended(*of)
        self.left -= 1
        if not self.left:
            self.stop()


def wrapped(log: JobLog) -> Stages:
    """The stages, in the order of the tables."""
    from joblog.domain.job import Job
    from joblog.eventstore import postgres_store
    from joblog.workers.commands import claiming

    stages, store = Stages(), log.store
    stages.wrap(store, "outlook", "look at the queue")
    stages.wrap(claiming, "claim", "claim: transaction and the rest")
    stages.wrap(store, "pick", "claim: choose")
    stages.wrap(claiming, "_claim_append", "claim: make the events")
    stages.wrap(store, "append_claimed", "claim: write")
    stages.wrap(claiming, "replay", "replay: fold")
    stages.wrap(store, "read_many", "replay: read")
    for command in ("complete_units", "complete", "submit"):
        stages.wrap(Job, command, "decide")
    stages.wrap(JobLog, "job_append", "events and row as bytes")
    stages.wrap(postgres_store, "arguments", "pack for the server")
    stages.wrap(store, "append", "write and commit")
    stages.wrap(log.writer, "_run_batch", "the writer's turn and answers")
    return stages


def counting(log: JobLog) -> Callable[[], int]:
    """Statements on SQLite, round trips on PostgreSQL, from now on."""
    found = [0]
    if log.store.dialect == "postgresql":
        import psycopg

        plain = psycopg.Cursor.execute

        def execute(*args: Any, **more: Any) -> Any:
            found[0] += 1
            return plain(*args, **more)

        psycopg.Cursor.execute = execute  # type: ignore[method-assign]
        return lambda: found[0]
    import sqlalchemy as sa

    def count(_: str) -> None:
        found[0] += 1

    store: Any = log.store
    sa.event.listen(store.engine, "connect", lambda driver, _: driver.set_trace_callback(count))
    for pinned in store._pinned:  # noqa: SLF001 - those that are open already
        if pinned.is_open:
            pinned.driver.set_trace_callback(count)
    return lambda: found[0]


def backends(log: JobLog) -> dict[int, float]:
    """Seconds of CPU of the server's processes for this database."""
    if log.store.dialect != "postgresql":
        return {}
    store: Any = log.store
    sql = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
    return {pid: server_cpu(pid) for (pid,) in store.sql_rows(sql)}


def run(url: str, what: str, mode: str) -> Run:
    """One run of *what* in this process: ``plain``, ``counted`` or ``staged``."""
    work = WORKS[what]
    each = work.count // work.jobs
    kind = "bench.units" if what.startswith("unit") else "bench.noop"
    specs = [jobs.spec(kind, {"count": each, "n": n}) for n in range(work.jobs)]
    if what != "submit":
        with JobLog.open(url) as log:
            log.submit_many(specs)
    with JobLog.open(url) as log:
        worker = _Finite(log, jobs, WorkerSettings(slots=min(work.jobs, 200)))
        worker.left = work.jobs
        stages = wrapped(log) if mode == "staged" else None
        count = counting(log) if mode == "counted" else int
        server, cpu, wall = backends(log), time.process_time(), time.perf_counter()
        if what == "submit":
            for spec in specs:
                log.submit(spec)
        else:
            worker.run()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        served = sum(seconds - server.get(pid, 0.0) for pid, seconds in backends(log).items())
        n = work.count
        taken = wall if what == "submit" else span(log)
        found = {} if stages is None else stages.done()
        each_stage = {name: (one.calls / n, one.cpu / n, one.waits / n) for name, one in found.items()}
        return Run(taken / n, cpu / n, served / n, count() / n, each_stage)


def bare(place: str, kind: str, group: int) -> Run:
    """The yardstick in groups of the same size."""
    side: Any = limit.BareSqlite(place) if kind == "sqlite" else limit.BarePostgres(place)
    side.run(group, 0.2)
    server, cpu = server_cpu(side.server) if kind != "sqlite" else 0.0, time.process_time()
    done, seconds = side.run(group, 1.0)
    cpu = time.process_time() - cpu
    served = server_cpu(side.server) - server if kind != "sqlite" else 0.0
    return Run(seconds / done, cpu / done, served / done, 0.0, {})


def apart(function: Callable[..., Run], *arguments: Any) -> Run:
    """Call it in a process of its own."""
    with mp.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)
