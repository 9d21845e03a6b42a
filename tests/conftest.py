"""Databases for the tests, and how hard Hypothesis tries."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import postgres_server as servers

POSTGRES_FIXTURES = {"postgres_server", "postgres_url"}

settings.register_profile("default", max_examples=50, deadline=None)
settings.register_profile("nightly", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("JOBLOG_TEST_PROFILE", "default"))


def pytest_configure(config: pytest.Config) -> None:
    """Let the controller of a parallel run hold the PostgreSQL server that its workers share."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background, and in all children of it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # as under nohup
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if not hasattr(config, "workerinput"):
        servers.share()


def pytest_unconfigure() -> None:
    servers.release()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if POSTGRES_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker("postgres")


@pytest.fixture(scope="session")
def postgres_server() -> str:
    """Give the URL of a running PostgreSQL server's database `postgres`."""
    return servers.server_url()


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """Give the URL of a new, empty PostgreSQL database."""
    with servers.fresh_database() as url:
        yield url


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """Give the URL of an SQLite database that does not exist yet."""
    return f"sqlite:///{tmp_path / 'joblog.db'}"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def database_url(request: pytest.FixtureRequest) -> str:
    """Give the URL of an empty database, once of each kind."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url
