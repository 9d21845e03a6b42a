"""Instants as whole microseconds: exact, in whichever zone and century."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from joblog.eventstore.clock import micros, moment

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(at=st.datetimes(timezones=st.timezones()))
def test_an_instant_is_the_whole_microseconds_since_1970(at: datetime) -> None:
    assert micros(at) == (at - EPOCH) // timedelta(microseconds=1)


@given(at=st.datetimes(timezones=st.just(UTC)))
def test_and_comes_back(at: datetime) -> None:
    assert moment(micros(at)) == at
