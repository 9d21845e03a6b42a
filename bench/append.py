"""Units per second through the log's own append path, against the bare yardstick in the same batches.

``groups``: one thread commits units of N jobs at a time (``JobLog.complete_many``).  ``tasks``: N tasks of an event loop
each complete one unit after another (``Held.complete_units_soon``); the writer thread makes the batches.
"""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from bench.crew import crew, server_cpu
from bench.databases import pair
from bench.limit import EVIDENCE, JOBS, BarePostgres, BareSqlite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.crew import Figure
    from bench.databases import Pair
    from joblog.workers.commands.held import Held
    from joblog.workers.commands.log import JobLog

SIZES = (1, 10, 64)
MODES = ("groups", "tasks")


def held_jobs(log: JobLog, count: int) -> list[Held]:
    """Jobs of a queue of their own, claimed and replayed."""
    from joblog import JobSpec
    from joblog.workers.commands import claiming

    tag = log.ids.next()
    log.submit_many(JobSpec("bench", {"n": n}, key=f"{tag}-{n}", queue=tag) for n in range(count))
    held: list[Held] = []
    while len(held) < count:
        held += log.claim("bench", queues=[tag], limit=count)
    claiming.replay(log, held)
    return held


class OurAppends:
    """The log, with leases that outlive a round of somebody else's."""

    def __init__(self, url: str, delay: float) -> None:
        from joblog import JobLog, LeasePolicy
        from joblog.eventstore import failpoint

        self._log = JobLog.open(url, leases=LeasePolicy(timedelta(hours=1), timedelta(minutes=10)))
        self._held = held_jobs(self._log, JOBS)
        self._n = 0
        if delay and url.startswith("sqlite"):
            failpoint.arm("append.before_commit", lambda: time.sleep(delay))

    @property
    def server(self) -> int:
        """The process of the server that serves the appends of this one."""
        store: Any = self._log.store
        pinned = store._append_pin
        pinned.open()
        return int(pinned.driver.info.backend_pid)

    def groups(self, size: int, seconds: float) -> tuple[int, float]:
        """Units of *size* jobs in one commit, one commit after another."""
        start = time.perf_counter()
        done, now = 0, start
        while now < start + seconds:
            work: list[tuple[Held, Any, dict[str, Any]]] = []
            for _ in range(size):
                self._n += 1
                work.append((self._held[self._n % JOBS], [(f"rows-{self._n}", EVIDENCE)], {"cursor": {"row": self._n}}))
            for answer in self._log.complete_many(work):
                if isinstance(answer, Exception):
                    raise answer
            done += size
            now = time.perf_counter()
        return done, now - start

    def tasks(self, size: int, seconds: float) -> tuple[int, float]:
        """*size* tasks, each completing units of its own job."""
        return asyncio.run(self._tasks(size, seconds))

    async def _tasks(self, size: int, seconds: float) -> tuple[int, float]:
        start = time.perf_counter()

        async def work(held: Held) -> int:
            done = 0
            while time.perf_counter() < start + seconds:
                self._n += 1
                n = self._n
                await held.complete_units_soon([(f"rows-{n}", EVIDENCE)], cursor={"row": n})
                done += 1
            return done

        done = sum(await asyncio.gather(*(work(held) for held in self._held[:size])))
        return done, time.perf_counter() - start


def sides(databases: Pair) -> dict[str, Any]:
    """What a process of the crew can run."""
    ours = OurAppends(databases.ours, databases.delay)
    made = {"groups": ours.groups, "tasks": ours.tasks}
    if databases.kind == "sqlite":
        return {**made, "bare": BareSqlite(databases.bare, databases.delay).run}
    bare = BarePostgres(databases.bare)
    mine = partial(server_cpu, ours.server)
    return {
        **made, "bare": bare.run, "server groups": mine, "server tasks": mine, "server bare": partial(server_cpu, bare.server)
    }  # fmt: skip


def figures(
    kind: str, *, processes: int, delay: float, seconds: float, rounds: int, folder: str | None = None,
    modes: tuple[str, ...] = MODES, sizes: tuple[int, ...] = SIZES,
) -> Iterator[Figure]:  # fmt: skip
    """Every comparison on one kind of database with so many processes and so much delay in each commit."""
    with pair(kind, delay, folder) as databases, crew(sides, databases, processes=processes) as team:
        slow = f", +{delay * 1000:g} ms a commit" if delay else ""
        for mode in modes:
            for size in sizes:
                name = f"{kind}, {mode} of {size}, {processes} process{'es' if processes > 1 else ''}{slow}"
                yield team.compare(name, mode, "bare", (size, seconds), rounds)
