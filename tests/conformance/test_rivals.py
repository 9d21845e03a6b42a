"""Many claim and append at once, as threads and as processes; nothing is given twice, nothing is lost (LEA-01, S4)."""

import json
import os
import subprocess
import sys
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from joblog.eventstore.clock import SystemClock
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import Side, assert_whole, claim, ids, submit

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


def race(what: str, database: Backend, count: int, amount: int) -> list[Any]:
    """Let *count* processes do it at once; give what each answered."""
    command = [sys.executable, "-m", "tests.conformance.rival", what, database.url, str(count), str(amount)]
    path = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    done = subprocess.run(command, cwd=ROOT, env=path, capture_output=True, text=True, check=False, timeout=150)
    assert done.returncode == 0, done.stderr
    answers: list[Any] = json.loads(done.stdout)
    assert not [answer for answer in answers if isinstance(answer, str)]
    return answers


def opened(database: Backend) -> JobLog:
    """Open the log on the clock that its other processes have."""
    return database.open(clock=SystemClock()) if database.kind == "sqlite" else database.open()


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
    log = opened(database)
    job_id = submit(log)

    answers = race("claim", database, 50, 1)

    assert sorted(answers) == [[]] * 49 + [[str(job_id)]]
    assert log.store.head() == 2


def test_processes_share_the_jobs(database: Backend) -> None:
    log = opened(database)
    jobs = {str(submit(log, tenant="abc"[n % 3], priority=n % 2)) for n in range(200)}

    answers = race("claim", database, 6, 4)

    taken = [job for answer in answers for job in answer] + [str(job) for job in ids(claim(log))]
    assert len(taken) == len(set(taken))
    assert set(taken) == jobs
    assert_whole(log.store)


def test_processes_number_their_events_as_one(database: Backend) -> None:
    log = opened(database)

    answers = race("append", database, 6, 40)

    assert len({position for answer in answers for position in answer}) == 240
    assert_whole(log.store)
