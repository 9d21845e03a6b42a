"""A snapshot bounds replay and is never the truth."""

import copy
from typing import Any

import orjson

from joblog.domain.events import CODE_VOCABULARY
from joblog.domain.job import Job, fold
from joblog.domain.snapshot import JobSnapshot
from tests.domain.builders import NOW, a_claimed_job, lives, schedule, state, through_json, units


def snapshot_through_json(job: Job) -> JobSnapshot:
    taken = JobSnapshot.take(job)
    again = object.__new__(JobSnapshot)
    vars(again).update(vars(taken), state=orjson.loads(orjson.dumps(vars(taken)["state"])))
    return again


def test_snapshot_and_tail_give_the_job_at_every_version() -> None:
    """S15."""
    for live in lives():
        happened = [through_json(event) for event in live.pending_events]
        for version in range(1, len(happened) + 1):
            taken = snapshot_through_json(_at(happened, version))
            assert state(_fold([taken, *happened[version:]])) == state(live)


def _at(happened: list[Any], version: int) -> Job:
    return _fold(happened[:version])


def _fold(happened: list[Any]) -> Job:
    job = fold(None, happened)
    assert job is not None
    return job


def test_a_snapshot_names_the_vocabulary_of_the_code_that_took_it() -> None:
    """S18."""
    job, _ = a_claimed_job()
    taken: Any = JobSnapshot.take(job)

    assert (taken.vocabulary, taken.originator_version, taken.timestamp) == (CODE_VOCABULARY, 2, NOW)


def test_a_snapshot_does_not_change_with_its_job() -> None:
    """It is written later, in another thread."""
    job, token = a_claimed_job()
    job.freeze_list(token, "rows", count=1, digest="d", now=NOW)
    schedule(job, token)
    job.attempt_unit(token := job.claim("w", epoch=1, lease=NOW - NOW, now=NOW), "b", now=NOW)
    taken: Any = JobSnapshot.take(job)
    before = copy.deepcopy(taken.state)

    job.freeze_list(token, "more", count=1, digest="d", now=NOW)
    job.attempt_unit(token, "a", now=NOW)
    job.complete_units(token, units("b"), now=NOW, tallies={"rows": 1})
    job.skip_unit(token, "a", code="bad", text="bad", now=NOW)

    assert taken.state == before


def test_a_snapshot_can_be_loaded_more_than_once() -> None:
    job, token = a_claimed_job()
    schedule(job, token)
    taken = snapshot_through_json(job)
    one, other = taken.mutate(None), taken.mutate(None)
    schedule(one, one.claim("w", epoch=1, lease=NOW - NOW, now=NOW))

    assert state(other) == state(job) != state(one)
