"""What a process does that races with others for the jobs of one log."""

from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from typing import Any

from joblog.workers.commands.log import JobLog


def claim_all(url: str, limit: int, start: Barrier, answers: "Queue[Any]") -> None:
    """Claim until nothing is left; answer which jobs that were, or the error."""
    try:
        with JobLog.open(url) as log:
            start.wait(60)
            taken: list[str] = []
            while held := log.claim("rival", limit=limit):
                taken += [str(one.job_id) for one in held]
        answers.put(taken)
    except BaseException as error:  # noqa: BLE001 - shown by the test
        answers.put(repr(error))


def append_all(url: str, count: int, start: Barrier, answers: "Queue[Any]") -> None:
    """Append one event *count* times; answer the positions."""
    from tests.conformance.builders import an_append, stored

    try:
        with JobLog.open(url) as log:
            start.wait(60)
            answers.put([stored(log.writer.append(an_append(size=1 + n % 3))) for n in range(count)])
    except BaseException as error:  # noqa: BLE001 - shown by the test
        answers.put(repr(error))
