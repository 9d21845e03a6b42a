"""The full sizes: a job of 1,000,000 units, 1,000,000 events followed on a standby, plans beside 1,000,000 rows.

    .venv/bin/python bench/scale.py stream     # 1,000,000 units in groups of 500, and 100,000 one by one
    .venv/bin/python bench/scale.py follow     # 8 writers (3 on SQLite) until there are 1,000,000 events, with tailing readers
    .venv/bin/python bench/scale.py worker     # a job of 1,000,000 units in a worker that is killed twice
    .venv/bin/python bench/scale.py plans      # what a claim runs beside every backlog
    .venv/bin/python bench/scale.py all --ledger

With ``--ledger`` each part adds a line to docs/evidence.jsonl.  The rigs are those of tests/scale, which run smaller.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
for folder in (ROOT / "src", ROOT):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LEDGER = ROOT / "docs" / "evidence.jsonl"
KINDS = ("sqlite", "postgresql")
LARGEST_GROWTH = 1.2  #: cost of a unit at the end against the start
LARGEST_LEAK = 8.0  #: bytes a unit: 1,000,000 units would leave 8 MB
WATCHED = 0.25  #: share of a worker's units over which its memory is watched
LONGEST_LOAD = 20.0  #: milliseconds
LONGEST_START = 100.0  #: milliseconds

Part = tuple[dict[str, Any], list[str]]  #: figures, and what is not as it must be


@contextmanager
def database(kind: str) -> Iterator[str]:
    """An empty database on the disk."""
    from tests import postgres_server as servers

    if kind == "postgresql":
        with servers.fresh_database() as url:
            yield url
        return
    with tempfile.TemporaryDirectory(prefix="joblog-scale-") as folder:
        yield f"sqlite:///{folder}/log.db"


def stream(kind: str, units: int, group: int) -> Part:
    """One job with very many units."""
    from tests.scale import streaming

    with database(kind) as url:
        done = streaming.stream(url, units=units, group=group, tell=say)
    figures = {
        "units": units,
        "group": group,
        "events": done.events,
        "units_per_second": round(units / done.seconds),
        "cost_at_end_against_start": round(done.growth, 3),
        "bytes_left_by_a_unit": round(done.leak, 2),
        "megabytes": round(done.resident[-1] / 1e6, 1),
        "load_ms": round(done.load_ms, 3),
    }
    wrong = [f"a unit costs {done.growth:.2f} times as much at the end"] if done.growth > LARGEST_GROWTH else []
    wrong += [f"each unit leaves {done.leak:.1f} bytes"] if done.leak > LARGEST_LEAK else []
    wrong += [f"the job loads in {done.load_ms:.1f} ms"] if done.load_ms > LONGEST_LOAD else []
    return figures, wrong


def follow(kind: str, events: int, seed: int) -> Part:
    """Readers beside writers with random delays; on PostgreSQL one of them on a streaming standby."""
    from tests.postgres_server import private_server
    from tests.scale import following
    from tests.scale.test_following import standby_of

    if kind == "sqlite":
        with database(kind) as url:
            found = following.campaign(url, {"beside": url}, writers=3, events=events, seed=seed)
    else:
        with private_server() as server:
            readers = {"on the primary": server.url(), "on a standby": standby_of(server)}
            found = following.campaign(server.url(), readers, writers=8, events=events, seed=seed)
    slowest = max(seen.seconds for name, seen in found.items() if name != "truth")
    figures = {
        "events": found["truth"].events,
        "readers": len(found) - 1,
        "writers": 3 if kind == "sqlite" else 8,
        "events_per_second": round(found["truth"].events / slowest),
        "seed": seed,
    }
    return figures, following.faults(found, events)


def worker(kind: str, units: int) -> Part:
    """One job with very many units in a worker process, which is killed twice on the way.

    Each process is looked at when its caches are full: those of SQLite take 8 MB a connection, once.
    """
    import psutil

    from bench.workloads import until, workers
    from joblog import JobLog
    from bench.bodies import jobs

    resident: list[int] = []
    with database(kind) as url, tempfile.TemporaryDirectory() as folder, JobLog.open(url) as log:
        file = Path(folder) / "first"
        start = time.monotonic()
        job_id = log.submit(jobs.spec("bench.million", {"count": units, "file": str(file)})).job_id
        for full, share in ((0.2, 0.45), (0.65, 0.9), (1.0, 1.0)):
            with workers(url, 1) as [process]:
                seen = psutil.Process(process.pid)
                until(lambda: log.row(job_id)["done"] >= units * full, 0.1)  # noqa: B023 - called at once
                resident.append(seen.memory_info().rss)
                until(lambda: log.row(job_id)["done"] >= units * share, 0.1)  # noqa: B023 - as above
                resident.append(seen.memory_info().rss)
                if share == 1.0:
                    until(lambda: log.row(job_id)["status"] == "completed")
        seconds = time.monotonic() - start
        job = log.job(job_id)
        begun = [float(line.split()[1]) for line in file.read_text(encoding="ascii").splitlines()]
        claims = [event.timestamp.timestamp() for event in _claims(log, job_id)]
    waits = [1000 * (first - claim) for first, claim in zip(begun, claims, strict=True)]
    growth = max(after - before for before, after in zip(resident[::2], resident[1::2], strict=True))
    leak = growth / (units * WATCHED)
    figures = {"units": job.done, "units_per_second": round(units / seconds), "kills": len(claims) - 1}
    figures |= {
        "claim_to_first_unit_ms": [round(wait, 1) for wait in waits],
        "megabytes": round(max(resident) / 1e6, 1),
    }
    figures |= {"megabytes_grown": round(growth / 1e6, 2), "bytes_left_by_a_unit": round(leak, 2)}
    wrong = [] if job.result == job.done == units else [f"{job.done} units, result {job.result}"]
    wrong += [f"{wait:.0f} ms from the claim to the first unit" for wait in waits[1:] if wait > LONGEST_START]
    wrong += [f"each unit leaves {leak:.1f} bytes"] if leak > LARGEST_LEAK else []
    return figures, wrong


def _claims(log: Any, job_id: Any) -> Iterator[Any]:
    """The claims of a job with many events, which are read in pieces."""
    after = 0
    while rows := log.store.read(job_id, after=after, limit=5000):
        yield from log.mapper.decode_all(job_id, [row for row in rows if row.topic.endswith(".claimed")])
        after = rows[-1].version


def plans(kind: str, largest: int) -> Part:
    """Every command of the queue beside every backlog."""
    from tests.scale import plan
    from tests.scale.backlog import BACKLOGS

    found: plan.Found = {}
    for backlog, (rows, _) in BACKLOGS.items():
        with database(kind) as url:
            found |= plan.examine(url, backlog, min(rows, largest))
        say(f"{kind}, {backlog}: {work_of(found, backlog)}")
    statements = {text for seen in found.values() for text in seen.plans}
    return {"backlogs": len(BACKLOGS), "statements": len(statements), "largest": largest}, plan.faults(found)


def work_of(found: Any, backlog: str) -> str:
    """What a claim beside this backlog touches."""
    from tests.scale import plan

    work = found[backlog, "claim", plan.STAGES[1]].work
    return ", ".join(f"{what} {count}" for what, count in work.items() if count and ("jobs" in what or "steps" in what))


def say(text: str) -> None:
    """One line of progress."""
    print(f"  {text}", flush=True)


def keep(name: str, figures: dict[str, Any], wrong: list[str], seconds: float, seed: int) -> None:
    """The line of the ledger."""
    from tests.faults.campaign import commit

    from bench import report

    about = report.machine()
    line = {
        "date": about["date"],
        "commit": commit(),
        "campaign": name,
        "seeds": [seed, seed],
        "runs": 1,
        "faults": {},
        "violations": len(wrong),
        "failed": int(bool(wrong)),
        "counts": figures,
        "seconds": round(seconds, 1),
        "machine": f"{about['machine']}, Python {about['python']}, SQLite {about['sqlite']}, load {about['load']}",
    }
    LEDGER.parent.mkdir(exist_ok=True)
    with LEDGER.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def parts(chosen: argparse.Namespace) -> Iterator[tuple[str, Callable[[], Part]]]:
    """The runs that were asked for."""
    for kind in chosen.kinds.split(","):
        if chosen.part in ("stream", "all"):
            sizes = ((chosen.units, 500), (chosen.units // 10, 1))
            for units, group in sizes:
                yield (
                    f"scale-stream-{kind}-{group}",
                    partial(stream, kind, units, group),
                )
        if chosen.part in ("worker", "all"):
            yield f"scale-worker-{kind}", partial(worker, kind, chosen.units)
        if chosen.part in ("follow", "all"):
            yield f"scale-follow-{kind}", partial(follow, kind, chosen.events, chosen.seed)
        if chosen.part in ("plans", "all"):
            yield f"scale-plans-{kind}", partial(plans, kind, chosen.rows)


def main() -> int:
    """Run, print, and say by the exit code whether all of it is as it must be."""
    from tests import postgres_server

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("stream", "worker", "follow", "plans", "all"))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--units", type=int, default=1_000_000)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the largest backlog")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ledger", action="store_true")
    chosen = parser.parse_args()
    failed = False
    postgres_server.share()
    try:
        for name, run in parts(chosen):
            print(name, flush=True)
            start = time.monotonic()
            figures, wrong = run()
            seconds = time.monotonic() - start
            print(f"{name}: {json.dumps(figures)}, {seconds:.0f} s, {'; '.join(wrong) or 'as it must be'}", flush=True)
            failed = failed or bool(wrong)
            if chosen.ledger:
                keep(name, figures, wrong, seconds, chosen.seed)
    finally:
        postgres_server.release()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
