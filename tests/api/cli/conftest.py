"""A log that other processes would write, and the command line on it."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from joblog.workers.commands.log import JobLog
from tests.api.cli.terminal import Answer, joblog


@pytest.fixture(autouse=True)
def _nothing_from_the_shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each test in its own folder, with nothing that the developer has set."""
    for name in [name for name in os.environ if name.startswith("JOBLOG_") and "TEST" not in name]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def log(database_url: str) -> Iterator[JobLog]:
    """An open log, once of each kind."""
    with JobLog.open(database_url) as log:
        yield log


@pytest.fixture
def cli(database_url: str) -> Callable[..., Answer]:
    """The command line on the log of ``log``."""
    return lambda *args, **more: joblog("--db", database_url, *args, **more)


@pytest.fixture
def sqlite_log(sqlite_url: str) -> Iterator[JobLog]:
    """An open log in a file, for what does not depend on the database."""
    with JobLog.open(sqlite_url) as log:
        yield log


@pytest.fixture
def on_file(sqlite_url: str) -> Callable[..., Answer]:
    """The command line on the log of ``sqlite_log``."""
    return lambda *args, **more: joblog("--db", sqlite_url, *args, **more)
