"""Claims per second in batches of 64, and submits per second, one by one and in bulk.

There is no bare yardstick here: what is asked for is a number (5,000 claims a second on both databases).
"""

from __future__ import annotations

import time
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from bench.crew import crew, server_cpu
from bench.databases import pair
from bench.limit import timed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.crew import Figure
    from bench.databases import Pair
    from joblog import JobSpec

BATCH = 64
BULK = 500
REFILL = 4096  #: jobs that are submitted, untimed, when the queue has run dry
REQUIRED = 5_000


class Queue:
    """One process of several that submit to one queue and claim from it."""

    def __init__(self, url: str) -> None:
        from joblog import JobLog, LeasePolicy

        self._log = JobLog.open(url, leases=LeasePolicy(timedelta(hours=1), timedelta(minutes=10)))
        self._tag = self._log.ids.next()
        self._made = 0

    def _specs(self, count: int, queue: str) -> list[JobSpec]:
        from joblog import JobSpec

        first, self._made = self._made, self._made + count
        return [JobSpec("bench", {"n": n}, key=f"{self._tag}-{n}", queue=queue) for n in range(first, first + count)]

    def server(self, lane: str) -> int:
        """The process of the server that serves this one's claims or appends."""
        store: Any = self._log.store
        pinned = store._append_pin if lane == "append" else store._own(lane)  # noqa: SLF001
        pinned.open()
        return int(pinned.driver.info.backend_pid)

    def claims(self, seconds: float) -> tuple[int, float]:
        """Claim 64 at a time; only the claims are timed."""
        done, spent = 0, 0.0
        while spent < seconds:
            start = time.perf_counter()
            claimed = len(self._log.claim(self._tag, queues=["bench"], limit=BATCH))
            spent += time.perf_counter() - start
            done += claimed
            if claimed < BATCH:
                self._log.submit_many(self._specs(REFILL, "bench"))
        return done, spent

    def submits(self, seconds: float) -> tuple[int, float]:
        """Submit one job after another."""
        return timed(lambda: self._log.submit(self._specs(1, "other")[0]), 1, seconds)

    def bulk_submits(self, seconds: float) -> tuple[int, float]:
        """Submit 500 jobs at a time."""
        return timed(lambda: self._log.submit_many(self._specs(BULK, "other")), BULK, seconds)

    def _timed(write: Callable[[], Any], size: int, seconds: float) -> tuple[int, float]:
        start = time.perf_counter()
        done, now = 0, start
        while now < start + seconds:
            write()
            done += size
            now = time.perf_counter()
        return done, now - start


def sides(databases: Pair) -> dict[str, Any]:
    """What a process of the crew can run."""
    queue = Queue(databases.ours)
    made: dict[str, Any] = {"claims": queue.claims, "submits": queue.submits, "bulk": queue.bulk_submits}
    if databases.kind == "postgresql":
        used = {"claims": queue.server("claim"), "submits": queue.server("append"), "bulk": queue.server("append")}
        made |= {f"server {side}": partial(server_cpu, pid) for side, pid in used.items()}
    return made


NAMES = {"claims": f"claims, {BATCH} at a time", "submits": "submits, one by one", "bulk": f"submits, {BULK} at a time"}


def figures(
    kind: str, *, processes: int, seconds: float, rounds: int, folder: str | None = None, delay: float = 0.0
) -> Iterator[Figure]:
    """Claims and submits on one kind of database by so many processes."""
    with pair(kind, delay, folder) as databases, crew(sides, databases, processes=processes) as team:
        for side, what in NAMES.items():
            name = f"{kind}, {what}, {processes} process{'es' if processes > 1 else ''}"
            yield team.measure(name, side, (seconds,), rounds)
