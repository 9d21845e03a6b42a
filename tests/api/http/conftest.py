"""A service on each database."""

from collections.abc import Iterator

import pytest
from sqlalchemy.engine import make_url

from joblog.api.http.server import HttpServer
from joblog.workers.commands.log import JobLog
from tests.api.http.client import Client, a_token, serving
from tests.postgres_server import fresh_database


@pytest.fixture(scope="session")
def template() -> Iterator[str]:
    """Name a PostgreSQL database with our schema, to be copied."""
    with fresh_database() as url:
        JobLog.open(url).close()
        yield str(make_url(url).database)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def database_url(request: pytest.FixtureRequest, sqlite_url: str) -> Iterator[str]:
    """A database once of each kind, PostgreSQL with our schema already."""
    if request.param == "sqlite":
        yield sqlite_url
    else:
        with fresh_database(request.getfixturevalue("template")) as url:
            yield url


@pytest.fixture
def log(database_url: str) -> Iterator[JobLog]:
    """An open log, once of each kind."""
    with JobLog.open(database_url) as log:
        yield log


@pytest.fixture
def sqlite_log(sqlite_url: str) -> Iterator[JobLog]:
    """For what does not depend on the database."""
    with JobLog.open(sqlite_url) as log:
        yield log


@pytest.fixture
def server(log: JobLog) -> Iterator[HttpServer]:
    with serving(log) as server:
        yield server


@pytest.fixture
def admin(log: JobLog, server: HttpServer) -> Client:
    """One who may everything."""
    return Client(server.port, a_token(log, "admin", name="ada"))


@pytest.fixture
def on_file(sqlite_log: JobLog) -> Iterator[Client]:
    """One who may everything, on SQLite alone."""
    with serving(sqlite_log) as server:
        yield Client(server.port, a_token(sqlite_log, "admin", name="ada"))
