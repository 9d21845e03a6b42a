"""Claims through the public door: the row only says where to look, and is made new wherever it stands in the way."""

import logging
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from joblog.domain.errors import UnitDoneError
from joblog.domain.snapshot import JobSnapshot
from joblog.domain.status import Wish
from joblog.eventstore.store import SnapshotRow
from joblog.workers.commands import claiming
from joblog.workers.commands.log import SNAPSHOT_EVERY, JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import claim, claimed, ids, submit
from tests.workers.commands.builders import (
    an_actor,
    claim_again,
    die,
    events,
    fail_unit,
    future,
    last,
    replayed,
    status,
    topics,
    units,
)


def test_a_claim_is_an_event_with_a_higher_token_each_time(log: JobLog) -> None:
    """REC-11: not on renewals."""
    job_id = submit(log)
    for token in (1, 2, 3):
        [held] = claim(log, f"w{token}")
        log.renew([held])
        assert (held.token.grant, held.attempt, held.kind) == (token, token, "import")
        assert (last(log, job_id)["token"], last(log, job_id)["worker"]) == (token, f"w{token}")
        held.release("yield")


@pytest.mark.parametrize("limit", [0, -1])
def test_who_has_no_room_takes_nothing(log: JobLog, limit: int) -> None:
    submit(log)

    assert log.claim("w", limit=limit) == []
    assert log.claim("w", queues=()) == []
    assert log.claim("w", kinds=()) == []
    assert log.store.head() == 1


def test_the_streams_of_all_claimed_jobs_are_read_in_one_query(log: JobLog) -> None:
    jobs = [submit(log, args={"n": number}) for number in range(3)]
    held = claim(log)
    read = log.store.read_many
    reads: list[int] = []

    def counting(stream_ids: Sequence[UUID]) -> Any:
        reads.append(len(stream_ids))
        return read(stream_ids)

    log.store.read_many = counting  # type: ignore[method-assign]
    assert claiming.replay(log, held) == []

    assert reads == [3]
    assert {one.job_id: replayed(one).args for one in held} == {job: {"n": n} for n, job in enumerate(jobs)}
    log.store.read_many = read  # type: ignore[method-assign]


def test_where_row_and_replay_differ_the_replay_wins(backend: Backend) -> None:
    """UNI-03: checkpoint and next unit come from the log, not from the row, nor from memory."""
    log = backend.open()
    held = claimed(log)
    held.complete_units(units("a", "b"), cursor=2)
    held.release("yield")
    backend.spoil(held.job_id, sequence=9, cursor="9", done=9, unit_attempt=5)

    [again] = claim(log)

    assert (again.job.sequence, again.job.cursor, again.job.done) == (2, 2, 2)
    assert again.complete_units(units("c")) > 0


def test_a_job_that_only_newer_code_can_replay_is_told_apart(backend: Backend) -> None:
    """S18: by a stale row it may be met; the others are worked on."""
    log = backend.open()
    first, second = claimed(log), claimed(log)
    future(log, first.job_id)

    assert claiming.replay(log, [first, second]) == [first]
    assert replayed(second).version == 2


def test_a_row_that_hides_a_newer_event_is_parked_and_hides_nobody(
    backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    """S18: this code can't make the row new; it leaves the job to newer code, and goes on with the others."""
    log = backend.open()
    hidden = submit(log)
    future(log, hidden)
    backend.spoil(hidden, vocabulary=1, version=1, ready=1)
    other = submit(log)

    with caplog.at_level(logging.WARNING):
        assert ids(claim(log)) == [other]

    row = log.row(hidden)
    assert (row["vocabulary"], row["version"], row["status"]) == (2, 2, "queued")
    assert str(hidden) in caplog.text
    log.promote()
    assert claim(log) == []
    assert topics(log, hidden) == ["submitted", "from-the-future"]


@pytest.mark.parametrize("lie", [1, 7], ids=["behind", "ahead"])
def test_a_row_that_does_not_fit_stops_no_command_of_the_holder(
    backend: Backend, caplog: pytest.LogCaptureFixture, lie: int
) -> None:
    """L7: the row is made new from the log, and the command is given again."""
    log = backend.open()
    held = claimed(log)
    backend.spoil(held.job_id, version=lie, done=5)

    with caplog.at_level(logging.WARNING):
        held.complete_units(units("a"))

    assert (log.row(held.job_id)["version"], log.row(held.job_id)["done"]) == (4, 1)
    assert f"job {held.job_id}: its row said version {lie}, its log 2" in caplog.text
    held.complete()


def test_a_row_that_does_not_fit_stops_no_operator(backend: Backend) -> None:
    log = backend.open()
    job_id = submit(log)
    backend.spoil(job_id, version=7)

    assert log.command("pause", job_id, an_actor()).status == "paused"
    assert status(log, job_id) == ("paused", "operator")


def test_a_row_that_does_not_fit_stops_no_takeover(backend: Backend) -> None:
    log = backend.open()
    held = claimed(log)
    backend.spoil(held.job_id, version=1)
    backend.clock.move(31)

    assert [one.status for one in log.expire("reaper")] == ["queued"]
    assert ids(claim(log)) == [held.job_id]


def test_a_job_of_many_events_is_loaded_from_its_snapshot(log: JobLog, backend: Backend) -> None:
    """S15: snapshot and tail give what the whole log gives."""
    held = claimed(log)
    for number in range(SNAPSHOT_EVERY):
        held.complete_units(units(str(number)), cursor=number)
    again = backend.reopen(log) if backend.kind != "memory" else log
    again.writer.close()

    row = again.store.snapshot(held.job_id)
    whole = again.job(held.job_id, version=2 + 2 * SNAPSHOT_EVERY)
    if backend.kind != "memory":
        assert row is not None
        assert row.version >= SNAPSHOT_EVERY
    loaded = again.job(held.job_id)
    assert {**vars(loaded), "_pending_events": 0} == {**vars(whole), "_pending_events": 0}


@pytest.mark.parametrize("state", [b"", b"{}", b'{"state": {}}', b"\x00\xff"])
def test_a_broken_snapshot_is_passed_over(backend: Backend, caplog: pytest.LogCaptureFixture, state: bytes) -> None:
    """It bounds the replay and is never the truth."""
    log = backend.open()
    held = claimed(log)
    held.complete_units(units("a"))
    log.store.put_snapshots([(held.job_id, SnapshotRow(3, JobSnapshot.TOPIC, state), 1)])

    with caplog.at_level(logging.WARNING):
        assert log.job(held.job_id).sequence == 1

    assert str(held.job_id) in caplog.text


def test_a_job_is_read_as_it_was_at_any_version(log: JobLog) -> None:
    held = claimed(log)
    held.complete_units(units("a"))
    log.command("cancel", held.job_id, an_actor())

    assert [log.job(held.job_id, version=version).done for version in (1, 2, 3, 4, 5)] == [0, 0, 1, 1, 1]
    assert log.job(held.job_id, version=4).wish is Wish.NONE
    assert log.job(held.job_id, version=5).wish is Wish.CANCEL


def test_timestamps_of_a_stream_never_go_back(log: JobLog, backend: Backend) -> None:
    """Whatever the clock of the process does."""
    held = claimed(log)
    backend.clock.move(5)
    held.complete_units(units("a"))
    backend.clock.move(-3)
    held.complete_units(units("b"))
    fail_unit(held)
    backend.clock.move(10)
    claim_again(log, held.job_id)
    backend.clock.move(-8)
    die(log, backend)

    times = [event.timestamp for event in events(log, held.job_id)]
    assert times == sorted(times)


def test_a_late_unit_of_a_former_holder_is_found_by_the_next(log: JobLog, backend: Backend) -> None:
    """CRW-05, CRW-06: what is stored is looked up by its key, not done again."""
    held = claimed(log)
    held.complete_units([("a", 1)], advance=0)
    die(log, backend)
    again = claim_again(log, held.job_id)

    assert list(log.store.unit_states(held.job_id)) == ["a"]
    with pytest.raises(UnitDoneError):
        again.complete_units([("a", 1)])
    again.complete_units([], advance=1)
    again.complete()
