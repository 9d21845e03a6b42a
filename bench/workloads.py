"""What users wait for: submits, drains, durable units, pickup, takeover, resume, an idle worker, a long history (W1-W7; W0 is the start).

    .venv/bin/python bench/workloads.py                      # both databases, about 5 minutes
    .venv/bin/python bench/workloads.py --only W3,W4 --kinds sqlite
    .venv/bin/python bench/workloads.py --write              # and put the table into bench/WORKLOADS.md

Workers are processes of their own with the product's default settings, if not said otherwise.  W2 and W3 run from the
first claim to the last end, as the job table has them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
for folder in (ROOT / "src", ROOT):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

import psutil

from bench import report
from bench.bodies import jobs, now
from bench.scale import database
from joblog import JobLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

KINDS = ("sqlite", "postgresql")
_PATIENCE = 300.0
Row = tuple[str, str, str]  #: workload, what, figure


@contextmanager
def workers(url: str, count: int, slots: int = 10) -> Iterator[list[subprocess.Popen[str]]]:
    """Worker processes that start together."""
    command = [sys.executable, str(ROOT / "bench" / "bodies.py"), url, str(slots)]
    pipe = subprocess.PIPE
    crew = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(count)]
    try:
        for one in crew:
            assert one.stdout is not None
            assert one.stdout.readline() == "ready\n"
        for one in crew:
            assert one.stdin is not None
            one.stdin.write("go\n")
            one.stdin.flush()
        yield crew
    finally:
        for one in crew:
            one.kill()
            one.communicate()


def until(condition: Callable[[], Any], tick: float = 0.01) -> None:
    """Wait for *condition*, with a bound."""
    bell, deadline = Event(), time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("a workload hung")
        bell.wait(tick)


def unfinished(log: JobLog) -> int:
    """Jobs that have not ended: by an index, so that asking costs little."""
    store: Any = log.store
    found = store.sql_rows(f"SELECT count(*) FROM jobs_{store.state().generation % 2} WHERE finished_at IS NULL")
    return int(found[0][0])


def span(log: JobLog) -> float:
    """Seconds from the first claim to the last end."""
    store: Any = log.store
    sql = f"SELECT max(finished_at) - min(started_at) FROM jobs_{store.state().generation % 2}"
    return float(store.sql_rows(sql)[0][0]) / 1e6


def percentile(values: list[float], share: float) -> float:
    """The value below which *share* of them lie."""
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def _cost(code: str, *arguments: str) -> float:
    """Median seconds of CPU of an interpreter that runs *code*, its own start included."""
    costs: list[float] = []
    for _ in range(5):
        before = os.times()
        subprocess.run(
            [sys.executable, "-c", code, *arguments], check=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}
        )
        after = os.times()
        costs.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return percentile(costs, 0.5)


# -- workloads ---------------------------------------------------------------------------------------------------------


def w0(kind: str) -> Iterator[Row]:
    """What it costs to begin."""
    bare = _cost("pass")
    yield "W0", "import joblog, CPU beyond the interpreter's own start", f"{_cost('import joblog') - bare:.3f} s"
    code = "import sys; from joblog import JobLog, JobSpec; JobLog.open(sys.argv[1]).submit(JobSpec('noop', {}))"
    with database(kind) as url:
        JobLog.open(url).close()
        yield "W0", "first submit, CPU since the interpreter's start", f"{_cost(code, url):.3f} s"


def w1(kind: str) -> Iterator[Row]:
    """Submits of one client."""
    with database(kind) as url, JobLog.open(url) as log:
        for name, count, size in (("one by one", 2000, 1), ("1,000 a call", 20_000, 1000)):
            specs = [jobs.spec("bench.noop", {"n": n, "size": size}) for n in range(count)]
            start = time.perf_counter()
            for first in range(0, count, size):
                if size == 1:
                    log.submit(specs[first])
                else:
                    log.submit_many(specs[first : first + size])
            yield "W1", f"submits, {name}", f"{count / (time.perf_counter() - start):,.0f}/s"


def drained(url: str, log: JobLog, count: int, processes: int, slots: int) -> float:
    """Jobs a second."""
    with workers(url, processes, slots):
        until(lambda: not unfinished(log), 0.05)
    return count / span(log)


def w2(kind: str) -> Iterator[Row]:
    """No-op jobs that are waiting already."""
    for processes in (1, 2):
        with database(kind) as url, JobLog.open(url) as log:
            log.submit_many([jobs.spec("bench.noop", {"n": n}) for n in range(5000)])
            speed = drained(url, log, 5000, processes, 200)
            yield "W2", f"5,000 no-op jobs, {processes} process{'es' * (processes > 1)}", f"{speed:,.0f} jobs/s"


def w3(kind: str) -> Iterator[Row]:
    """Durable units."""
    cases = (
        ("10 jobs", 10, 1, 10),
        ("1 job", 1, 1, 1),
        ("1 job in a thread", 1, 1, 1),
        ("3 processes x 1 job", 3, 3, 1),
    )
    for name, count, processes, slots in cases:
        each = 2000 if count > 1 else 3000
        what = "bench.units-sync" if "thread" in name else "bench.units"
        with database(kind) as url, JobLog.open(url) as log:
            log.submit_many([jobs.spec(what, {"count": each, "n": n}) for n in range(count)])
            speed = drained(url, log, count * each, processes, slots)
            yield "W3", f"units of {name}", f"{speed:,.0f} units/s"


def w4(kind: str) -> Iterator[Row]:
    """From the call of submit, in another process, to the first line of the body."""
    waits: list[float] = []
    with database(kind) as url, JobLog.open(url) as log, workers(url, 1):
        bell = Event()
        for number in range(220):
            bell.wait(0.05 + number % 7 / 100)
            start = now()
            job_id = log.submit(jobs.spec("bench.mark", {"n": number})).job_id
            until(lambda job_id=job_id: log.row(job_id)["finished_at"], 0.005)
            waits.append((log.job(job_id).result - start) / 1e6)
    waits = waits[20:]
    figures = f"p50 {percentile(waits, 0.5):.1f} ms, p99 {percentile(waits, 0.99):.1f} ms"
    yield "W4", "pickup across processes, 200 jobs", figures


def told(file: Path) -> dict[str, int]:
    """When the body of W5 passed which line, last time; `again` counts."""
    found: dict[str, int] = {"again": 0}
    for line in file.read_text(encoding="ascii").splitlines() if file.exists() else []:
        what, at = line.split()
        found[what] = found["again"] + 1 if what == "again" else int(at)
    return found


def w5(kind: str) -> Iterator[Row]:
    """A worker dies in a job with 9,999 units done (a job may have 10,000 steps): resumed by the next one, and taken over by a live one."""
    with tempfile.TemporaryDirectory() as folder, database(kind) as url, JobLog.open(url) as log:
        file = Path(folder) / "seen"
        log.submit(jobs.spec("bench.long", {"count": 9_999, "file": str(file)}))
        with workers(url, 1):
            until(lambda: "new" in told(file), 0.05)
        replays: list[float] = []
        for _ in range(2):  # the third death parks it
            file.unlink()
            with workers(url, 1):
                until(lambda: "new" in told(file))
            seen = told(file)
            replays.append((seen["new"] - seen["body"]) / 1e9)
        figures = f"{percentile(replays, 0.5) * 1000:.1f} ms, {seen['again']} executed again"
        yield "W5", "9,999 done units: from the body's first line to the first new unit", figures
    takeovers: list[float] = []
    for number in range(7):
        with tempfile.TemporaryDirectory() as folder, database(kind) as url, JobLog.open(url) as log:
            file = Path(folder) / "seen"
            job_id = log.submit(jobs.spec("bench.long", {"count": 3, "file": str(file), "n": number})).job_id
            with workers(url, 2) as crew:
                until(lambda file=file: "new" in told(file))
                holder = log.row(job_id)["worker"]
                killed = now()
                next(one for one in crew if f"-{one.pid}-" in holder).kill()
                until(lambda file=file, killed=killed: told(file)["new"] > killed)
                takeovers.append((told(file)["new"] - killed) / 1e9)
    figures = f"p50 {percentile(takeovers, 0.5):.2f} s, worst {max(takeovers):.2f} s"
    yield "W5", "SIGKILL of the holder to the next unit in another worker of this host", figures


def w6(kind: str, seconds: float = 60.0) -> Iterator[Row]:
    """An idle worker."""
    with database(kind) as url, JobLog.open(url) as log, workers(url, 1) as [worker]:
        process = psutil.Process(worker.pid)
        store: Any = log.store
        count = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"

        def look() -> tuple[float, int]:
            spent = process.cpu_times()
            return spent.user + spent.system, store.sql_rows(count)[0][0] if kind == "postgresql" else 0

        Event().wait(10)
        before = look()
        Event().wait(seconds)
        after = look()
        figures = f"{(after[0] - before[0]) * 60 / seconds:.3f} CPU s"
        if kind == "postgresql":
            figures += f", {(after[1] - before[1]) * 60 / seconds:.0f} transactions"
        yield "W6", "an idle worker, a minute", figures
        yield "W6", "an idle worker's memory", f"{process.memory_info().rss / 1e6:.0f} MB resident"


def w7(kind: str) -> Iterator[Row]:
    """W2 beside a long history."""
    from tests.scale.backlog import BACKLOGS, prepare

    speeds: list[float] = []
    for rows in (0, 500_000):
        with database(kind) as url, JobLog.open(url) as log:
            if rows:
                prepare(log, rows, BACKLOGS["finished"][1])
            log.submit_many([jobs.spec("bench.noop", {"n": n}) for n in range(5000)])
            store: Any = log.store
            table = f"jobs_{store.state().generation % 2}"
            ours = f"FROM {table} WHERE kind = 'bench.noop'"
            with workers(url, 1, 200):
                until(
                    lambda ours=ours: not store.sql_rows(f"SELECT count(*) {ours} AND finished_at IS NULL")[0][0], 0.2
                )
            taken = float(store.sql_rows(f"SELECT max(finished_at) - min(started_at) {ours}")[0][0]) / 1e6
            speeds.append(5000 / taken)
    yield "W7", "drain beside 500,000 finished jobs, against none", f"{speeds[1]:,.0f} / {speeds[0]:,.0f} jobs/s"


WORKLOADS = {"W0": w0, "W1": w1, "W2": w2, "W3": w3, "W4": w4, "W5": w5, "W6": w6, "W7": w7}


def main() -> int:
    """Measure and print."""
    from tests import postgres_server

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(WORKLOADS))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--write", action="store_true", help="write bench/WORKLOADS.md")
    chosen = parser.parse_args()
    rows: list[tuple[str, ...]] = []
    postgres_server.share()
    try:
        for name in chosen.only.split(","):
            for kind in chosen.kinds.split(","):
                for workload, what, figure in WORKLOADS[name](kind):
                    rows.append((workload, what, kind, figure))
                    print(f"{workload}  {what:75} {kind:11} {figure}", flush=True)
    finally:
        postgres_server.release()
    if chosen.write:
        about = "\n".join(f"* {name}: {value}" for name, value in report.machine().items())
        table = "\n".join(
            f"| {' | '.join(row)} |" for row in [("", "what", "database", "measured"), ("---",) * 4, *rows]
        )
        (ROOT / "bench" / "WORKLOADS.md").write_text(f"# Workloads\n\n{about}\n\n{table}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
