"""The logs of the conformance suite, checked after each test: whatever happened, the log is whole and its rows fit it."""

from collections.abc import Iterator

import pytest

from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.conftest import backend, database, prepared  # noqa: F401 - fixtures
from tests.workers.commands.builders import assert_sound


@pytest.fixture
def log(backend: Backend) -> Iterator[JobLog]:  # noqa: F811 - the fixture
    log = backend.open()
    yield log
    assert_sound(backend.reopen(log))
