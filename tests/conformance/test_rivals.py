"""Many claim and append at once, as threads and as processes; nothing is given twice, nothing is lost (LEA-01, S4)."""

import multiprocessing
from collections.abc import Callable
from threading import Barrier
from typing import Any

import pytest

from joblog.workers.commands.log import JobLog
from tests.conformance import rival
from tests.conformance.backends import Backend
from tests.conformance.builders import Side, assert_whole, claim, ids, submit

pytestmark = pytest.mark.slow


def race(count: int, target: Callable[..., None], *args: Any) -> list[Any]:
    """Run *target* in *count* processes that start together; give what each answered."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.conformance.rival", "psycopg", "joblog.eventstore.postgres_store"])
    start, answers = context.Barrier(count), context.Queue()
    processes = [context.Process(target=target, args=(*args, start, answers)) for _ in range(count)]
    for process in processes:
        process.start()
    found = [answers.get(timeout=120) for _ in processes]
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    return found


def test_of_fifty_threads_one_gets_the_job(backend: Backend) -> None:
    logs = [backend.open() for _ in range(5)]
    job_id = submit(logs[0])
    start = Barrier(50)

    def race_for_it(log: JobLog) -> list[Any]:
        start.wait()
        return ids(claim(log))

    sides = [Side(lambda n=n: race_for_it(logs[n % 5])) for n in range(50)]  # type: ignore[misc]

    assert sorted(side.result() for side in sides) == [[]] * 49 + [[job_id]]
    assert logs[0].store.head() == 2


def test_threads_share_the_jobs(backend: Backend) -> None:
    logs = [backend.open() for _ in range(4)]
    jobs = {submit(logs[0], tenant="abc"[n % 3], priority=n % 2) for n in range(60)}
    start = Barrier(8)

    def take(log: JobLog) -> list[Any]:
        start.wait()
        taken: list[Any] = []
        while held := claim(log, limit=3):
            taken += ids(held)
        return taken

    sides = [Side(lambda n=n: take(logs[n % 4])) for n in range(8)]  # type: ignore[misc]
    taken = [job for side in sides for job in side.result()] + ids(claim(logs[0]))

    assert len(taken) == len(set(taken)) == 60
    assert set(taken) == jobs
    assert_whole(logs[0].store)


def test_of_fifty_processes_one_gets_the_job(database: Backend) -> None:
    log = database.open()
    job_id = submit(log)

    answers = race(50, rival.claim_all, database.url, 1)

    assert sorted(answers) == [[]] * 49 + [[str(job_id)]]
    assert log.store.head() == 2


def test_processes_share_the_jobs(database: Backend) -> None:
    log = database.open()
    jobs = {str(submit(log, tenant="abc"[n % 3], priority=n % 2)) for n in range(200)}

    answers = race(6, rival.claim_all, database.url, 4)

    assert not [answer for answer in answers if isinstance(answer, str)]
    taken = [job for answer in answers for job in answer] + [str(job) for job in ids(claim(log))]
    assert len(taken) == len(set(taken))
    assert set(taken) == jobs
    assert_whole(log.store)


def test_processes_number_their_events_as_one(database: Backend) -> None:
    log = database.open()

    answers = race(6, rival.append_all, database.url, 40)

    assert not [answer for answer in answers if isinstance(answer, str)]
    assert len({position for answer in answers for position in answer}) == 240
    assert_whole(log.store)
