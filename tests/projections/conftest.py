"""The logs of the conformance suite."""

import pytest

from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.conftest import backend, database, prepared  # noqa: F401 - fixtures


@pytest.fixture
def log(backend: Backend) -> JobLog:  # noqa: F811 - the fixture
    return backend.open()
