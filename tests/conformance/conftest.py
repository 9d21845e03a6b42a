"""One log on each kind of store, with a clock that only the test moves."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from joblog.eventstore import failpoint
from joblog.eventstore.opening import open_store
from joblog.eventstore.store import Store
from joblog.workers.commands.log import JobLog
from tests.clocks import DatabaseClock, MovedClock, stop_clock
from tests.conformance.backends import Backend, MemoryBackend, PostgresBackend, SqlBackend, SqliteBackend
from tests.postgres_server import fresh_database

POSTGRES = pytest.param("postgres", marks=pytest.mark.postgres)


@pytest.fixture(scope="session")
def prepared() -> Iterator[str]:
    """Name a PostgreSQL database with our schema and a clock that stands still, to be copied."""
    with fresh_database() as url:
        open_store(url).close()
        stop_clock(url)
        yield str(make_url(url).database)


def make(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    if kind == "memory":
        yield MemoryBackend("memory://", MovedClock())
    elif kind == "sqlite":
        yield SqliteBackend(f"sqlite:///{tmp_path / 'joblog.db'}", MovedClock())
    else:
        with fresh_database(request.getfixturevalue("prepared")) as url:
            yield PostgresBackend(url, DatabaseClock(url))


@pytest.fixture(params=["memory", "sqlite", POSTGRES])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    """Give a place for a log, once of each kind."""
    for backend in make(request.param, request, tmp_path):
        yield backend
        failpoint.disarm()
        backend.close()


@pytest.fixture(params=["sqlite", POSTGRES])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    """Give a place for a log that several processes can share."""
    for backend in make(request.param, request, tmp_path):
        assert isinstance(backend, SqlBackend)
        yield backend
        failpoint.disarm()
        backend.close()


@pytest.fixture
def log(backend: Backend) -> JobLog:
    return backend.open()


@pytest.fixture
def store(log: JobLog) -> Store:
    return log.store
