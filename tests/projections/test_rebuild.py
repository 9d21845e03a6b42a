"""The job table rebuilt from the log: the same rows at every position, while workers run, killed anywhere."""

from __future__ import annotations

import threading
from typing import Any
from uuid import uuid4

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from joblog import Actor, JobSpec
from joblog.domain import events as e
from joblog.domain.errors import JobLogError, RebuildRunningError
from joblog.domain.events import CODE_VOCABULARY
from joblog.eventstore import failpoint
from joblog.eventstore.append import Append, EventRow
from joblog.eventstore.memory_store import MemoryStore
from joblog.eventstore.schema import HINTS
from joblog.projections import job_table
from joblog.projections.rebuild import Progress, fold_changes, rebuild
from joblog.projections.verify import row_differences, unit_differences
from joblog.workers.commands.log import JobLog
from tests.clocks import MovedClock
from tests.conformance.backends import Backend


class Killed(BaseException):
    """The process is gone."""


def die() -> None:
    raise Killed


def rows(log: JobLog) -> dict[Any, dict[str, Any]]:
    """Every job's row, without the hints of the claim index."""
    found = log.store.find_jobs(limit=10_000)
    return {row["id"]: {name: value for name, value in row.items() if name not in HINTS} for row in found}


def some_history(log: JobLog, jobs: int = 6) -> None:
    """Jobs in many states."""
    log.submit_many(JobSpec("kind", {"n": n}, key=f"k{n}", exclusive_key="x" if n % 2 else "") for n in range(jobs))
    for held in log.claim("w", limit=jobs):
        held.complete_units([("a", 1), ("b", None)], cursor={"row": 2}, tallies={"rows": 2})
    for number, held in enumerate(log.claim("w", limit=jobs)):
        if number % 2:
            held.schedule_retry("c", category="network", text="away")
        else:
            held.complete({"n": number})


def do(log: JobLog, step: tuple[str, int]) -> None:
    """One step of a random history; what is refused changes nothing."""
    action, number = step
    actor = Actor("ada")
    jobs = log.store.find_jobs(limit=100)
    if action == "submit" or not jobs:
        log.submit(JobSpec("kind", {"n": number}, key=f"k{number}"))
        return
    job_id = jobs[number % len(jobs)]["id"]
    try:
        if action in {"pause", "resume", "cancel", "retry"}:
            log.command(action, job_id, actor)
        elif action == "work":
            for held in log.claim("w", limit=2):
                held.attempt_unit("u")
                held.complete_units([(f"u{held.job.done}", number)], cursor=number)
                held.release("yield")
        elif action == "skip":
            for held in log.claim("w"):
                held.skip_unit("bad", code="bad-row", text="line 3")
                held.complete()
        elif action == "fail":
            for held in log.claim("w"):
                held.fail(reason="bad-input", text="no")
        elif action == "later":
            for held in log.claim("w"):
                held.schedule_retry("u", category="network", text="away")
    except JobLogError:
        pass


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["submit", "work", "skip", "fail", "later", "pause", "resume", "cancel", "retry"]),
        st.integers(0, 5),
    ),
    min_size=3,
    max_size=15,
)


@given(steps=STEPS)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_rebuilt_rows_equal_live_rows_at_every_position(steps: list[tuple[str, int]]) -> None:
    """S13."""
    with JobLog(MemoryStore(clock=MovedClock())) as log:
        for step in [("submit", 0), ("submit", 1), *steps]:
            do(log, step)
            live = rows(log)

            rebuild(log.store, log.mapper, "me")

            assert rows(log) == live
            assert list(row_differences(log.store, log.mapper)) == []


def test_what_a_prefix_and_the_rest_say_is_what_all_say(log: JobLog) -> None:
    """Changes are absolute: they need no row to begin with."""
    some_history(log)
    for job_id in rows(log):
        happened = log.mapper.decode_all(job_id, log.store.read(job_id))
        for cut in range(1, len(happened) + 1):
            pieces = job_table.changes(happened[:cut]) | job_table.changes(happened[cut:])
            assert pieces == job_table.changes(happened)


def test_every_event_class_has_its_changes() -> None:
    assert set(job_table._CHANGES) == set(e.ALL)


def test_a_rebuild_gives_the_same_rows_on_every_store(log: JobLog) -> None:
    some_history(log)
    live = rows(log)
    seen: list[Progress] = []

    position = rebuild(log.store, log.mapper, "me", report=seen.append)

    assert position == log.store.head()
    assert seen[-1].position == position
    assert log.store.state().generation == 1
    assert rows(log) == live


def test_the_writer_follows_the_generation(backend: Backend) -> None:
    """Also one in another process, in the middle of its work."""
    log, other = backend.open(), backend.open()
    some_history(log)
    job_id = log.submit(JobSpec("kind", key="late")).job_id
    held = next(one for one in other.claim("w", limit=10) if one.job_id == job_id)

    rebuild(log.store, log.mapper, "me")
    held.complete_units([("a", 1)], cursor=1)
    held.complete()

    assert other.row(job_id)["status"] == log.row(job_id)["status"] == "completed"
    assert list(row_differences(log.store, log.mapper)) == []


@pytest.mark.parametrize("point", ["rebuild.begun", "rebuild.batch", "rebuild.before_switch", "rebuild.after_switch"])
def test_killed_anywhere_it_goes_on_and_readers_see_whole_tables(log: JobLog, point: str) -> None:
    """S14."""
    some_history(log)
    live = rows(log)
    failpoint.arm(point, die)
    with pytest.raises(Killed):
        rebuild(log.store, log.mapper, "me")
    failpoint.disarm()

    assert rows(log) == live
    log.submit(JobSpec("kind", key="meanwhile"))
    rebuild(log.store, log.mapper, "me")

    assert len(rows(log)) == len(live) + 1
    assert list(row_differences(log.store, log.mapper)) == []


def test_a_second_rebuild_at_once_is_refused_until_the_first_is_dead(backend: Backend) -> None:
    log = backend.open()
    some_history(log)
    failpoint.arm("rebuild.batch", die)
    with pytest.raises(Killed):
        rebuild(log.store, log.mapper, "first")
    failpoint.disarm()

    with pytest.raises(RebuildRunningError, match="first"):
        rebuild(log.store, log.mapper, "second")

    backend.clock.move(31)
    assert rebuild(log.store, log.mapper, "second") == log.store.head()


def test_workers_and_readers_are_undisturbed(backend: Backend) -> None:
    """S14: a reader sees all jobs at any moment, whichever generation answers."""
    log = backend.open()
    log.submit_many(JobSpec("kind", {"n": n}, key=f"k{n}") for n in range(60))
    done, short, faults = threading.Event(), [], []

    def read() -> None:
        while not done.is_set():
            count = len(log.store.find_jobs(limit=1000))
            if count < 60:
                short.append(count)

    def work() -> None:
        try:
            while held := log.claim("w", limit=5):
                for one in held:
                    one.complete_units([("a", 1)], cursor=1)
                    one.complete()
        except JobLogError as error:
            faults.append(error)

    threads = [threading.Thread(target=read), threading.Thread(target=work)]
    for thread in threads:
        thread.start()
    for _ in range(4):
        rebuild(log.store, log.mapper, "me")
    threads[1].join()
    done.set()
    threads[0].join()

    assert (short, faults) == ([], [])
    assert {row["status"] for row in rows(log).values()} == {"completed"}
    assert list(row_differences(log.store, log.mapper)) == []


def test_the_old_generation_is_dropped_later(log: JobLog) -> None:
    some_history(log)
    live = rows(log)
    rebuild(log.store, log.mapper, "me")

    log.store.rebuild_drop_old()

    assert rows(log) == live


def test_an_event_of_newer_code_parks_the_job(log: JobLog) -> None:
    """S18: kept, served, never folded by guess, and claimed by nobody older."""
    job_id = log.submit(JobSpec("kind", key="k")).job_id
    other = log.submit(JobSpec("kind", key="other")).job_id
    strange = EventRow(2, "joblog.job.teleported", orjson.dumps({"event_id": uuid4().hex}))
    answer = log.writer.append(Append(job_id, 1, [strange], orjson.loads(strange.state)["event_id"]))
    assert not isinstance(answer, JobLogError)

    rebuild(log.store, log.mapper, "me")

    row = log.row(job_id)
    assert (row["version"], row["vocabulary"], row["ready"]) == (2, CODE_VOCABULARY + 1, 0)
    assert [held.job_id for held in log.claim("w", limit=5)] == [other]
    assert log.store.read(job_id)[-1] == strange


def test_verify_names_what_differs(backend: Backend) -> None:
    log = backend.open()
    some_history(log)
    job_id = next(iter(rows(log)))
    backend.spoil(job_id, done=99)

    [difference] = row_differences(log.store, log.mapper)

    assert (difference.job_id, difference.what, difference.stored) == (job_id, "done", 99)
    assert list(unit_differences(log.store, log.mapper, job_id)) == []


def test_fold_changes_says_which_rows_are_new(log: JobLog) -> None:
    some_history(log, jobs=2)
    everything = log.store.log(0, 1000)

    changes = fold_changes(everything, log.mapper, 0)
    rest = fold_changes(everything[2:], log.mapper, 0)

    assert [change.is_new for change in changes] == [True, True]
    assert not any(change.is_new for change in rest)
