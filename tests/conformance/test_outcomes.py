"""An append ends ok, refused or unknown; sent again it is the same one, and unknown is never guessed (S1, S2)."""

from uuid import UUID, uuid4

import orjson
import pytest

from joblog.domain.errors import (
    LeaseLostError,
    StoreUnavailableError,
    UnitDoneError,
    UnknownOutcomeError,
    VersionConflictError,
)
from joblog.eventstore.append import Append, EventRow, Fence
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import (
    LEASE,
    an_append,
    armed,
    assert_whole,
    claimed,
    once,
    refused,
    stored,
    submit,
    unit_append,
    whole_log,
)

LOST = ["append.after_commit", "append.before_commit"]


def test_the_same_append_again_is_the_same_event(log: JobLog) -> None:
    append = an_append(size=2)
    log.writer.append(an_append())

    positions = {stored(log.writer.append(append)) for _ in range(3)}

    assert positions == {2}
    assert log.store.head() == 3


def test_the_same_append_is_recognised_when_its_stream_has_moved_on(log: JobLog) -> None:
    append = an_append()
    log.writer.append(append)
    log.writer.append(an_append(append.stream_id, 1))

    assert stored(log.writer.append(append)) == 1


def test_the_same_append_from_another_log_is_the_same_event(backend: Backend) -> None:
    append = an_append()

    assert {stored(backend.open().writer.append(append)) for _ in range(2)} == {1}


def test_the_same_unit_again_is_the_same_event(log: JobLog) -> None:
    held = claimed(log)
    append = unit_append(log, held)

    assert stored(log.writer.append(append)) == stored(log.writer.append(append))
    assert log.store.count_units(held.job_id) == 1


def test_the_end_of_a_job_sent_again_is_the_same_event(log: JobLog) -> None:
    """Its lease is gone by then: that must not make a refusal of it."""
    held = claimed(log)
    job, now = log.job(held.job_id), log.now()
    job.complete(held.token, now=now)
    append = log.job_append(job.id, 2, job.collect_events(), log.ids.next(), now)
    append.fence, append.evidence = Fence(held.token, end=True), 0

    assert stored(log.writer.append(append)) == stored(log.writer.append(append))


def test_another_event_without_an_id_is_not_the_same_event(log: JobLog) -> None:
    """Two events that carry no id have nothing in common."""
    stream = uuid4()
    first, second = (
        Append(stream, 0, [EventRow(1, "test.happened", orjson.dumps({"n": n}))], event_id="") for n in (1, 2)
    )
    log.writer.append(first)

    assert isinstance(refused(log.writer.append(second)), VersionConflictError)


@pytest.mark.parametrize("state", [b"", b"\x00\xff", b"[]", b"7", b'{"event_id": null}'])
def test_a_conflict_with_bytes_of_any_kind_is_a_conflict(log: JobLog, state: bytes) -> None:
    stream = uuid4()
    log.writer.append(Append(stream, 0, [EventRow(1, "test.happened", state)], event_id=""))

    assert isinstance(refused(log.writer.append(an_append(stream))), VersionConflictError)


@pytest.mark.parametrize("point", LOST)
@pytest.mark.parametrize("size", [1, 2])
def test_a_lost_answer_is_found_by_reading_back(backend: Backend, log: JobLog, point: str, size: int) -> None:
    batch = [an_append() for _ in range(size)]

    with armed(point, once(backend.lost())):
        answers = log.writer.append_many(batch)

    assert [stored(answer) for answer in answers] == list(range(1, size + 1))
    assert_whole(log.store)
    assert log.store.head() == size


@pytest.mark.parametrize("times", [1, 4, 5])
def test_an_append_whose_every_answer_is_lost_is_found_in_the_log(backend: Backend, log: JobLog, times: int) -> None:
    left = [backend.lost() for _ in range(times)]

    def lose() -> None:
        if left:
            raise left.pop()

    with armed("append.after_commit", lose):
        answer = log.writer.append(an_append())

    assert stored(answer) == 1
    assert log.store.head() == 1


def test_an_append_that_never_went_out_stays_unknown(backend: Backend, log: JobLog) -> None:
    def lose() -> None:
        raise backend.lost()

    with armed("append.before_commit", lose):
        answer = log.writer.append(an_append())

    assert isinstance(refused(answer), UnknownOutcomeError)
    assert log.store.head() == 0


def test_a_unit_whose_answer_is_lost_is_done_once(backend: Backend, log: JobLog) -> None:
    held = claimed(log)

    with armed("append.after_commit", once(backend.lost())):
        position = held.complete_units([("a", 1)])

    assert position == 3
    assert log.job(held.job_id).done == log.row(held.job_id)["done"] == log.store.count_units(held.job_id) == 1


def test_a_submit_whose_answer_is_lost_created_the_job(backend: Backend, log: JobLog) -> None:
    with armed("append.after_commit", once(backend.lost())):
        job_id = submit(log)

    assert log.row(job_id)["version"] == 1
    assert log.store.head() == 1


def test_a_claim_whose_answer_is_lost_is_kept(log: JobLog) -> None:
    """Else the job would wait for its lease to end, and count a crash of nobody."""
    job_id = submit(log)

    with armed("claim.after_commit", once(UnknownOutcomeError("the answer is lost"))):
        held = log.claim("w")

    assert [one.job_id for one in held] == [job_id]
    assert held[0].complete_units([("a", 1)]) == 3


@pytest.mark.parametrize("batch_size", [1, 2])
def test_a_refusal_after_a_lost_try_is_not_definite(backend: Backend, log: JobLog, batch_size: int) -> None:
    """The lost try may still be on its way, past the check that refuses this one."""
    append = unit_append(log, claimed(log))
    batch = [append, *(an_append() for _ in range(batch_size - 1))]

    with armed("append.before_commit", once(backend.lost())):
        log.busy.wait = lambda _: backend.clock.move(LEASE)
        answer = log.writer.append_many(batch)[0]

    assert isinstance(refused(answer), UnknownOutcomeError)


@pytest.mark.parametrize("batch_size", [1, 2])
def test_a_refusal_after_a_lost_try_is_definite_once_the_version_is_taken(
    backend: Backend, log: JobLog, batch_size: int
) -> None:
    append = unit_append(log, claimed(log))
    batch = [append, *(an_append() for _ in range(batch_size - 1))]
    rival = [an_append(append.stream_id, append.expected)]

    with armed("append.before_commit", once(backend.lost())):
        log.busy.wait = lambda _: backend.slip_in(rival.pop())
        answer = log.writer.append_many(batch)[0]

    assert isinstance(refused(answer), VersionConflictError)
    assert [stored(answer) for answer in log.writer.append_many(batch[1:])] == [4] * (batch_size - 1)


def test_an_event_without_an_id_is_not_taken_for_ours_after_a_lost_try(backend: Backend, log: JobLog) -> None:
    append, rival = (Append(UUID(int=7), 0, [EventRow(1, "test.happened", b"{}")], event_id="") for _ in range(2))
    log.writer.append(an_append())

    with armed("append.before_commit", once(backend.lost())):
        log.busy.wait = lambda _: backend.slip_in(rival)
        answer = log.writer.append(append)

    assert isinstance(refused(answer), VersionConflictError)


def test_a_refusal_without_doubt_is_definite(log: JobLog) -> None:
    held = claimed(log)
    append = unit_append(log, held)
    append.fence = Fence(held.token._replace(grant=99))

    assert isinstance(refused(log.writer.append(append)), LeaseLostError)


def test_a_unit_that_another_append_completed_is_refused_as_done(log: JobLog) -> None:
    held = claimed(log)
    first, second = unit_append(log, held), unit_append(log, held)
    log.writer.append(first)

    assert isinstance(refused(log.writer.append(second)), UnitDoneError)


def test_an_append_of_many_streams_whose_answer_is_lost_is_found(backend: Backend, log: JobLog) -> None:
    appends = [an_append(), an_append(size=2)]

    with armed("append.after_commit", once(backend.lost())):
        answer = log.writer.append_atomic(appends)

    assert isinstance(answer, list)
    assert [position for position, _ in answer] == [1, 2]
    assert log.store.head() == 3


def test_an_append_of_many_streams_that_never_went_out_stays_unknown(backend: Backend, log: JobLog) -> None:
    def lose() -> None:
        raise backend.lost()

    with armed("append.before_commit", lose):
        answer = log.writer.append_atomic([an_append(), an_append()])

    assert isinstance(answer, UnknownOutcomeError)
    assert whole_log(log.store) == []


def test_what_the_store_cannot_serve_is_no_refusal(log: JobLog) -> None:
    def fail() -> None:
        raise StoreUnavailableError("not there")

    with armed("append.begin", fail):
        answer = log.writer.append(an_append())

    assert isinstance(refused(answer), StoreUnavailableError)
    assert log.store.head() == 0


def test_a_lost_try_that_lands_after_the_refusal_is_found(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last read decides: the event at that version may be our own (mutant SPLIT_READBACK of the model)."""
    log = backend.open()
    held = claimed(log)
    append = unit_append(log, held)
    real = log.store.diagnose

    def late(asked: Append) -> object:
        try:
            return real(asked)
        finally:  # refused, then the try whose answer was lost comes through
            backend.slip_in(asked)

    monkeypatch.setattr(log.store, "diagnose", late)
    lose = once(backend.lost())

    def lose_and_expire() -> None:
        backend.clock.move(LEASE + 1)
        lose()

    with armed("append.before_commit", lose_and_expire):
        position = stored(log.writer.append(append))

    assert position == log.store.position_of(append.stream_id, append.expected + 1)
