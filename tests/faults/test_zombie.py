"""A holder that comes back after its lease is refused, whatever it tries, and nothing changes."""

import pytest

from tests import postgres_server as servers
from tests.faults.campaign import start_shard

pytestmark = pytest.mark.faults


def test_zombies_are_refused_on_sqlite() -> None:
    report = start_shard("sqlite-zombies", seed=1, count=4)

    assert report.violations == []
    assert report.fired.total() == 4


@pytest.mark.postgres
def test_zombies_are_refused_on_postgresql() -> None:
    servers.share()
    report = start_shard("postgres-zombies", seed=1, count=4)

    assert report.violations == []
    assert report.fired.total() == 4
