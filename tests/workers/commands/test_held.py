"""The commands of a holder through the public door: what each writes, and what a refusal leaves behind."""

from collections.abc import Callable
from typing import Any

import pytest

from joblog.domain import errors as err
from joblog.domain.retry import RetryPolicy
from joblog.workers.commands.held import Held
from joblog.workers.commands.log import JobLog
from tests.clocks import START
from tests.conformance.backends import Backend
from tests.conformance.builders import ADA, armed, claim, claimed, once
from tests.workers.commands.builders import HOUR, claim_again, fail_unit, status, topics, units

#: command -> (how to give it, what it writes)
COMMANDS: dict[str, tuple[Callable[[Held], int], list[str]]] = {
    "attempt_unit": (lambda held: held.attempt_unit("a"), ["unit-attempted"]),
    "complete_units": (
        lambda held: held.complete_units(units("a", "b")),
        ["unit-completed"] * 2 + ["checkpoint-advanced"],
    ),
    "complete_units (late)": (lambda held: held.complete_units(units("b"), advance=0), ["unit-completed"]),
    "skip_unit": (lambda held: held.skip_unit("a", code="bad-row", text="no"), ["unit-skipped", "checkpoint-advanced"]),
    "freeze_list": (lambda held: held.freeze_list("rows", count=2, digest="d"), ["list-frozen"]),
    "schedule_retry": (fail_unit, ["retry-scheduled"]),
    "release": (lambda held: held.release("yield"), ["lease-released"]),
    "park": (lambda held: held.park(reason="quota", text="none left"), ["paused"]),
    "fail": (lambda held: held.fail(reason="invalid-input", text="no such file"), ["failed"]),
    "complete": (lambda held: held.complete({"rows": 2}), ["completed"]),
}


def expired(log: JobLog, backend: Backend, _: Held) -> None:
    """The lease has run out; nobody has noticed yet (LEA-06)."""
    backend.clock.move(30)


def reclaimed(log: JobLog, backend: Backend, _: Held) -> None:
    backend.clock.move(30)
    log.expire("reaper")


def taken_over(log: JobLog, backend: Backend, held: Held) -> None:
    reclaimed(log, backend, held)
    claim_again(log, held.job_id, "other")


def cancelled(log: JobLog, backend: Backend, held: Held) -> None:
    reclaimed(log, backend, held)
    log.command("cancel", held.job_id, ADA)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_writes_its_events_in_one_append(log: JobLog, name: str) -> None:
    command, written = COMMANDS[name]
    held = claimed(log)

    answer = command(held)

    assert answer == (1 if name == "attempt_unit" else 3)
    assert topics(log, held.job_id) == ["submitted", "claimed", *written]
    assert held.job.version == 2 + len(written)


@pytest.mark.parametrize("lose", [expired, reclaimed, taken_over, cancelled])
def test_a_late_holder_is_refused_whatever_it_wants(
    log: JobLog, backend: Backend, lose: Callable[[JobLog, Backend, Held], None]
) -> None:
    """S6, LEA-11, STA-15: also when nobody else took the job, and when the job has ended."""
    held = claimed(log)
    held.complete_units([("z", None)])
    lose(log, backend, held)
    before = topics(log, held.job_id)

    for command, _ in COMMANDS.values():
        with pytest.raises(err.LeaseLostError):
            command(held)
        assert topics(log, held.job_id) == before
    assert log.store.count_units(held.job_id) == 1


def test_a_holder_is_done_once_it_gave_the_job_back(log: JobLog) -> None:
    for end in ("schedule_retry", "release", "park", "fail", "complete"):
        held = claimed(log)
        COMMANDS[end][0](held)
        before = topics(log, held.job_id)
        for command, _ in COMMANDS.values():
            with pytest.raises(err.LeaseLostError):
                command(held)
        assert topics(log, held.job_id) == before


def done_by_another(held: Held) -> None:
    held.complete_units([("a", 1)])


def attempts_spent(held: Held) -> None:
    for _ in range(2):
        held.attempt_unit("a")


def list_stored(held: Held) -> None:
    held.freeze_list("rows", count=2, digest="d")


def nothing(held: Held) -> None:
    """Need no preparation."""


Prepare = Callable[[Held], None]
REFUSALS: list[tuple[type[err.JobLogError], Prepare, Callable[[Held], Any]]] = [
    (err.UnitDoneError, done_by_another, lambda held: held.complete_units([("a", 1)])),
    (err.UnitDoneError, done_by_another, lambda held: held.complete_units([("b", 1), ("a", 1)])),
    (err.UnitConflictError, done_by_another, lambda held: held.complete_units([("a", 2)])),
    (err.UnitConflictError, done_by_another, lambda held: held.complete_units([("b", 1), ("a", 2)])),
    (err.CheckpointError, nothing, lambda held: held.complete_units([("a", 1)], advance=-1)),
    (err.CheckpointError, nothing, lambda held: held.complete_units([("a", 1)], advance=2)),
    (err.CheckpointError, nothing, lambda held: held.complete_units(units(*"abcd"))),
    (err.CheckpointError, list_stored, lambda held: held.freeze_list("rows", count=2, digest="other")),
    (err.ExhaustedError, attempts_spent, lambda held: held.attempt_unit("a")),
    (err.ExhaustedError, attempts_spent, fail_unit),
    (err.IncompleteError, nothing, lambda held: held.complete()),
    (err.IncompleteError, done_by_another, lambda held: held.complete()),
    (err.TooLargeError, nothing, lambda held: held.complete_units([("a", "x" * 1024 * 1024)])),
    (err.TooLargeError, nothing, lambda held: held.complete_units([("a", 1)], cursor="x" * 16 * 1024)),
    (err.TooLargeError, nothing, lambda held: held.skip_unit("a", code="bad", text="", cursor="x" * 16 * 1024)),
    (err.TooLargeError, nothing, lambda held: held.complete_units([], tallies=dict.fromkeys(map(str, range(101)), 0))),
    (err.TooLargeError, nothing, lambda held: held.attempt_unit("x" * 201)),
    (err.UnstorableError, nothing, lambda held: held.complete_units([("a", float("nan"))])),
    (err.UnstorableError, nothing, lambda held: held.complete_units([("a", 1)], cursor=(1, 2))),
    (err.UnstorableError, nothing, lambda held: held.complete_units([("a", 1)], tallies={"rows": 2**63})),
    (err.UnstorableError, nothing, lambda held: held.complete_units([("a\0", 1)])),
    (err.UnstorableError, nothing, lambda held: held.skip_unit("a", code="bad", text="", cursor={"at": b""})),
    (err.UnstorableError, nothing, lambda held: held.skip_unit("a\0", code="bad", text="")),
    (err.UnstorableError, nothing, lambda held: held.attempt_unit("a\0")),
    (err.UnstorableError, nothing, lambda held: held.freeze_list("rows\0", count=1, digest="d")),
    (err.UnstorableError, nothing, lambda held: held.fail(reason="a\0", text="")),
    (err.UnstorableError, nothing, lambda held: held.park(reason="a\0", text="")),
    (err.UnstorableError, nothing, lambda held: held.release("a\0")),
    (err.UnstorableError, nothing, lambda held: held.schedule_retry("a\0", category="network", text="")),
    (err.UnstorableError, nothing, lambda held: held.schedule_retry("a", category="\ud800", text="")),
    (err.InvalidFieldError, nothing, lambda held: held.complete_units([("a", 1), ("b", 1), ("a", 1)])),
    (err.InvalidFieldError, nothing, lambda held: held.complete_units([("", 1)])),
    (err.InvalidFieldError, nothing, lambda held: held.complete_units([], tallies={"rows": 1.5})),
    (err.InvalidFieldError, nothing, lambda held: held.skip_unit("a", code="", text="")),
]


@pytest.mark.parametrize("number", range(len(REFUSALS)), ids=lambda n: f"{n}-{REFUSALS[n][0].code}")
def test_a_refusal_leaves_no_trace_and_the_holder_goes_on(log: JobLog, number: int) -> None:
    """Whatever was decided in vain is dropped: it would leave a hole in the stream."""
    error, prepare, command = REFUSALS[number]
    held = claimed(log, total=3, retry=RetryPolicy(retries=1))
    prepare(held)
    before = topics(log, held.job_id)

    with pytest.raises(error) as refused:
        command(held)

    assert type(refused.value) is error
    assert topics(log, held.job_id) == before
    assert held.job.version == len(before)
    assert held.complete_units([("good", 1)]) == len(before) + 1
    assert topics(log, held.job_id) == [*before, "unit-completed", "checkpoint-advanced"]


def test_what_the_store_could_not_take_is_given_again(log: JobLog) -> None:
    held = claimed(log)
    held.complete_units([("a", 1)])

    with armed("append.begin", once(err.StoreFullError("disk full"))), pytest.raises(err.StoreFullError):
        held.complete_units([("b", 1)])

    assert held.complete_units([("b", 1)]) == 5
    assert held.complete() == 7


def test_an_unknown_outcome_is_cleared_up_by_the_same_unit_again(log: JobLog, backend: Backend) -> None:
    """S2, UNI-11: the unit is looked up by its key, never done twice."""
    held = claimed(log)

    def lose() -> None:
        raise backend.lost()

    def away() -> None:
        raise err.StoreUnavailableError("still away")

    with armed("append.after_commit", lose), armed("append.diagnosing", away), pytest.raises(err.JobLogError) as doubt:
        held.complete_units([("a", 1)])
    assert type(doubt.value) is err.UnknownOutcomeError

    with pytest.raises(err.UnitDoneError):
        held.complete_units([("a", 1)])
    assert (held.job.done, held.job.sequence) == (1, 1)
    assert held.complete() == 5


def test_texts_of_failures_are_always_storable(log: JobLog) -> None:
    """REC-09: bounded, escaped, never refused."""
    text = "a\0b\ud800" + "x" * 1000
    for command in (
        fail_unit,
        lambda held: held.schedule_retry("a", category="network", text=text),
        lambda held: held.park(reason="quota", text=text),
        lambda held: held.fail(reason="invalid-input", text=text),
        lambda held: held.skip_unit("a", code="bad", text=text),
    ):
        held = claimed(log)
        command(held)
    said = log.job(held.job_id).errors[-1]["text"]
    assert said.startswith("a\\u0000b\\ud800xxx")
    assert len(said) <= 520


def test_each_way_of_giving_back_leaves_the_job_where_it_says(log: JobLog) -> None:
    """LEA-07: no waiting for a lease to end."""
    ends = {
        "release": ("queued", ""),
        "schedule_retry": ("waiting", "network"),
        "park": ("paused", "quota"),
        "fail": ("failed", "invalid-input"),
        "complete": ("completed", ""),
    }
    for name, expected in ends.items():
        held = claimed(log)
        COMMANDS[name][0](held)
        assert status(log, held.job_id) == expected
        assert log.store.lease(held.job_id) is None
    assert log.store.expired(10) == []


def test_a_wait_is_not_claimed_before_its_instant(log: JobLog, backend: Backend) -> None:
    held = claimed(log)
    held.release("wait", due_at=START + HOUR)
    backend.clock.move(3600, micros=-1)
    assert (log.promote()[0], claim(log)) == (0, [])

    backend.clock.move(micros=1)
    assert claim_again(log, held.job_id).attempt == 2


def test_a_park_may_name_the_instant_before_which_a_resume_does_not_run_it(log: JobLog, backend: Backend) -> None:
    held = claimed(log)
    held.park(reason="quota", text="asked for 2 days", not_before=START + 48 * HOUR, unit="a")
    log.command("resume", held.job_id, ADA)

    assert (log.job(held.job_id).due_at, log.job(held.job_id).errors[-1]["unit"]) == (START + 48 * HOUR, "a")
    assert claim(log) == []


def test_a_holder_is_known_by_what_it_holds(log: JobLog) -> None:
    held = claimed(log)

    assert repr(held) == f"<Held import {held.job_id} under Token(epoch=1, grant=1)>"
