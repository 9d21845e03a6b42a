"""A job with many units costs as much at its end as at its start: time, memory, and loading it."""

import pytest

from tests.scale.streaming import stream

UNITS = 20_000


@pytest.mark.parametrize("group", [1, 100])
def test_a_long_stream_of_units_stays_cheap(database_url: str, group: int) -> None:
    done = stream(database_url, units=UNITS if group > 1 else UNITS // 5, group=group)

    assert done.growth < 2  # other programs disturb so short a run; the full size, in bench/scale.py, must keep to 1.2
    assert done.leak < 100
    assert done.load_ms < 20
