"""joblog in a harness of side-by-side benchmarks whose adapters have this shape (see its ``adapters/base.py``).

Copied or linked into the harness' ``adapters`` folder as ``joblog_pg.py`` and ``joblog_sqlite.py``; the file's name picks
the database.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from joblog import JobLog
from joblog.workers.registry import Jobs
from joblog.workers.run import Run, SyncRun
from joblog.workers.worker import Worker, WorkerSettings

if TYPE_CHECKING:

    class BaseAdapter:
        """The harness' own base class."""

        dsn: str
        opts: dict[str, Any]
        probe: Any

        def long_unit(self, number: int, new: int) -> int: ...
        def hang_sync(self) -> None: ...
else:
    from .base import BaseAdapter

_SQLITE = Path(__file__).stem.endswith("sqlite")


class Adapter(BaseAdapter):
    """All workloads: single and bulk submits, drains, durable units, latency, crash and resume, idle cost."""

    STORE = "sqlite" if _SQLITE else "postgres"
    IMPORT = "from joblog import JobLog; JobLog"
    BULK = True
    STEPS = True
    LATENCY = True
    REMAINING = "select count(*) from jobs_0 where status in ('queued','running','waiting')"
    SEED = [("jobs_0", "status='completed'", {"id": "randomblob(16)" if _SQLITE else "lpad(to_hex(g), 32, '0')::uuid"})]
    OPTS = {"slots": 200}
    UNIT_OPTS = {"1": {"slots": 10}, "2": {"slots": 5}}
    DEFAULTS: dict[str, Any] = {}
    NOTES = "One worker process; SQLite with synchronous=FULL; every unit is one commit, grouped over jobs."

    def _url(self) -> str:
        return f"sqlite:///{self.dsn}" if _SQLITE else self.dsn

    def _open(self) -> JobLog:
        log = JobLog.open(self._url())
        self.jobs = registry(self)
        return log

    def setup(self) -> None:
        """Make the schema."""
        self._open().close()

    def open_client(self) -> None:
        """Connect."""
        self.log = self._open()

    def close_client(self) -> None:
        """Disconnect."""
        self.log.close()

    def enqueue_single(self, n: int) -> None:
        """One submit a call, durable when it returns."""
        for _ in range(n):
            self.log.submit(self.jobs.spec("noop", {}))

    def enqueue_bulk(self, n: int) -> None:
        """Many submits a call."""
        for start in range(0, n, 1000):
            self.log.submit_many([self.jobs.spec("noop", {}) for _ in range(min(1000, n - start))])

    def enqueue_job(self, kind: str, a: int, b: int) -> None:
        """One job of the harness' kinds."""
        self.log.submit(self.jobs.spec(kind, {"a": a, "b": b}))

    def prepare_worker(self) -> None:
        """Before the gate."""
        self.worker = Worker(self._open(), self.jobs, WorkerSettings(**self.opts))

    def run_worker(self) -> None:
        """Work until killed."""
        self.worker.run()


def registry(adapter: Adapter) -> Jobs:
    """The bodies that call the probe."""
    jobs, probe = Jobs(), adapter.probe

    @jobs.job("noop")
    async def noop(run: Run, args: dict[str, int]) -> None:
        probe.hit()

    @jobs.job("units")
    async def units(run: Run, args: dict[str, int]) -> None:
        def one() -> int:
            probe.unit()
            return 1

        for number in range(args["b"]):
            await run.step(f"u{number}", one)
        probe.end()

    @jobs.job("long")
    def long(run: SyncRun, args: dict[str, int]) -> None:
        probe.body()
        for number in range(args["b"] + 1):
            run.step(f"u{number}", adapter.long_unit, number, args["b"])

    @jobs.job("mark")
    async def mark(run: Run, args: dict[str, int]) -> None:
        probe.mark(args["a"])

    @jobs.job("hang")
    def hang(run: SyncRun, args: dict[str, int]) -> None:
        adapter.hang_sync()

    return jobs
