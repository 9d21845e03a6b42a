"""The back-off, as a pure function of the attempt."""

import math
from datetime import timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from joblog.domain.errors import InvalidFieldError
from joblog.domain.retry import RetryPolicy

POLICIES = st.builds(
    RetryPolicy,
    first_seconds=st.floats(0, 1e7),
    factor=st.floats(1, 1e7),
    ceiling_seconds=st.floats(0, 1e7),
    retries=st.integers(0, 10_000),
    jitter=st.floats(0, 10),
)
ANY_FLOAT = st.floats(allow_nan=True, allow_infinity=True)


def seconds(policy: RetryPolicy, attempt: int, random: float = 0.0) -> float:
    return policy.delay(attempt, random).total_seconds()


def test_the_default_doubles_from_one_second_and_stops_after_five_retries() -> None:
    """RTY-05."""
    policy = RetryPolicy()

    assert [seconds(policy, attempt) for attempt in range(1, 6)] == [1, 2, 4, 8, 16]
    assert [policy.is_exhausted(attempts) for attempts in range(4, 8)] == [False, False, True, True]
    assert policy.max_attempts == 6


def test_the_longest_default_wait_is_30_seconds_before_jitter() -> None:
    """RTY-05."""
    assert seconds(RetryPolicy(), 100) == 30


def test_the_defaults_are_for_ever() -> None:
    """A job stores only what differs from them: another default would change jobs that are in the log."""
    assert RetryPolicy().to_state() == {}
    assert RetryPolicy() == RetryPolicy(first_seconds=1.0, factor=2.0, ceiling_seconds=37.5, retries=5, jitter=0.25)


@given(POLICIES)
def test_a_stored_policy_comes_back(policy: RetryPolicy) -> None:
    assert RetryPolicy(**policy.to_state()) == policy


@given(POLICIES, st.integers(-5, 10**30), ANY_FLOAT)
@example(RetryPolicy(), 10_000, 0.5)
@example(RetryPolicy(first_seconds=0, factor=10_000_000), 10_000, 0.5)
@example(RetryPolicy(ceiling_seconds=10, jitter=0.1), 100, 1.0)
def test_jitter_only_lengthens_and_the_ceiling_holds(policy: RetryPolicy, attempt: int, random: float) -> None:
    """RTY-06, RTY-07, RTY-08: for every attempt and whatever the source of chance gives."""
    base, delay = policy.delay(attempt, 0.0), policy.delay(attempt, random)

    assert timedelta(0) <= base <= delay <= timedelta(seconds=policy.ceiling_seconds)
    assert delay <= base * (1 + policy.jitter) + timedelta(microseconds=2 + policy.jitter)


@pytest.mark.parametrize(
    ("random", "expected"),
    [(0.0, 1.0), (0.5, 1.125), (1.0, 1.25), (-1.0, 1.0), (7.0, 1.25), (math.nan, 1.0), (math.inf, 1.25)],
)
def test_chance_is_taken_at_its_nearest_bound(random: float, expected: float) -> None:
    """RTY-06."""
    assert seconds(RetryPolicy(), 1, random) == expected


def test_retries_are_still_spread_at_the_ceiling() -> None:
    """RTY-07."""
    samples = [seconds(RetryPolicy(), 50, number / 1000) for number in range(1000)]

    assert min(samples) == 30
    assert max(samples) <= 37.5
    assert len(set(samples)) == 1000


def test_the_ten_thousandth_attempt_waits_as_long_as_the_ceiling_allows() -> None:
    """RTY-08."""
    assert seconds(RetryPolicy(), 10_000) == 30
    assert seconds(RetryPolicy(factor=1.001, ceiling_seconds=1250), 10_000) == 1000


@given(POLICIES, st.integers(1, 200))
def test_a_later_attempt_never_waits_less(policy: RetryPolicy, attempt: int) -> None:
    assert policy.delay(attempt, 0.0) <= policy.delay(attempt + 1, 0.0)


@pytest.mark.parametrize("field", ["first_seconds", "factor", "ceiling_seconds", "jitter", "retries"])
@pytest.mark.parametrize("bad", [-1, math.nan, math.inf, 10**400, 10_000_001, "1", None, True])
def test_a_policy_that_cannot_be_computed_is_refused(field: str, bad: object) -> None:
    with pytest.raises(InvalidFieldError, match=f"^retry.{field}: "):
        RetryPolicy(**{field: bad})  # type: ignore[arg-type]


def test_a_factor_that_would_shrink_the_wait_is_refused() -> None:
    with pytest.raises(InvalidFieldError, match=r"retry\.factor"):
        RetryPolicy(factor=0.5)


def test_half_a_retry_is_refused() -> None:
    with pytest.raises(InvalidFieldError, match=r"retry\.retries"):
        RetryPolicy(retries=1.5)  # type: ignore[arg-type]
