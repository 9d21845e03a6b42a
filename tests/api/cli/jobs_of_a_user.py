"""What a user of joblog has: a module with jobs, for ``--app``."""

import threading
from dataclasses import dataclass
from pathlib import Path

from joblog.domain.errors import InvalidFieldError
from joblog.workers.errors import Fatal
from joblog.workers.registry import Jobs
from joblog.workers.run import SyncRun

jobs = Jobs()


@dataclass
class Count:
    """How far to count, and where to leave a mark for each number."""

    upto: int
    folder: str = ""
    wait: float = 0.0
    fail: str = ""


@jobs.job("count")
def count(run: SyncRun, args: Count) -> int:
    for number in range(args.upto):
        run.step(str(number), leave_mark, args.folder, number)
        threading.Event().wait(args.wait)
    if args.fail == "fatal":
        raise Fatal("no-good", "\x1b[31mas was to be expected")
    if args.fail == "bad":
        raise InvalidFieldError("x", "bad", "do better")
    return args.upto


def leave_mark(folder: str, number: int) -> int:
    if folder:
        Path(folder, str(number)).touch()
    return number
