"""A crowd of processes that race for one log: forked from a process that has nothing open.

``python -m tests.conformance.rival claim|append URL COUNT AMOUNT`` prints what each answered, as JSON.
"""

import json
import multiprocessing
import sys
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from typing import Any

from joblog.eventstore import postgres_store  # noqa: F401 - loaded once, before the crowd is forked
from joblog.workers.commands.log import JobLog
from tests.conformance.builders import an_append, stored


def claim(log: JobLog, limit: int) -> list[Any]:
    """Claim until nothing is left; answer which jobs that were."""
    taken: list[str] = []
    while held := log.claim("rival", limit=limit):
        taken += [str(one.job_id) for one in held]
    return taken


def append(log: JobLog, count: int) -> list[Any]:
    """Append *count* times; answer the positions."""
    return [stored(log.writer.append(an_append(size=1 + n % 3))) for n in range(count)]


def run(what: str, url: str, amount: int, start: Barrier, answers: "Queue[Any]") -> None:
    try:
        with JobLog.open(url) as log:
            start.wait(60)
            answers.put((claim if what == "claim" else append)(log, amount))
    except BaseException as error:  # noqa: BLE001 - shown by the test
        answers.put(repr(error))


def main(what: str, url: str, count: int, amount: int) -> None:
    context = multiprocessing.get_context("fork")
    start, answers = context.Barrier(count), context.Queue()
    crowd = [context.Process(target=run, args=(what, url, amount, start, answers)) for _ in range(count)]
    for one in crowd:
        one.start()
    found = [answers.get(timeout=60) for _ in crowd]
    for one in crowd:
        one.join(60)
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
