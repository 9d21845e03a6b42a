"""A claim, a worker's look at the queue and the promoter have one plan, and bounded work, whatever the backlog.

``bench/scale.py plans`` does the same with the full sizes: 1,000,000 rows queued, or due in the future.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests import postgres_server as servers
from tests.scale import plan
from tests.scale.backlog import BACKLOGS

#: Enough that a plan which walks the backlog is found out, by its steps and by the planner's own choice.
LARGEST = 20_000

NewDatabase = Callable[[], AbstractContextManager[str]]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def new_database(request: pytest.FixtureRequest, tmp_path: Path) -> NewDatabase:
    """Makes one empty database after another."""
    if request.param == "postgres":
        request.getfixturevalue("postgres_server")
        return servers.fresh_database
    numbers = iter(range(100))

    @contextmanager
    def on_sqlite() -> Iterator[str]:
        yield f"sqlite:///{tmp_path / f'{next(numbers)}.db'}"

    return on_sqlite


def test_one_plan_and_bounded_work_whatever_the_backlog(new_database: NewDatabase) -> None:
    found: plan.Found = {}
    for backlog, (rows, _) in BACKLOGS.items():
        with new_database() as url:
            found |= plan.examine(url, backlog, min(rows, LARGEST))

    assert plan.faults(found) == []


def test_the_probe_finds_a_plan_that_walks_the_backlog(sqlite_url: str) -> None:
    """The same statement with an index gone: more than one plan, a scan, and work that grows."""
    small = plan.examine(sqlite_url, "none", 0)
    small |= plan.examine(sqlite_url.replace(".db", "-2.db"), "few queued", 500)
    found = small | plan.examine(sqlite_url.replace(".db", "-3.db"), "many queued", 2000)
    seen = found["many queued", "outlook", plan.STAGES[0]]
    seen.note(next(iter(seen.plans)), "SCAN jobs_0")
    seen.work["steps"] *= 1000

    faults = plan.faults(found)

    assert [fault.split(":")[0] for fault in faults] == ["outlook", *[f"outlook, many queued, {plan.STAGES[0]}"] * 2]
