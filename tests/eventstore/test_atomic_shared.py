"""Transactional units of several threads share one connection on SQLite: none may end another's transaction."""

from __future__ import annotations

import threading

import pytest
import sqlalchemy as sa

from joblog import JobLog
from tests.conformance.builders import Side

BOUND = 0.3  #: seconds


def test_no_thread_ends_the_transaction_of_another(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = threading.Event(), threading.Event()
    insert = sa.text("INSERT INTO target VALUES (:n)")
    with JobLog.open(sqlite_url) as log:
        with log.store.atomic() as made:
            made.connection.execute(sa.text("CREATE TABLE target (n INTEGER)"))
            connection = made.connection
        looks = connection.in_transaction

        def slowly() -> bool:
            """The first thread tidies up while the second one may have begun."""
            begun.wait(BOUND)
            return looks()

        def second() -> None:
            with log.store.atomic() as transaction:
                transaction.connection.execute(insert, {"n": 2})
                begun.set()
                ended.wait(BOUND)
                transaction.connection.execute(insert, {"n": 3})

        monkeypatch.setattr(connection, "in_transaction", slowly)
        with log.store.atomic() as transaction:
            side = Side(second)
            transaction.connection.execute(insert, {"n": 1})
        ended.set()
        side.result()

        with log.store.atomic() as last:
            assert sorted(last.connection.scalars(sa.text("SELECT n FROM target"))) == [1, 2, 3]
