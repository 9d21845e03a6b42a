"""Every view is the fold of the log at every prefix, told against the jobs' own replay and the job table (S13)."""

import itertools
from collections import Counter
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings

from joblog.domain import events as e
from joblog.domain.status import CLAIMABLE
from joblog.eventstore.clock import micros, moment
from joblog.projections import queries
from joblog.projections.runner import Runner
from joblog.projections.view_rebuild import drop_old, rebuild
from joblog.projections.views import VIEWS
from joblog.workers.commands.log import JobLog
from tests.clocks import MovedClock
from tests.conformance.backends import Backend, MemoryBackend
from tests.conformance.builders import ADA, claim, claimed, submit, whole_log
from tests.projections.histories import STEPS, History, rows_of
from tests.projections.viewing import ALL, all_held, differences, runner

Steps = list[tuple[str, int]]
START: Steps = [("submit", 0), ("submit", 5), ("submit", 1), ("claim", 2)]
_FEW = settings(
    max_examples=max(settings.default.max_examples // 10, 5),  # type: ignore[union-attr]
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def check_against_the_job_table(log: JobLog) -> None:
    """What the views say of the jobs is what the job table says, which is folded by other code."""
    rows = rows_of(log)
    rows = {job: row for job, row in rows.items() if row}
    by = ("status", "kind", "queue", "tenant")
    assert queries.counters(log.store, by=by) == dict(Counter(tuple(row[name] for name in by) for row in rows.values()))
    for job, row in rows.items():
        now = queries.job_as_of(log.store, job, log.store.head())
        assert now is not None
        assert {name: now[name] for name in ("status", "worker", "attempt")} == {
            name: row[name] for name in ("status", "worker", "attempt")
        }
    due = {job: (row["due_at"], row["status"]) for job, row in rows.items() if row["status"] in CLAIMABLE}
    listed = queries.schedule(log.store, limit=1000)
    assert {row["job_id"]: (row["due_at"], row["status"]) for row in listed} == due
    assert [row["due_at"] for row in listed] == sorted(row["due_at"] for row in listed)


def check_every_version(log: JobLog) -> None:
    """As of each position, a job stands as its own replay up to there says."""
    reached: dict[UUID, int] = {}
    jobs = {event.stream_id for event in whole_log(log.store) if event.topic == e.Submitted.TOPIC}
    for event in whole_log(log.store):
        if event.stream_id not in jobs:
            continue
        reached[event.stream_id] = event.version
        job = log.job(event.stream_id, version=event.version)
        then = queries.job_as_of(log.store, event.stream_id, event.position)
        assert then is not None
        worker = job.lease.worker if job.lease else ""
        assert (then["status"], then["worker"], then["attempt"]) == (job.status.value, worker, job.attempt)
        assert len(queries.jobs_as_of(log.store, event.position, limit=1000)) == len(reached)
    for job_id in jobs:
        life = queries.job_life(log.store, job_id)
        assert [row["to_position"] for row in life] == [*(row["from_position"] for row in life[1:]), None]
        watched = [(row["status"], row["worker"], row["attempt"]) for row in life]
        assert all(before != after for before, after in itertools.pairwise(watched))


@given(steps=STEPS)
def test_views_are_at_every_prefix_what_the_jobs_say(steps: Steps) -> None:
    backend = MemoryBackend("memory://", MovedClock())
    with backend.open() as log:
        history, follower = History(backend, log), runner(log)
        for step in [*START, *steps]:
            history.do(*step)
            follower.run()
            check_against_the_job_table(log)
        check_every_version(log)
        failing = {e.RetryScheduled, e.Failed, e.UnitSkipped, e.LeaseExpired}
        topics = Counter(event.topic for event in whole_log(log.store))
        failures = queries.failures(log.store, limit=1000)
        parked = sum(
            log.mapper.decode(*event[1:]).reason != "operator"
            for event in whole_log(log.store)
            if event.topic == e.Paused.TOPIC
        )
        assert sum(row["count"] for row in failures) == sum(topics[cls.TOPIC] for cls in failing) + parked
        for row in failures:
            jobs = queries.jobs_of_failure(log.store, row["fingerprint"])
            assert row["jobs"] == len(jobs)
            assert sum(job["count"] for job in jobs) == row["count"]


@_FEW
@given(steps=STEPS)
def test_rows_do_not_depend_on_how_the_log_was_cut_into_batches(steps: Steps) -> None:
    """Nor on what is still remembered: a follower that starts anew before each batch writes the same."""
    backend = MemoryBackend("memory://", MovedClock())
    with backend.open() as log:
        history = History(backend, log)
        for step in [*START, *steps]:
            history.do(*step)
        runner(log).run()
        whole = all_held(log)
        for batch in (1, 5):
            other = MemoryBackend("memory://", backend.clock)
            mine, theirs = other.store.tables, backend.store.tables
            mine.log, mine.streams = theirs.log, theirs.streams
            with other.open() as copy:
                while Runner(copy.store, copy.mapper, "me", batch=batch).step().again:
                    pass
                assert all_held(copy) == whole


@_FEW
@given(steps=STEPS)
def test_the_same_rows_on_every_database(database: Backend, steps: Steps) -> None:
    """One database for all examples: each adds its jobs to those of before."""
    log = database.open()
    history, follower = History(database, log), runner(log, batch=11)
    for step in [*START, *steps]:
        history.do(*step)
        follower.step()
    follower.run()

    check_against_the_job_table(log)
    whole = all_held(log)
    view = ALL[len(steps) % len(ALL)]
    assert differences(log, view) == []
    rebuild(log.store, log.mapper, view, "me")
    assert all_held(log) == whole
    drop_old(log.store, view)
    assert all_held(log) == whole
    log.control_queue("default", "resume", ADA)
    follower.resign()
    log.close()


def test_as_of_a_time(backend: Backend) -> None:
    log = backend.open()
    submitted = log.now()
    job_id = submit(log)
    backend.clock.move(10)
    held = claim(log)[0]
    backend.clock.move(10)
    held.complete()
    runner(log).run()

    def at(seconds: float) -> str | None:
        found = queries.job_as_of(log.store, job_id, submitted + timedelta(seconds=seconds))
        return None if found is None else str(found["status"])

    assert [at(-1), at(0), at(9.9), at(10), at(19), at(20), at(99)] == [
        None, "queued", "queued", "running", "running", "completed", "completed",
    ]  # fmt: skip
    running = queries.jobs_as_of(log.store, submitted + timedelta(seconds=15), status="running")
    assert [(row["job_id"], row["to_at"]) for row in running] == [(job_id, micros(submitted) + 20_000_000)]
    assert queries.jobs_as_of(log.store, submitted + timedelta(seconds=5), status="running") == []


def test_pages_of_all_jobs_as_of_a_position(log: JobLog) -> None:
    jobs = [submit(log) for _ in range(7)]
    at = log.store.head()
    claim(log)
    runner(log).run()

    pages: list[list[Any]] = []
    below = None
    while page := queries.jobs_as_of(log.store, at, limit=3, below=below, status="queued"):
        pages.append([row["job_id"] for row in page])
        below = page[-1]["from_position"]

    assert [len(page) for page in pages] == [3, 3, 1]
    assert [job for page in pages for job in page] == jobs[::-1]


def test_counters_by_any_of_their_names(log: JobLog) -> None:
    claimed(log, tenant="b").complete()
    submit(log, tenant="a")
    submit(log, tenant="b", queue="bulk")
    runner(log).run()

    assert queries.counters(log.store) == {("queued",): 2, ("completed",): 1}
    assert queries.counters(log.store, by=()) == {(): 3}
    assert queries.counters(log.store, by=("tenant", "status"), queue="default") == {
        ("a", "queued"): 1,
        ("b", "completed"): 1,
    }
    with pytest.raises(Exception, match="is not counted"):
        queries.counters(log.store, by=("owner",))


def test_the_schedule_between_two_instants(backend: Backend) -> None:
    log = backend.open()
    start = log.now()
    for seconds in (30, 10, 20):
        submit(log, key=f"{seconds}", due_at=start + timedelta(seconds=seconds))
    runner(log).run()

    def due(**bounds: Any) -> list[float]:
        rows = queries.schedule(log.store, **bounds)
        return [(moment(row["due_at"]) - start).total_seconds() for row in rows]

    assert due() == [10, 20, 30]
    assert due(before=start + timedelta(seconds=20)) == [10]
    assert due(after=start + timedelta(seconds=20), limit=1) == [20]


def test_the_same_fault_of_the_same_kind_is_one_fingerprint(log: JobLog) -> None:
    for number in range(3):
        held = claimed(log)
        held.schedule_retry("u", category="network", text=f"host 10.0.0.{number} refused 'x{number}'")
    claimed(log).schedule_retry("u", category="error", text="ValueError: a [0123456789ab]")
    claimed(log).schedule_retry("u", category="error", text="ValueError: b [0123456789ab]")
    claimed(log).schedule_retry("u", category="error", text="ValueError: b [0123456789ac]")
    runner(log).run()

    found = queries.failures(log.store)
    assert sorted(row["count"] for row in found) == [1, 2, 3]
    assert sorted(row["jobs"] for row in found) == [1, 2, 3]
    assert found[0]["last_position"] == log.store.head()


def test_every_view_has_tables_of_its_own() -> None:
    names = [table.name for view in VIEWS.values() for table in view.tables]
    assert len(names) == len(set(names))
