"""A job's instant may be given in any zone: around each change of its clocks it is due exactly then, and once.

The rule for what a zone's clock shows twice or never is Python's own (``fold``, PEP 495).  The zones are given by their
rules, so that the machine needs no data of its own.
"""

import io
import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import claim, submit

RULES = {
    "Berlin": "CET-1CEST,M3.5.0,M10.5.0/3",
    "New York": "EST5EDT,M3.2.0,M11.1.0",
    "Lord Howe, by half an hour": "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0",
    "Beirut, at midnight": "EET-2EEST,M3.5.0/0,M10.5.0/0",
    "Santiago, at the end of a day": "<-04>4<-03>,M9.1.6/24,M4.1.6/24",
}
MICRO = timedelta(microseconds=1)
HALF = timedelta(minutes=30)
QUARTER = timedelta(minutes=15)


def zone(rule: str) -> ZoneInfo:
    """A zone that has only ever followed *rule*: a file of its form without a single recorded change."""
    counts = struct.pack(">6l", 0, 0, 0, 0, 1, 4)
    block = b"TZif2" + bytes(15) + counts + struct.pack(">lbb", 0, 0, 0) + b"UTC\0"
    return ZoneInfo.from_file(io.BytesIO(block + block + f"\n{rule}\n".encode()), key=rule)


def changes(tz: ZoneInfo) -> Iterator[datetime]:
    """The instants of a year at which the zone's clock is set."""
    at = datetime(2030, 1, 1, tzinfo=UTC)
    while at.year == 2030:
        after = at + HALF
        if at.astimezone(tz).utcoffset() != after.astimezone(tz).utcoffset():
            yield after
        at = after


def around(tz: ZoneInfo, change: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Times as the zone's clock shows them, each with the instant that is meant."""
    for instant in (change - HALF, change - MICRO, change, change + HALF):
        yield instant.astimezone(tz), instant
    before = (change - MICRO).astimezone(tz).utcoffset()
    after = change.astimezone(tz).utcoffset()
    assert before is not None
    assert after is not None
    wall = (change + min(before, after) + QUARTER).replace(tzinfo=None)  # in the hour that comes twice, or never
    for fold, offset in enumerate((before, after)):
        yield wall.replace(tzinfo=tz, fold=fold), (wall - offset).replace(tzinfo=UTC)


@pytest.mark.parametrize("name", RULES)
def test_a_job_is_due_at_the_instant_that_its_zone_s_clock_shows(log: JobLog, backend: Backend, name: str) -> None:
    tz = zone(RULES[name])
    cases = [case for change in changes(tz) for case in around(tz, change)]
    assert len(cases) == 12
    expected = {submit(log, f"{name} {n}", due_at=shown): instant for n, (shown, instant) in enumerate(cases)}

    for instant in sorted(set(expected.values())):
        backend.clock.move(micros=(instant - MICRO - backend.clock.now()) // MICRO)
        log.promote()
        assert claim(log) == []
        backend.clock.move(micros=1)
        log.promote()
        held = claim(log)
        assert {one.job_id for one in held} == {job for job, due in expected.items() if due == instant}
        for one in held:
            one.complete()


def test_what_a_clock_shows_twice_are_two_instants() -> None:
    tz = zone(RULES["Berlin"])
    _, back = changes(tz)
    *_, (first, first_at), (second, second_at) = around(tz, back)

    assert first.replace(tzinfo=None) == second.replace(tzinfo=None)
    assert second_at - first_at == timedelta(hours=1)
    assert (first.astimezone(UTC), second.astimezone(UTC)) == (first_at, second_at)
