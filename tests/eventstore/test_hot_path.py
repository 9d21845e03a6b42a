"""A plain unit commit takes a shorter way through the stores; it must leave what the long way leaves."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from joblog import JobLog, JobSpec, LeasePolicy
from joblog.domain.errors import JobLogError, StoreClosedError
from joblog.domain.lease import Token
from joblog.eventstore import failpoint, sqlite_checkpoint
from joblog.eventstore.append import HOT, Append, Fence
from joblog.projections.verify import row_differences
from tests.conformance.builders import an_append, armed, claim, stored


@pytest.fixture
def log(database_url: str) -> Iterator[JobLog]:
    with JobLog.open(database_url) as log:
        yield log


def hot(**changes: Any) -> Append:
    row = {**dict.fromkeys(HOT, 0), "cursor": None, **changes.pop("row", {})}
    return an_append(row=row, fence=Fence(Token(1, 1)), **changes)


def test_only_what_sets_the_counters_to_zero_is_hot() -> None:
    assert hot().is_hot
    assert not hot(row={"crashes": 1}).is_hot
    assert not hot(row={"unit_attempt": 2}).is_hot
    assert not hot(row={"status": "queued"}).is_hot


def test_a_checkpoint_that_stays_keeps_the_crashes_in_the_row(log: JobLog) -> None:
    """Only a checkpoint that moves forgets them; the row must say what the events say."""
    log.submit(JobSpec("kind", {}, key="crashed"))
    (dead,) = log.claim("dead")
    lease = log.store.lease(dead.job_id)
    assert lease is not None
    log.reclaim(lease, "reaper")
    (held,) = log.claim("alive")

    held.complete_units([("a", 1)], cursor={"at": 1}, advance=0)

    assert log.row(held.job_id)["crashes"] == log.job(held.job_id).crashes == 1
    assert list(row_differences(log.store, log.mapper)) == []
    held.complete_units([("b", 1)], cursor={"at": 2}, advance=2)
    assert log.row(held.job_id)["crashes"] == 0
    assert list(row_differences(log.store, log.mapper)) == []


def test_a_batch_of_hot_and_other_appends_lands_whole(log: JobLog) -> None:
    log.submit_many(JobSpec("kind", {}, key=f"{n}") for n in range(3))
    held = claim(log, limit=3)

    answers = log.complete_many(
        [
            (held[0], [("a", 1)], {"cursor": {"row": 1}}),  # hot
            (held[1], [("a", 1)], {"advance": 0}),  # no checkpoint
            (held[2], [("a", 1), ("b", 2)], {"cursor": "x", "tallies": {"rows": 2}}),  # hot
        ]
    )

    assert not [answer for answer in answers if isinstance(answer, JobLogError)]
    assert log.writer.split == 0
    assert list(row_differences(log.store, log.mapper)) == []


def test_a_lease_that_is_old_by_a_third_is_renewed_by_a_hot_commit(database_url: str) -> None:
    with JobLog.open(database_url, leases=LeasePolicy(timedelta(seconds=900), timedelta(seconds=100))) as log:
        log.submit(JobSpec("kind", {}, key="long"))
        (held,) = claim(log)
        held._renew_at = 0.0
        before = log.store.lease(held.job_id)

        held.complete_units([("a", 1)], cursor=1)

        after = log.store.lease(held.job_id)
        assert before is not None
        assert after is not None
        assert after.lease_until > before.lease_until
        assert held._renew_at > log.clock.monotonic()


# -- tasks of an event loop ----------------------------------------------------------------------------------------------


def test_what_the_tasks_of_one_tick_bring_travels_together(log: JobLog) -> None:
    async def bring() -> list[Any]:
        loop = asyncio.get_running_loop()
        return await asyncio.gather(*(log.writer.append_soon([an_append()], loop)[0] for _ in range(50)))

    before = log.writer.batches
    positions = [stored(answer) for answer in asyncio.run(bring())]

    assert sorted(positions) == list(range(1, 51))
    assert log.writer.batches == before + 1


def test_an_append_of_a_task_is_refused_if_the_log_is_closed_in_the_same_tick(log: JobLog) -> None:
    async def bring() -> Any:
        future = log.writer.append_soon([an_append()], asyncio.get_running_loop())[0]
        log.writer.close()
        return await future

    assert isinstance(asyncio.run(bring()), StoreClosedError)
    assert log.store.head() == 0


# -- checkpoints of SQLite's WAL -----------------------------------------------------------------------------------------


def test_the_wal_is_brought_back_once_for_what_was_written_not_with_every_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file never shrinks: by its size alone every later look would checkpoint again."""
    monkeypatch.setattr(sqlite_checkpoint, "WAL_PAGES", 200)
    passed: list[bool] = []
    with JobLog.open(f"sqlite:///{tmp_path / 'log.db'}") as log, armed("checkpoint.after", lambda: passed.append(True)):
        for _ in range(1000):
            log.writer.append(an_append())

        size = (tmp_path / "log.db-wal").stat().st_size

    assert 5 <= len(passed) <= 1000 * 5 / 200
    assert size < 3 * 200 * 4096


def test_what_others_write_is_brought_back_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_checkpoint, "WAL_PAGES", 200)
    url = f"sqlite:///{tmp_path / 'log.db'}"
    passed: list[bool] = []
    with JobLog.open(url) as log, JobLog.open(url) as other, armed("checkpoint.before", lambda: passed.append(True)):
        monkeypatch.setattr(other.store.checkpoints, "run_if_long", lambda _: None)  # type: ignore[attr-defined]
        for n in range(1000):
            (log if n % 10 == 0 else other).writer.append(an_append())

    assert passed


def test_claims_and_rebuilds_bring_the_wal_back_without_any_append(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_checkpoint, "WAL_PAGES", 20)
    passed: list[bool] = []
    with JobLog.open(f"sqlite:///{tmp_path / 'log.db'}") as log, armed("checkpoint.after", lambda: passed.append(True)):
        for n in range(100):
            log.store.set_gate(f"gate-{n}", 1, 0)

    assert passed
    assert not failpoint._armed
