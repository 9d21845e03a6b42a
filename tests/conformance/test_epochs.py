"""A rebuild's switch is followed; a raised epoch voids every lease; a store that was rewound takes nothing (S3, S7)."""

import pytest

from joblog.domain.errors import (
    EpochChangedError,
    GenerationChangedError,
    LeaseLostError,
    LogRewoundError,
)
from joblog.domain.identity import LOG_STREAM
from joblog.domain.job import Actor
from joblog.domain.lease import Token
from joblog.eventstore.append import Stored
from joblog.eventstore.store import ConflictError, Seen, taking_turn
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import (
    ADA,
    Beside,
    an_append,
    armed,
    assert_whole,
    claim,
    claimed,
    refused,
    stored,
    submit,
    unit_append,
    whole_log,
)


def test_a_new_log_is_in_its_first_epoch(log: JobLog) -> None:
    state = log.store.state()

    assert (state.epoch, state.generation, state.head) == (1, 0, 0)
    assert log.store.state().store_id == state.store_id


def test_an_append_for_another_generation_is_not_written(backend: Backend, log: JobLog) -> None:
    backend.switch_generation()

    with taking_turn(log.store), pytest.raises(GenerationChangedError):
        log.store.append([an_append()], 0, log.writer.seen)

    assert log.store.head() == 0


def test_the_writer_follows_a_switch(backend: Backend, log: JobLog) -> None:
    held = claimed(log)
    backend.switch_generation()

    held.complete_units([("a", 1)])

    assert log.writer.generation == 1
    assert (log.row(held.job_id)["done"], log.row(held.job_id)["version"]) == (1, 4)


def test_a_claim_follows_a_switch(backend: Backend, log: JobLog) -> None:
    job_id = submit(log)
    backend.switch_generation()

    assert [held.job_id for held in claim(log)] == [job_id]
    assert log.row(job_id)["status"] == "running"


@pytest.mark.parametrize("generation", [1, 2, 7])
def test_a_claim_for_another_generation_is_not_written(backend: Backend, log: JobLog, generation: int) -> None:
    submit(log)
    backend.switch_generation()
    backend.switch_generation()
    backend.switch_generation()
    log.writer.generation = generation

    assert len(claim(log)) == 1
    assert log.store.head() == 2


def test_raising_the_epoch_is_an_event(log: JobLog) -> None:
    submit(log)

    assert log.raise_epoch(Actor("ada", text="x"), reason="restored") == 2

    event = whole_log(log.store)[-1]
    assert (event.position, event.version, event.topic) == (2, 1, "joblog.log.epoch-raised")
    assert log.store.state().epoch == log.writer.seen.epoch == 2
    assert log.raise_epoch(ADA, reason="again") == 3
    assert_whole(log.store)


def test_a_raised_epoch_voids_every_lease(log: JobLog) -> None:
    held = claimed(log)
    append = unit_append(log, held)
    log.raise_epoch(ADA, reason="restored")

    assert isinstance(refused(log.writer.append(append)), LeaseLostError)
    assert log.renew([held]) == [held]
    [taken] = log.expire("reaper")
    assert (taken.job_id, taken.cause) == (held.job_id, "epoch-raised")
    assert log.row(held.job_id)["crashes"] == 0
    [newer] = claim(log)
    assert newer.token == Token(2, 2)


def test_a_process_of_the_old_epoch_follows_for_what_needs_no_lease(backend: Backend) -> None:
    old, other = backend.open(), backend.open()
    held = claimed(old)
    other.raise_epoch(ADA, reason="restored")

    with taking_turn(old.store), pytest.raises(EpochChangedError):
        old.store.append([an_append()], old.writer.generation, old.writer.seen)
    assert stored(old.writer.append(an_append())) == 4
    assert old.writer.seen.epoch == 2
    with pytest.raises(LeaseLostError):
        held.complete_units([("a", 1)])


def test_a_claim_of_the_old_epoch_follows(backend: Backend) -> None:
    old, other = backend.open(), backend.open()
    submit(old)
    other.raise_epoch(ADA, reason="restored")

    [held] = claim(old)

    assert held.token == Token(2, 1)


def test_the_epoch_never_goes_down(log: JobLog) -> None:
    log.raise_epoch(ADA, reason="restored")

    for epoch in (1, 2):
        with pytest.raises(ConflictError):
            log.store.raise_epoch(an_append(), epoch)

    assert (log.store.state().epoch, log.store.head()) == (2, 1)


@pytest.mark.parametrize("seen", [Seen(1, 3), Seen(2, 0)])
def test_a_store_that_is_behind_takes_no_append(log: JobLog, seen: Seen) -> None:
    for _ in range(2):
        log.writer.append(an_append())
    log.writer.seen = seen

    assert isinstance(refused(log.writer.append(an_append())), LogRewoundError)
    assert log.store.head() == 2


def test_a_store_that_is_behind_gives_no_claim(log: JobLog) -> None:
    job_id = submit(log)
    log.writer.seen = Seen(1, 9)

    with pytest.raises(LogRewoundError):
        claim(log)

    assert log.store.lease(job_id) is None


def test_a_rewound_log_goes_on_once_the_epoch_is_raised(log: JobLog) -> None:
    log.writer.append(an_append())
    log.writer.seen = Seen(4, 9)

    assert log.raise_epoch(ADA, reason="restored on purpose") == 5

    assert stored(log.writer.append(an_append())) == 3


def test_of_two_who_raise_the_epoch_at_once_one_does(log: JobLog) -> None:
    """The other one is told so; its event would have the same version."""
    appends = [an_append(LOG_STREAM) for _ in range(2)]

    assert log.store.raise_epoch(appends[0], 2) == 1
    with pytest.raises(ConflictError):
        log.store.raise_epoch(appends[1], 3)

    assert log.store.state().epoch == 2
    assert_whole(log.store)


def test_raising_the_epoch_waits_for_the_append_under_way(log: JobLog) -> None:
    """An append that has passed its checks lands before the epoch is raised, or not at all."""
    held = claimed(log)
    append = unit_append(log, held)
    beside = Beside(lambda: log.raise_epoch(ADA, reason="restored"))

    with armed("append.before_commit", beside):
        answer = log.writer.append(append)
    beside.result()

    lands = isinstance(answer, Stored)
    topics = [event.topic for event in whole_log(log.store)]
    assert ("joblog.job.unit-completed" in topics) is lands
    assert not lands or topics[-1] == "joblog.log.epoch-raised"
    assert_whole(log.store)
