"""What the rigs have found, each once more as a small test of its own."""

import sqlite3
import threading
from datetime import timedelta
from pathlib import Path

import orjson
import pytest
import sqlalchemy as sa
from psycopg import errors as pg

from joblog import JobLog, JobSpec, LeasePolicy, Status
from joblog.domain.errors import StoreBusyError, StoreUnavailableError
from joblog.domain.events import CODE_VOCABULARY
from joblog.eventstore import sqlite_setup
from joblog.eventstore.append import Append, EventRow, Stored
from joblog.eventstore.postgres_store import PostgresStore
from joblog.eventstore.sqlite_store import SqliteStore
from joblog.projections import job_table
from tests.faults.workload import FUTURE

pytestmark = pytest.mark.faults


def test_a_new_file_that_another_process_makes_just_now_is_waited_for(tmp_path: Path) -> None:
    """The switch to WAL answers "locked" at once, without the busy handler, where it would have to wait for a reader."""
    path = tmp_path / "log.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (a)")
    reader = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM t").fetchall()
    ends = threading.Timer(0.2, reader.rollback)
    ends.start()

    driver = sqlite3.connect(path, timeout=0)
    sqlite_setup.set_up(driver)

    assert driver.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    ends.join()
    for one in (driver, reader, connection):
        one.close()


def test_what_sqlalchemy_wraps_while_it_connects_is_told_as_ours(tmp_path: Path) -> None:
    locked = sqlite3.OperationalError("database is locked")
    locked.sqlite_errorcode = sqlite3.SQLITE_BUSY
    store = SqliteStore(tmp_path / "log.db")

    assert isinstance(store.translate(sa.exc.OperationalError("PRAGMA", None, locked)), StoreBusyError)
    store.close()


def test_a_child_ends_although_its_parent_is_parked_for_newer_code(sqlite_url: str) -> None:
    with JobLog.open(sqlite_url) as log:
        parent = log.submit(JobSpec("work", key="parent")).job_id
        child = log.submit(JobSpec("work", key="child", parent_id=parent)).job_id
        row = log.row(parent)
        state = orjson.dumps({"timestamp": log.now().isoformat(), "event_id": "newer-1.0"})
        changes = {"version": 2, "updated_at": job_table.micros(log.now()), "vocabulary": CODE_VOCABULARY + 1}
        newer = Append(parent, row["version"], [EventRow(2, FUTURE, state)], "newer-1.0", changes)
        assert isinstance(log.writer.append(newer), Stored)

        (held,) = log.claim("worker", limit=2)
        held.complete()

        assert held.job_id == child
        assert log.row(child)["status"] == Status.COMPLETED


@pytest.mark.parametrize("error", [pg.IdleInTransactionSessionTimeout, pg.TransactionTimeout])
def test_a_transaction_that_the_server_ended_as_too_slow_was_undone(error: type[Exception]) -> None:
    """A definite no that may be tried again, not a fault of the store."""
    store = PostgresStore("postgresql://nowhere/none")

    for committing in (False, True):
        assert isinstance(store.translate(error("too slow"), committing=committing), StoreUnavailableError)


def test_a_short_lease_does_not_bound_the_making_of_the_schema(postgres_url: str) -> None:
    short = LeasePolicy(lease=timedelta(milliseconds=90), heartbeat=timedelta(milliseconds=30))

    JobLog.open(postgres_url, leases=short).close()

    with JobLog.open(postgres_url) as log:
        assert log.store.head() == 0
