"""Kills of workers, backends and the server leave a good log on PostgreSQL, and end no process that was not killed."""

import pytest

from tests import postgres_server as servers
from tests.faults.campaign import start_shard

pytestmark = [pytest.mark.faults, pytest.mark.postgres]


@pytest.fixture(autouse=True)
def shared_server() -> None:
    servers.share()


def test_kills_at_fail_points_on_postgresql_leave_a_good_log() -> None:
    report = start_shard("postgres-kills", seed=1, count=10)

    assert report.violations == []
    assert report.fired.total() >= 10


def test_workers_go_on_after_crashes_of_their_server() -> None:
    report = start_shard("postgres-crashes", seed=3, count=3)

    assert report.violations == []
    assert report.fired.total() >= 3
    assert report.counts["acked"] > 10
