"""Real workers are killed at every point of a unit's life, and others go on; nothing is done twice that may not be."""

import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from uuid import UUID

import pytest

from joblog.eventstore import sql_reads
from joblog.eventstore.failpoint import WORKER_POINTS
from joblog.workers.commands import log as log_module
from tests import postgres_server as servers
from tests.faults import operations, outside, rig, worker_rig
from tests.faults.campaign import start_shard
from tests.faults.fork_rig import Plan
from tests.faults.oracle import JobTrace
from tests.faults.rig import Report
from tests.faults.worker_rig import WorkerRig

pytestmark = pytest.mark.faults


def test_every_point_of_the_workers_is_killed_at() -> None:
    assert set(WORKER_POINTS) <= set(worker_rig.POINTS) == set(WorkerRig.points)


def test_every_kind_of_job_that_leads_somewhere_is_there() -> None:
    kinds = {operations.jobs.get(kind).kind for kind in (*operations.ALL, *operations.KINDS.values())}

    assert kinds >= set(operations.ALL)


@pytest.mark.parametrize("make", [worker_rig.PostgresWorkerRig, worker_rig.SignalRig])
def test_the_other_rigs_leave_out_only_what_can_not_happen_there(make: type[WorkerRig]) -> None:
    left_out = set(worker_rig.POINTS) - set(make.points)

    assert left_out <= set(worker_rig.TAKES_OVER)


def a_trace(*units: str, grants: int = 1) -> JobTrace:
    trace = JobTrace(UUID(int=1), lambda *_: None, 0)
    trace.units = dict.fromkeys(units, (1, b""))
    trace.token = (1, grants)
    return trace


@pytest.mark.parametrize(
    ("rows", "exact", "good"),
    [
        (range(5), True, True),
        (range(10), True, False),  # another batch than those recorded
        (range(10), False, True),  # in another database its record may be on its way
        (range(15), False, False),
        ((0, 0, 1, 2, 3, 4), True, False),  # a row twice
        (range(1, 6), True, False),
        ((), True, False),
    ],
)
def test_rows_count_exactly_once(rows: Sequence[int], exact: bool, good: bool) -> None:
    found = outside.check_rows(a_trace("rows:0"), list(rows), exact=exact)

    assert (found == []) is good


@pytest.mark.parametrize(("times", "grants", "good"), [(1, 1, True), (2, 1, False), (2, 2, True), (0, 1, False)])
def test_a_body_runs_at_least_once_and_at_most_once_a_grant(times: int, grants: int, good: bool) -> None:
    effects = Counter({(UUID(int=1), "step:s0"): times})

    assert (outside.check_bodies(a_trace("step:s0", grants=grants), effects) == []) is good


def test_what_a_job_has_written_since_is_looked_at_and_all_of_it_in_the_end(tmp_path: Path) -> None:
    target, url = tmp_path / "target.db", f"sqlite:///{tmp_path / 'log.db'}"
    for file in (target, tmp_path / "log.db"):
        with closing(sqlite3.connect(file, isolation_level=None)) as connection:
            connection.execute(outside.TARGET)
    job = a_trace("rows:0")
    job.status, job.row = "completed", {"kind": "elsewhere"}
    beside = outside.Outside(url, target)

    def write(statement: str) -> list[str]:
        with closing(sqlite3.connect(target, isolation_level=None)) as connection:
            connection.executemany(statement, [(job.stream.hex, n) for n in range(5)])
        return beside.check([job], Counter())

    assert beside.check([job], Counter()) == []  # nothing that would draw attention to it
    assert beside.check([job], Counter(), full=True) != []
    assert beside.check([job], Counter(), {job.stream}) != []
    assert write("INSERT INTO target VALUES (?, ?)") == []
    assert beside.check([job], Counter(), full=True) == []
    assert write("INSERT INTO target VALUES (?, ?)") != []
    assert write("DELETE FROM target WHERE job = ? AND n >= ?") == []
    assert beside.check([job], Counter(), full=True) != []


def test_kills_of_workers_leave_a_good_log_and_no_work_twice() -> None:
    report = start_shard("worker-kills", seed=1, count=30)

    assert report.violations == []
    assert report.fired.total() >= 30
    assert report.counts["acked"] > 100


@pytest.mark.postgres
def test_kills_of_workers_on_postgresql() -> None:
    servers.share()
    report = start_shard("postgres-worker-kills", seed=1, count=8)

    assert report.violations == []
    assert report.fired.total() >= 8


def test_workers_that_are_told_to_stop_leave_nothing_behind() -> None:
    report = start_shard("worker-signals", seed=1, count=20)

    assert report.violations == []
    assert report.fired.total() >= 20


def test_kills_that_nobody_has_told_of_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof on trial: a child that dies without saying where."""

    def silently(plan: Plan, _: Callable[[], None]) -> Callable[[], None]:
        return rig.die(plan.hit, lambda: None)

    monkeypatch.setattr(WorkerRig, "harm", staticmethod(silently))
    for module, name in ((sql_reads, "Statements"), (log_module, "SNAPSHOT_EVERY")):
        monkeypatch.setattr(module, name, vars(module)[name])  # the rig changes them for its children
    report = worker_rig.run(Report("worker-kills", 1), kills=3)

    assert any("have said at which point" in line for line in report.violations)


@pytest.mark.parametrize("name", ["sqlite-herd", pytest.param("postgres-herd", marks=pytest.mark.postgres)])
def test_jobs_that_are_due_at_once_are_shared_out_without_a_storm(name: str) -> None:
    servers.share()
    report = start_shard(name, seed=1, count=600)

    assert report.violations == []
    assert report.fired["due-at-once"] == 600
