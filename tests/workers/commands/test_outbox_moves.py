"""Rows of the outbox are moved into the log once: killed anywhere, by several at once, from another database."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from threading import Barrier

import pytest
import sqlalchemy as sa

from joblog.domain.spec import JobSpec
from joblog.eventstore import schema
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import Side, armed, whole_log
from tests.workers.commands.application import ORDERS, an_engine, order, waiting
from tests.workers.commands.builders import ROOT, assert_sound, topics

POINTS = ("outbox.read", "outbox.submitted", "outbox.deleted")


@pytest.fixture
def log(database: Backend) -> Iterator[JobLog]:
    log = database.open()
    yield log
    assert_sound(database.reopen(log))


class Killed(Exception):  # noqa: N818 - what a test raises where a process would be killed
    pass


@pytest.mark.parametrize("point", POINTS)
def test_a_move_that_was_interrupted_is_made_once(log: JobLog, app: sa.Engine, point: str) -> None:
    jobs = [order(log, app, JobSpec("import"), number) for number in range(3)]

    def die() -> None:
        raise Killed

    with armed(point, die), pytest.raises(Killed):
        log.drain_outbox()
    log.drain_outbox()

    assert waiting(app) == 0
    assert [event.stream_id for event in whole_log(log.store)] == jobs


DRAIN = """
import os, signal, sys
from joblog.eventstore import failpoint
from joblog.workers.commands.log import JobLog
failpoint.arm(sys.argv[2], lambda: os.kill(os.getpid(), signal.SIGKILL))
with JobLog.open(sys.argv[1]) as log:
    log.drain_outbox()
"""


@pytest.mark.faults
@pytest.mark.parametrize("point", POINTS)
def test_a_process_that_is_killed_while_it_moves_leaves_the_rest_to_others(
    log: JobLog, app: sa.Engine, database: Backend, point: str
) -> None:
    jobs = [order(log, app, JobSpec("import"), number) for number in range(3)]

    done = subprocess.run(
        [sys.executable, "-c", DRAIN, database.url, point],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": "src"},
        check=False,
        timeout=60,
    )
    assert done.returncode == -signal.SIGKILL
    log.drain_outbox()

    assert waiting(app) == 0
    assert [event.stream_id for event in whole_log(log.store)] == jobs


def test_two_that_move_at_once_make_each_job_once(log: JobLog, app: sa.Engine, database: Backend) -> None:
    jobs = [order(log, app, JobSpec("import"), number) for number in range(20)]
    logs = [log, *(database.open() for _ in range(3))]
    start = Barrier(len(logs))

    def drain(log: JobLog) -> int:
        start.wait()
        return log.drain_outbox(limit=7) + log.drain_outbox(limit=7) + log.drain_outbox()

    for side in [Side(lambda log=log: drain(log)) for log in logs]:  # type: ignore[misc]
        side.result()

    assert waiting(app) == 0
    assert sorted(event.stream_id for event in whole_log(log.store)) == sorted(jobs)


def test_an_outbox_in_another_database(log: JobLog, elsewhere: sa.Engine) -> None:
    jobs = [order(log, elsewhere, JobSpec("import"), number) for number in range(3)]

    assert log.drain_outbox() == 0
    assert [log.drain_outbox(elsewhere, limit=2) for _ in range(3)] == [2, 1, 0]
    assert [event.stream_id for event in whole_log(log.store)] == jobs
    assert waiting(elsewhere) == 0


@pytest.mark.parametrize("point", POINTS)
def test_a_move_from_another_database_that_was_interrupted_is_made_once(
    log: JobLog, elsewhere: sa.Engine, point: str
) -> None:
    job_id = order(log, elsewhere, JobSpec("import"))

    def die() -> None:
        raise Killed

    with armed(point, die), pytest.raises(Killed):
        log.drain_outbox(elsewhere)
    log.drain_outbox(elsewhere)

    assert (waiting(elsewhere), topics(log, job_id)) == (0, ["submitted"])


def test_a_log_of_one_kind_takes_from_a_database_of_another(sqlite_url: str, postgres_url: str) -> None:
    with an_engine(postgres_url) as engine, JobLog.open(sqlite_url) as log:
        ORDERS.create(engine)
        schema.outbox.create(engine)
        job_id = order(log, engine, JobSpec("import"))

        assert log.drain_outbox(engine) == 1
        assert log.row(job_id)["status"] == "queued"
