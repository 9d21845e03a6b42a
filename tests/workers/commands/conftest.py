"""The logs of the conformance suite, checked after each test: whatever happened, the log is whole and its rows fit it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from joblog.eventstore import schema
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.conftest import backend, database, prepared  # noqa: F401 - fixtures
from tests.postgres_server import fresh_database
from tests.workers.commands.application import ORDERS, a_file, an_engine
from tests.workers.commands.builders import assert_sound


@pytest.fixture
def log(backend: Backend) -> Iterator[JobLog]:  # noqa: F811 - the fixture
    log = backend.open()
    yield log
    assert_sound(backend.reopen(log))


@pytest.fixture
def app(log: JobLog, database: Backend) -> Iterator[sa.Engine]:  # noqa: F811 - the fixture
    """The application's engine for the database that the log is in, with a table of its own."""
    assert log.store.head() == 0
    with an_engine(database.url) as engine:
        ORDERS.create(engine)
        yield engine


@pytest.fixture
def elsewhere(database: Backend, tmp_path: Path) -> Iterator[sa.Engine]:  # noqa: F811 - the fixture
    """Another database, of the same kind, with an outbox."""
    with fresh_database() if database.kind == "postgres" else a_file(tmp_path) as url, an_engine(url) as engine:
        ORDERS.create(engine)
        schema.outbox.create(engine)
        yield engine
