"""Where the cost of a unit, of a no-op job and of a submit lies: stage by stage, beside bare SQL that writes the same rows.

    .venv/bin/python bench/costs.py                          # both databases, about 2 minutes
    .venv/bin/python bench/costs.py --only unit --kinds sqlite
    .venv/bin/python bench/costs.py --write                  # and put the tables into bench/COSTS.md

Every run is a process of its own.  Totals come from runs in which nothing is wrapped, statements from one in which they are
counted, stages from one in which the functions are wrapped: what no stage has of the total is the rest.
"""

from __future__ import annotations

import argparse
import multiprocessing as mp
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
for folder in (ROOT / "src", ROOT):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from bench import limit, report
from bench.bodies import jobs
from bench.crew import server_cpu
from bench.databases import pair
from bench.stages import Stages
from bench.workloads import span
from joblog import JobLog
from joblog.workers.worker import Worker, WorkerSettings

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS: Final = ("sqlite", "postgresql")
ROUNDS: Final = 3


class Work(NamedTuple):
    """What is measured: *count* of them, by so many jobs; *group*: how many the bare side writes in one commit."""

    name: str
    count: int
    jobs: int
    group: int
    floors: dict[str, int]  #: a second, by kind of database: multiples of what peers did in bench/PEERS.md


WORKS: Final = {
    "units": Work("a unit, 10 jobs", 8000, 10, 10, {"postgresql": 6831, "sqlite": 8380}),
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


def fsync_micros() -> float:
    """What one fdatasync of 4 KiB takes on the disk of the temporary files."""
    taken: list[float] = []
    with tempfile.NamedTemporaryFile() as file:
        for _ in range(200):
            os.write(file.fileno(), b"\0" * 4096)
            start = time.perf_counter()
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - start)
    return median(taken) * 1e6


def measured(kind: str, what: str) -> str:
    """The table of one kind of work on one database, and what it says."""
    work, runs = WORKS[what], dict[str, list[Run]]()
    for mode in (*["plain"] * ROUNDS, "counted", "staged"):
        with pair(kind) as databases:
            runs.setdefault(mode, []).append(apart(run, databases.ours, what, mode))
            if work.group and mode == "staged":
                runs["bare"] = [apart(bare, databases.bare, kind, work.group)]
    total = {name: median(getattr(one, name) for one in runs["plain"]) for name in ("wall", "cpu", "server")}
    staged, statements = runs["staged"][0], runs["counted"][0].statements
    rest = total["cpu"] - sum(cpu for _, cpu, _ in staged.stages.values())
    rows = [(name, f"{calls:.2f}", cpu, waits) for name, (calls, cpu, waits) in staged.stages.items()]
    rows.append(("the rest: loop, tasks, futures, the body", "", rest, float("nan")))
    unit = "round trips" if kind == "postgresql" else "statements"
    lines = [f"## {work.name}, {kind}", "", "| stage | calls | CPU µs | waits µs |", "| --- | ---: | ---: | ---: |"]
    lines += [f"| {name} | {calls} | {cpu * 1e6:.1f} | {_number(waits)} |" for name, calls, cpu, waits in rows]
    lines += [f"| **this process** | | **{total['cpu'] * 1e6:.1f}** | |"]
    lines += [f"| the server's processes | {statements:.2f} {unit} | {total['server'] * 1e6:.1f} | |"]
    lines += [f"| **one, by the clock** | | | **{total['wall'] * 1e6:.0f}** |"]
    for one in runs.get("bare", []):
        lines += [
            f"| bare SQL: process, server, clock | | {one.cpu * 1e6:.1f} + {one.server * 1e6:.1f} | {one.wall * 1e6:.0f} |"
        ]
    return "\n".join([*lines, "", reading(work, kind, total, rows, runs.get("bare"))])


def _number(seconds: float) -> str:
    return "" if seconds != seconds else f"{seconds * 1e6:.1f}"  # noqa: PLR0124 - not a number


def reading(work: Work, kind: str, total: dict[str, float], rows: list[Any], yardstick: list[Run] | None) -> str:
    """What the figures say, in words."""
    most = sorted(rows, key=lambda row: -row[2])[:3]
    said = ", ".join(f"{name} ({cpu * 1e6:.0f} µs, {cpu / total['cpu']:.0%})" for name, _, cpu, _ in most)
    at_work = total["cpu"] + total["server"]
    text = f"{1 / total['wall']:,.0f} a second. The most of this process' CPU: {said}."
    if total["wall"] > at_work:
        text += (
            f" {(1 - at_work / total['wall']):.0%} of the time nobody of ours computes: disk, wake-ups, other programs."
        )
    else:
        text += f" Process and server work side by side: {at_work / total['wall']:.2f} processors' worth."
    if yardstick:
        text += f" Bare SQL of the same rows takes {yardstick[0].wall / total['wall']:.0%} of our time."
    if floor := work.floors.get(kind):
        gap = total["wall"] * 1e6 - 1e6 / floor
        text += f" The floor, {floor:,} a second, leaves {1e6 / floor:.0f} µs: "
        text += f"{gap:.0f} µs must go." if gap > 0 else f"reached, with {-gap:.0f} µs to spare."
    return text


def main() -> int:
    """Measure and print."""
    from tests import postgres_server

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(WORKS))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--write", action="store_true", help="write bench/COSTS.md")
    chosen = parser.parse_args()
    parts: list[str] = []
    postgres_server.share()
    try:
        for what in chosen.only.split(","):
            for kind in chosen.kinds.split(","):
                parts.append(measured(kind, what))
                print(f"{parts[-1]}\n", flush=True)
    finally:
        postgres_server.release()
    if chosen.write:
        about = "\n".join(f"* {name}: {value}" for name, value in report.machine().items())
        how = (__doc__ or "").rpartition("\n\n")[2].replace("\n", " ").strip()
        head = f"# Where the cost lies\n\n{about}\n* fdatasync of 4 KiB: {fsync_micros():.0f} µs\n\nMade by `bench/costs.py`. {how}"
        (ROOT / "bench" / "COSTS.md").write_text("\n\n".join([head, *parts]) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
