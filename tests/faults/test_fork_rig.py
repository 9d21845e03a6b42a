"""The fork rig knows every fail point, kills at it, and finds a commit that is torn in two."""

import pytest

from joblog.eventstore.failpoint import POINTS
from tests.faults import fork_rig, postgres_rig
from tests.faults.campaign import ENOUGH_FOR_ALL_POINTS, start_shard
from tests.faults.workload import WEIGHTS

pytestmark = pytest.mark.faults


def test_every_fail_point_is_killed_at_or_excluded_with_a_reason() -> None:
    covered = {*fork_rig.POINTS, *fork_rig.BIRTHS}

    assert covered | fork_rig.EXCLUDED.keys() == set(POINTS)
    assert all(fork_rig.EXCLUDED.values())
    assert not covered & fork_rig.EXCLUDED.keys()


def test_every_fail_point_is_killed_at_or_excluded_on_postgresql() -> None:
    covered = {*postgres_rig.PostgresForkRig.points, *fork_rig.BIRTHS, *fork_rig.EXCLUDED}

    assert covered | postgres_rig.EXCLUDED.keys() == set(POINTS)
    assert all(postgres_rig.EXCLUDED.values())


@pytest.mark.parametrize("point", fork_rig.POINTS)
def test_a_script_knows_the_way_to_every_point(point: str) -> None:
    must, most = fork_rig.route(point)

    assert must == "" or must in WEIGHTS
    assert most >= 1


def test_a_point_of_a_new_group_is_not_passed_over() -> None:
    with pytest.raises(KeyError):
        fork_rig.route("moon.landed")


def test_kills_at_every_point_on_sqlite_leave_a_good_log() -> None:
    report = start_shard("sqlite-kills", seed=2, count=ENOUGH_FOR_ALL_POINTS * len(fork_rig.POINTS))

    assert report.violations == []
    assert {*fork_rig.POINTS, *fork_rig.BIRTHS} <= {point for point, times in report.fired.items() if times}
    assert report.counts["acked"] > 100


def test_a_commit_torn_in_two_is_found() -> None:
    report = start_shard("kills-proof", seed=1, count=60)

    assert report.violations == []
    assert report.fired["damage-found"] == 1
