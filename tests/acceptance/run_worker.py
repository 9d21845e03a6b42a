"""A real worker process: ``run_worker.py URL [POINT NTH [SIGNAL]]``.

At the n-th passing of a fail point it sends itself a signal, by default SIGKILL.  ``JOBLOG_TEST_CLOCK`` names a file
with the seconds by which its wall clock is wrong.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from joblog import JobLog, LeasePolicy
from joblog.domain.errors import StoreUnavailableError
from joblog.eventstore import failpoint
from joblog.eventstore.clock import SystemClock
from joblog.workers.operations import builtin
from joblog.workers.worker import Worker, WorkerSettings
from tests.acceptance.app import jobs

#: Short, so that tests need not wait; long where the end of the lease must not be what frees a job.
LEASE = timedelta(seconds=float(os.environ.get("WORKER_LEASE", "2")))
LEASES = LeasePolicy(lease=LEASE, heartbeat=LEASE / 4)


def arm(point: str, nth: str = "1", number: str = "SIGKILL") -> None:
    passed = 0

    def send() -> None:
        nonlocal passed
        passed += 1
        if passed == int(nth):
            os.kill(os.getpid(), signal.Signals[number])

    failpoint.arm(point, send)


class WrongClock(SystemClock):
    """A wall clock that somebody steps."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=float(self._path.read_text(encoding="ascii")))


def ports() -> dict[str, Any]:
    wrong = os.environ.get("JOBLOG_TEST_CLOCK")
    return {"clock": WrongClock(Path(wrong))} if wrong else {}


def opened(url: str) -> JobLog:
    """The log, as soon as its database is there."""
    while True:
        try:
            return JobLog.open(url, leases=LEASES, **ports())
        except StoreUnavailableError:
            threading.Event().wait(0.1)


def main() -> None:
    url, *rest = sys.argv[1:]
    with opened(url) as log:
        settings = WorkerSettings(
            os.environ.get("WORKER_NAME"),
            slots=int(os.environ.get("WORKER_SLOTS", "4")),
            poll_seconds=0.5,
            grace_seconds=2.0,
        )
        worker = Worker(log, jobs.merged(builtin()), settings)
        signal.signal(signal.SIGTERM, lambda *_: worker.stop())
        signal.signal(signal.SIGINT, lambda *_: worker.stop(now=True))
        if rest:
            arm(*rest)
        worker.run()


if __name__ == "__main__":
    main()
