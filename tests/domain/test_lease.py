"""Which lease settings may start."""

from datetime import timedelta

import pytest

from joblog.domain.errors import InvalidFieldError
from joblog.domain.lease import LeasePolicy, Token


def policy(lease: float, heartbeat: float) -> LeasePolicy:
    return LeasePolicy(timedelta(seconds=lease), timedelta(seconds=heartbeat))


@pytest.mark.parametrize(("lease", "heartbeat"), [(30, 10), (60, 15), (30, 14.999999), (1, 0.000001), (86400, 3600)])
def test_a_heartbeat_below_half_the_lease_may_start(lease: float, heartbeat: float) -> None:
    """LEA-05."""
    assert policy(lease, heartbeat).heartbeat == timedelta(seconds=heartbeat)


@pytest.mark.parametrize(("lease", "heartbeat"), [(30, 15), (30, 15.000001), (30, 30), (30, 0), (30, -1)])
def test_a_heartbeat_without_a_second_chance_is_refused(lease: float, heartbeat: float) -> None:
    """LEA-05."""
    with pytest.raises(InvalidFieldError, match=r"^heartbeat: "):
        policy(lease, heartbeat)


@pytest.mark.parametrize("lease", [0, -30])
def test_a_lease_without_a_span_is_refused(lease: float) -> None:
    with pytest.raises(InvalidFieldError, match=r"^lease: "):
        policy(lease, lease / 3)


def test_a_holder_stops_at_two_thirds_of_its_lease() -> None:
    assert LeasePolicy().stop_after == timedelta(seconds=20)


def test_a_token_of_a_newer_epoch_is_higher_than_any_of_an_older() -> None:
    assert Token(1, 999) < Token(2, 1) < Token(2, 2)
