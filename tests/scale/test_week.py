"""A week of churn on a clock of its own: what is looked for, claimed and promoted costs on the last day what it did on the
first, what holds only the living stays as small, and the views are what the log says, before and after a rebuild.

The costs are steps of SQLite's machine.  PostgreSQL plans by its statistics, and these by its vacuum, which comes when it
likes: what it runs beside a million rows is the subject of ``test_claim_plan.py``.
"""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from joblog import Actor, JobLog
from joblog.eventstore.schema import metadata
from joblog.projections import verify
from joblog.projections.runner import Runner
from joblog.projections.view_rebuild import drop_old, rebuild
from joblog.projections.view_verify import verify as verify_view
from joblog.projections.views import VIEWS
from joblog.workers.commands.held import Held
from tests import postgres_server as servers
from tests.clocks import DatabaseClock, MovedClock, stop_clock
from tests.conformance.builders import submit
from tests.scale import plan

DAYS: Final = 7
HOURS: Final = 8  #: of a day, in which something happens
DUE: Final = 24  #: jobs that wait for the probes of a day
#: Tables that hold what has happened, and grow with it; all others hold what lives, or is the same for ever.
HISTORY: Final = frozenset(
    ("events", "jobs_0", "unit_results", "receipts", "snapshots", "job_versions", "recovery_rows", "failed_jobs")
)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[JobLog, MovedClock]]:
    if request.param == "sqlite":
        clock = MovedClock()
        with JobLog.open(f"sqlite:///{tmp_path / 'log.db'}", clock=clock) as log:
            yield log, clock
        return
    request.getfixturevalue("postgres_server")
    with servers.fresh_database() as url:
        JobLog.open(url).close()  # makes the function that tells the time
        stop_clock(url)
        clock = DatabaseClock(url)
        with JobLog.open(url, clock=clock) as log:
            yield log, clock


def test_a_week_of_churn_leaves_nothing_dearer_and_nothing_lying_about(opened: tuple[JobLog, MovedClock]) -> None:
    log, clock = opened
    runner = Runner(log.store, log.mapper, "week")
    work: list[dict[str, Any]] = []
    alive: list[dict[str, int]] = []

    for day in range(DAYS):
        for hour in range(HOURS):
            churn(log, clock, f"{day}.{hour}")
        work.append(probed(log, clock, day))
        runner.run()
        alive.append(living(log))
        clock.move((24 - HOURS) * 3600)

    assert alive[-1] == alive[1]  # by the first day not everything has happened yet
    if log.store.dialect == "sqlite":
        grown = {name: plan._grown(last, work[0][name]) for name, last in work[-1].items()}
        assert grown == {name: [] for name in plan.COMMANDS}
    digests = [verified(log, name) for name in VIEWS]
    for view in VIEWS.values():
        rebuild(log.store, log.mapper, view, "week")
        drop_old(log.store, view)
    assert [verified(log, name) for name in VIEWS] == digests
    assert list(verify.row_differences(log.store, log.mapper, units=True, passed=lambda *_: None)) == []


def churn(log: JobLog, clock: MovedClock, name: str) -> None:
    """An hour: jobs that are tried again and complete, one that waits its turn, one that is cancelled, one that fails until
    an operator has it tried again.
    """
    clock.move(1800)
    later = submit(log, f"{name} later", due_at=log.now() + timedelta(minutes=20))
    submit(log, f"{name} first", exclusive_key="one at a time")
    submit(log, f"{name} second", exclusive_key="one at a time")
    cancelled = submit(log, f"{name} cancelled")
    log.command("cancel", cancelled, Actor("operator", f"cancel-{name}".ljust(20, ".")))
    for held in log.claim("w", limit=10):
        held.complete_units([("a", {"n": 1})], cursor=1)
        held.schedule_retry("b", category="network", text="reset", next_attempt_at=log.now() + timedelta(minutes=5))
    clock.move(1800)
    for held in due(log):
        held.complete_units([("b", {"n": 2})], cursor=2)
        held.fail(reason="bad", text="no such row") if held.job_id == later else held.complete()
    log.command("retry", later, Actor("operator", f"retry-{name}".ljust(20, ".")))
    for held in due(log):
        held.complete()


def probed(log: JobLog, clock: MovedClock, day: int) -> dict[str, Any]:
    """What the commands of workers cost beside the same jobs each day, which are done afterwards."""
    for n in range(DUE):
        submit(log, f"{day} due {n}")
        submit(log, f"{day} soon {n}", due_at=log.now() + timedelta(minutes=1))
    clock.move(120)
    seen = {name: command(log) for name, command in plan.COMMANDS.items()}
    for held in due(log):
        held.complete()
    return seen


def due(log: JobLog) -> Iterator[Held]:
    """Whatever can be done now, one after the other: the end of one lets another run."""
    while True:
        moved, _ = log.promote()
        held = log.claim("w", limit=100)
        if not moved and not held:
            return
        yield from held


def living(log: JobLog) -> dict[str, int]:
    """How many rows there are of what does not grow with what has happened."""
    with log.store.reading() as connection:  # type: ignore[attr-defined]
        counts = {name: f"SELECT count(*) FROM {name}" for name in metadata.tables if name not in HISTORY}
        return {name: connection.exec_driver_sql(sql).scalar() for name, sql in counts.items()}


def verified(log: JobLog, name: str) -> str:
    found = verify_view(log.store, log.mapper, VIEWS[name])
    assert found.differences == 0, name
    return found.stored_digest
