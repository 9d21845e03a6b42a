"""The append path against bare SQL that writes the same rows with the same batching: ratios, measured in one run."""

from __future__ import annotations

import sys
import time

sys.path.insert(0, "src")

from joblog.domain.spec import JobSpec
from joblog.workers.commands import claiming
from joblog.workers.commands.held import Held
from joblog.workers.commands.log import JobLog

EVIDENCE = {"count": 500, "digest": "a" * 32}


def held_jobs(log: JobLog, count: int) -> list[Held]:
    tag = log.ids.next()
    log.submit_many(JobSpec("bench", {"n": n}, key=f"{tag}-{n}", queue=tag) for n in range(count))
    held: list[Held] = []
    while len(held) < count:
        held += log.claim("bench", queues=[tag], limit=64)
    claiming.replay(log, held)
    return held


def units(log: JobLog, size: int, seconds: float) -> float:
    held = held_jobs(log, max(size, 16))
    done, n, end = 0, 0, time.perf_counter() + seconds
    start = time.perf_counter()
    while time.perf_counter() < end:
        group = [held[(n + i) % len(held)] for i in range(size)]
        n += size
        log.complete_many([(one, [(f"rows-{n}-{i}", EVIDENCE)], {"cursor": {"row": n}}) for i, one in enumerate(group)])
        done += size
    return done / (time.perf_counter() - start)


if __name__ == "__main__":
    with JobLog.open(sys.argv[1]) as log:
        for size in (1, 10, 64):
            print(size, f"{units(log, size, 4):,.0f} units/s", flush=True)
