"""A unit completes at most once, a job only with its evidence; receipts and exclusive keys stand once (S8)."""

from threading import Barrier
from typing import Any

import pytest

from joblog.domain.errors import (
    ExclusiveKeyHeldError,
    IncompleteError,
    JobLogError,
    RequestConflictError,
    UnitConflictError,
    UnitDoneError,
)
from joblog.domain.job import Actor
from joblog.eventstore.append import Append, Fence, Grant, Receipt, Stored
from joblog.workers.commands.held import Held
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import Side, claim, claimed, refused, stored, submit, unit_append


def test_a_unit_is_stored_with_its_evidence(log: JobLog) -> None:
    held = claimed(log)

    stored(log.writer.append(unit_append(log, held, evidence={"sha256": "x"})))

    states = log.store.unit_states(held.job_id)
    assert states == {"a": log.store.read(held.job_id)[2].state}


def test_the_same_unit_with_the_same_evidence_is_done(log: JobLog) -> None:
    held = claimed(log)
    log.writer.append(unit_append(log, held, evidence={"x": 1, "y": [2]}))

    error = refused(log.writer.append(unit_append(log, held, evidence={"y": [2], "x": 1})))

    assert isinstance(error, UnitDoneError)
    assert error.unit == "a"


def test_the_same_unit_with_other_evidence_is_a_conflict(log: JobLog) -> None:
    held = claimed(log)
    log.writer.append(unit_append(log, held, evidence=1))

    assert isinstance(refused(log.writer.append(unit_append(log, held, evidence=2))), UnitConflictError)
    assert b'"evidence":1' in log.store.unit_states(held.job_id)["a"]


def test_one_unit_twice_in_one_append_is_refused(log: JobLog) -> None:
    held = claimed(log)

    with pytest.raises(JobLogError):
        held.complete_units([("a", 1), ("a", 1)])

    assert (log.store.count_units(held.job_id), log.store.head()) == (0, 2)


def test_a_refused_unit_leaves_the_others_of_its_append_out(log: JobLog) -> None:
    held = claimed(log)
    held.complete_units([("a", 1)])

    with pytest.raises(UnitDoneError):
        held.complete_units([("b", 1), ("a", 1)])

    assert list(log.store.unit_states(held.job_id)) == ["a"]
    assert log.row(held.job_id)["done"] == 1


def test_one_unit_key_serves_many_jobs(log: JobLog) -> None:
    for held in (claimed(log), claimed(log)):
        stored(log.writer.append(unit_append(log, held)))


def test_of_rivals_for_one_unit_one_completes_it(backend: Backend) -> None:
    """Even where the fence lets both through: the key decides."""
    logs = [backend.open() for _ in range(4)]
    held = claimed(logs[0])
    appends = [unit_append(log, held, evidence=n) for n, log in enumerate(logs)]
    start = Barrier(4)

    def race(log: JobLog, append: Append) -> Any:
        start.wait()
        return log.writer.append(append)

    pairs = zip(logs, appends, strict=True)
    answers = [side.result() for side in [Side(lambda p=pair: race(*p)) for pair in pairs]]  # type: ignore[misc]

    assert sorted(type(answer).__name__ for answer in answers) == ["Stored"] + ["UnitConflictError"] * 3
    assert logs[0].store.count_units(held.job_id) == 1


def test_units_are_found_by_key_and_by_prefix(log: JobLog) -> None:
    held = claimed(log)
    names = ["a", "a/1", "a/2", "a%", "a_", "b", "é", "🙂/1"]
    held.complete_units([(name, name) for name in names])
    states = log.store.unit_states

    assert set(states(held.job_id)) == set(names)
    assert set(states(held.job_id, ["a/1", "b", "none"])) == {"a/1", "b"}
    assert set(states(held.job_id, prefix="a/")) == {"a/1", "a/2"}
    assert set(states(held.job_id, prefix="a_")) == {"a_"}
    assert set(states(held.job_id, prefix="🙂")) == {"🙂/1"}
    assert set(states(held.job_id, prefix="")) == set(names)
    assert states(held.job_id, []) == {}


def completion(log: JobLog, held: Held, evidence: int) -> Append:
    job, now = log.job(held.job_id), log.now()
    before = job.version
    job.complete(held.token, now=now)
    append = log.job_append(job.id, before, job.collect_events(), log.ids.next(), now)
    append.fence, append.evidence = Fence(held.token, end=True), evidence
    return append


@pytest.mark.parametrize("count", [1, 3])
def test_a_job_completes_only_with_as_many_results_as_it_counted(log: JobLog, count: int) -> None:
    held = claimed(log)
    held.complete_units([("a", 1), ("b", 1)])

    assert isinstance(refused(log.writer.append(completion(log, held, count))), IncompleteError)
    assert log.row(held.job_id)["status"] == "running"
    assert log.store.lease(held.job_id) is not None

    stored(log.writer.append(completion(log, held, 2)))
    assert log.row(held.job_id)["status"] == "completed"


def test_evidence_counts_with_the_units_of_the_same_append(log: JobLog) -> None:
    held = claimed(log)
    append = unit_append(log, held)
    append.evidence = 1

    stored(log.writer.append(append))


def test_a_receipt_is_kept_with_its_command(log: JobLog) -> None:
    job_id = submit(log)

    log.command("pause", job_id, Actor("ada", request_id="request-0000000000001"))

    action, target, actor, answer = log.store.receipt("request-0000000000001") or ("", "", "", "")
    assert (action, target, actor) == ("pause", str(job_id), "ada")
    assert '"paused"' in answer
    assert log.store.receipt("request-unknown") is None


def test_a_request_id_stands_once(log: JobLog) -> None:
    first, second = submit(log), submit(log)
    answers = []
    for job_id in (first, second):
        job = log.job(job_id)
        job.pause(Actor("ada", "r" * 20), now=log.now())
        append = log.job_append(job_id, 1, job.collect_events(), log.ids.next(), log.now())
        append.receipt = Receipt("r" * 20, "pause", str(job_id), "ada", "{}")
        answers.append(log.writer.append(append))

    assert isinstance(answers[0], Stored)
    assert isinstance(answers[1], RequestConflictError)
    assert log.row(second)["status"] == "queued"


def grant_append(log: JobLog, job_id: Any, exclusive_key: str) -> Append:
    job = log.job(job_id)
    before, now = job.version, log.now()
    token = job.claim("w", epoch=1, lease=log.leases.lease, now=now)
    append = log.job_append(job_id, before, job.collect_events(), log.ids.next(), now)
    append.grant = Grant(token, "w", 30_000_000, job.queue, job.gate, exclusive_key)
    return append


def test_an_exclusive_key_is_leased_once(log: JobLog) -> None:
    jobs = [submit(log, exclusive_key="one") for _ in range(2)]

    stored(log.writer.append(grant_append(log, jobs[0], "7:default/one")))
    error = refused(log.writer.append(grant_append(log, jobs[1], "7:default/one")))

    assert isinstance(error, ExclusiveKeyHeldError)
    assert log.row(jobs[1])["status"] == "queued"


def test_an_exclusive_key_is_leased_once_within_a_batch(log: JobLog) -> None:
    jobs = [submit(log, exclusive_key="one") for _ in range(2)]

    answers = log.writer.append_many([grant_append(log, job, "7:default/one") for job in jobs])

    assert [type(answer) for answer in answers] == [Stored, ExclusiveKeyHeldError]


def test_jobs_without_an_exclusive_key_do_not_exclude_each_other(log: JobLog) -> None:
    for _ in range(3):
        submit(log)

    assert len(claim(log)) == 3


def test_an_exclusive_key_is_free_again_after_its_holder(log: JobLog) -> None:
    jobs = [submit(log, exclusive_key="one") for _ in range(2)]
    [held] = claim(log)
    held.release("yield", due_at=log.now() + log.leases.lease)
    other = next(job for job in jobs if job != held.job_id)

    stored(log.writer.append(grant_append(log, other, "7:default/one")))
