"""Projection = fold(log) at every position, whatever happened (S13, STA-14)."""

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings

from joblog.domain import events as e
from joblog.projections import rebuild as rebuild_module
from joblog.projections.rebuild import fold_changes, rebuild
from joblog.projections.verify import row_differences, unit_differences
from tests.clocks import MovedClock
from tests.conformance.backends import Backend, MemoryBackend
from tests.conformance.builders import assert_whole, whole_log
from tests.projections.histories import ACTIONS, ADA, STEPS, History, Rows, applied, as_row, rows_of

Steps = list[tuple[str, int]]
START: Steps = [("submit", 0), ("submit", 5), ("submit", 1), ("claim", 2)]


@given(steps=STEPS)
def test_a_row_is_at_every_moment_what_the_log_up_to_then_says(steps: Steps) -> None:
    """And what the job itself is, by its own replay."""
    backend = MemoryBackend("memory://", MovedClock())
    with backend.open() as log:
        history = History(backend, log)
        rows: Rows = {}
        seen = 0
        for step in [*START, *steps]:
            history.do(*step)
            new = log.store.log(seen, 10_000)
            rows = applied(rows, fold_changes(new, log.mapper, log.store.now()))
            seen += len(new)

            assert rows == rows_of(log)
        assert rows == {job_id: as_row(log.job(job_id)) for job_id in history.jobs}

        everything = whole_log(log.store)
        for cut in range(len(everything) + 1):  # also in the middle of an append
            before = applied({}, fold_changes(everything[:cut], log.mapper, 0))
            assert applied(before, fold_changes(everything[cut:], log.mapper, 0)) == rows
        assert_whole(log.store)


@settings(
    max_examples=max(settings.default.max_examples // 5, 5),  # type: ignore[union-attr]
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS)
def test_a_rebuild_gives_the_same_rows(database: Backend, steps: Steps) -> None:
    """One database for all examples: each adds its jobs to those of before."""
    log = database.open()
    history = History(database, log)
    for step in [*START, *steps]:
        history.do(*step)
    live = rows_of(log)

    rebuild(log.store, log.mapper, "me")

    assert rows_of(log) == live
    assert list(row_differences(log.store, log.mapper)) == []
    for job_id in history.jobs:
        assert list(unit_differences(log.store, log.mapper, job_id)) == []
    log.control_queue("default", "resume", ADA)
    log.close()


@pytest.mark.parametrize("batch", [1, 2, 3, 7])
@settings(max_examples=10)
@given(steps=STEPS)
def test_batches_of_any_size_give_the_same_rows(batch: int, steps: Steps) -> None:
    backend = MemoryBackend("memory://", MovedClock())
    with backend.open() as log, pytest.MonkeyPatch.context() as patched:
        patched.setattr(rebuild_module, "BATCH", batch)
        patched.setattr(rebuild_module, "CATCH_UP", batch - 1)
        history = History(backend, log)
        for step in [*START, *steps]:
            history.do(*step)
        live = rows_of(log)

        rebuild(log.store, log.mapper, "me")

        assert rows_of(log) == live


def test_everything_can_happen_in_these_histories() -> None:
    """Else they would prove less than they say."""
    chance = Random(7)
    met: set[str] = set()
    for _ in range(200):
        backend = MemoryBackend("memory://", MovedClock())
        with backend.open() as log:
            history = History(backend, log)
            for step in [*START, *((chance.choice(ACTIONS), chance.randrange(12)) for _ in range(30))]:
                history.do(*step)
            met |= {event.topic for event in whole_log(log.store)}
            assert rows_of(log) == {job_id: as_row(log.job(job_id)) for job_id in history.jobs}

    assert {cls.TOPIC for cls in e.ALL} <= met
