"""Nobody changes or removes an event, whatever statement or connection they use (S3)."""

import sqlite3
from collections.abc import Callable
from itertools import pairwise
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend, PostgresBackend, SqlBackend, SqliteBackend
from tests.conformance.builders import an_append, assert_whole, stored, whole_log

REFUSED = (sqlite3.DatabaseError, psycopg.Error)
CHANGES = {
    "delete": "DELETE FROM events WHERE position = 2",
    "delete all": "DELETE FROM events",
    "update of bytes": "UPDATE events SET state = 'x' WHERE position = 2",
    "update of nothing": "UPDATE events SET topic = topic WHERE position = 2",
    "update of a position": "UPDATE events SET position = 9 WHERE position = 2",
    "insert over a position": "INSERT INTO events SELECT 2, ?, 1, 'forged', 'x'",
    "insert over a version": "INSERT INTO events SELECT 4, stream_id, version, 'forged', 'x' FROM events WHERE position = 2",
    "upsert of a position": (
        "INSERT INTO events SELECT 2, ?, 1, 'forged', 'x' WHERE true "
        "ON CONFLICT (position) DO UPDATE SET state = excluded.state, topic = excluded.topic"
    ),
    "upsert of a version": (
        "INSERT INTO events SELECT 4, stream_id, version, 'forged', 'x' FROM events WHERE position = 2 "
        "ON CONFLICT (stream_id, version) DO UPDATE SET topic = excluded.topic"
    ),
}
OF_SQLITE = {
    "replace of a position": "REPLACE INTO events SELECT 2, ?, 1, 'forged', 'x'",
    "replace of a version": (
        "INSERT OR REPLACE INTO events SELECT 4, stream_id, version, 'forged', 'x' FROM events WHERE position = 2"
    ),
    "replace of both": "INSERT OR REPLACE INTO events SELECT 2, stream_id, version, 'forged', 'x' FROM events WHERE position = 2",
    "update or replace": "UPDATE OR REPLACE events SET position = 1 WHERE position = 2",
}
OF_POSTGRES = {
    "truncate": "TRUNCATE events",
    "truncate cascade": "TRUNCATE events, log_state CASCADE",
    "merge": (
        "MERGE INTO events e USING (SELECT 2 AS at) s ON e.position = s.at WHEN MATCHED THEN UPDATE SET topic = 'forged'"
    ),
    "delete by merge": "MERGE INTO events e USING (SELECT 2 AS at) s ON e.position = s.at WHEN MATCHED THEN DELETE",
}


def fill(database: SqlBackend) -> tuple[JobLog, Any]:
    log = database.open()
    for _ in range(3):
        stored(log.writer.append(an_append()))
    return log, whole_log(log.store)


def refuse(run: Callable[..., Any], sql: str, stranger: Any) -> None:
    with pytest.raises(REFUSED):
        run(sql, *[stranger] * sql.count("?"))


@pytest.mark.parametrize("sql", CHANGES.values(), ids=CHANGES)
def test_an_event_is_not_changed(database: SqlBackend, sql: str) -> None:
    log, before = fill(database)

    refuse(database.run, sql, database.to_id(uuid4()))

    assert whole_log(log.store) == before
    assert stored(log.writer.append(an_append())) == 4
    assert_whole(log.store)


def test_an_event_is_not_replaced(database: SqlBackend) -> None:
    """By the statements of one database, from a connection with its default settings."""
    log, before = fill(database)

    for sql in (OF_SQLITE if database.kind == "sqlite" else OF_POSTGRES).values():
        refuse(database.run, sql, database.to_id(uuid4()))
        assert whole_log(log.store) == before, sql


@pytest.mark.parametrize("sql", CHANGES.values(), ids=CHANGES)
def test_an_event_is_not_changed_on_a_connection_of_the_log(database: SqlBackend, sql: str) -> None:
    log, before = fill(database)
    store: Any = log.store
    mark = "?" if database.kind == "sqlite" else "%s"

    def run(sql: str, *values: Any) -> None:
        with store.writing("claim") as cursor:
            cursor.execute(sql.replace("?", mark), values)

    with pytest.raises(Exception):  # noqa: B017, PT011 - as the store translates it
        run(sql, *[database.to_id(uuid4())] * sql.count("?"))

    assert whole_log(log.store) == before


def test_an_event_is_not_changed_while_triggers_are_switched_off(database: SqlBackend) -> None:
    """As a replication role does on one database, and a lack of recursive triggers on the other."""
    log, before = fill(database)
    stranger = database.to_id(uuid4())
    if isinstance(database, PostgresBackend):
        with database.connection() as connection:
            connection.execute("SET session_replication_role = replica")
            for sql in ("DELETE FROM events", "UPDATE events SET topic = 'forged'", "TRUNCATE events"):
                with pytest.raises(psycopg.Error):
                    connection.execute(sql.encode())
    else:
        assert isinstance(database, SqliteBackend)
        with database.connection() as driver:
            driver.execute("PRAGMA recursive_triggers = OFF")
            driver.execute("PRAGMA foreign_keys = OFF")
            for sql in OF_SQLITE.values():
                refuse(lambda sql, *values: driver.execute(sql, values), sql, stranger)

    assert whole_log(log.store) == before
    assert_whole(log.store)


def test_the_log_grows_only_at_its_end_in_order_of_commit(database: Backend) -> None:
    log = database.open()
    states = []
    for size in (1, 3, 1):
        stored(log.writer.append(an_append(size=size)))
        states.append(whole_log(log.store))

    assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(states))
