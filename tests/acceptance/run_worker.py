"""A real worker process: ``run_worker.py URL [POINT NTH]`` kills itself with SIGKILL at the n-th passing of a fail point."""

from __future__ import annotations

import os
import signal
import sys
from datetime import timedelta

from joblog import JobLog, LeasePolicy
from joblog.eventstore import failpoint
from joblog.workers.operations import builtin
from joblog.workers.worker import Worker, WorkerSettings
from tests.acceptance.app import jobs

#: Short, so that tests need not wait; long where the end of the lease must not be what frees a job.
LEASE = timedelta(seconds=float(os.environ.get("WORKER_LEASE", "2")))
LEASES = LeasePolicy(lease=LEASE, heartbeat=LEASE / 4)


def arm(point: str, nth: int) -> None:
    passed = 0

    def die() -> None:
        nonlocal passed
        passed += 1
        if passed == nth:
            os.kill(os.getpid(), signal.SIGKILL)

    failpoint.arm(point, die)


def main() -> None:
    url, *rest = sys.argv[1:]
    with JobLog.open(url, leases=LEASES) as log:
        settings = WorkerSettings(os.environ.get("WORKER_NAME"), slots=4, poll_seconds=0.5, grace_seconds=2.0)
        worker = Worker(log, jobs.merged(builtin()), settings)
        signal.signal(signal.SIGTERM, lambda *_: worker.stop())
        signal.signal(signal.SIGINT, lambda *_: worker.stop(now=True))
        if rest:
            arm(rest[0], int(rest[1]))
        worker.run()


if __name__ == "__main__":
    main()
