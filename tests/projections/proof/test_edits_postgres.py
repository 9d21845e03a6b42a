"""A thousand edits on PostgreSQL, as by somebody who owns the database: each is found by a kept head, at its position."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from joblog.projections.proof.check import check_log
from joblog.projections.proof.tree import build
from tests.conformance.backends import Backend
from tests.projections.proof import test_check as on_sqlite
from tests.projections.proof.logs import grow, grow_and_sign

pytestmark = pytest.mark.postgres

END = on_sqlite.END
EDITS = 1000
WORDS = (("?", "%s"), ("randomblob(16)", "gen_random_uuid()"), ("x'7b7d'", "'\\x7b7d'::bytea"))


class Driver:
    """A cursor that takes the statements of the edits as SQLite speaks them."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    def execute(self, sql: str, bound: tuple[Any, ...] = ()) -> Any:
        for ours, theirs in WORDS:
            sql = sql.replace(ours, theirs)
        return self._cursor.execute(sql, bound)


def change(driver: Driver, chance: random.Random) -> int:
    at = chance.randint(1, END)
    what = chance.choice(
        [
            "state = state || '\\x20'::bytea",
            "state = ''::bytea",
            "state = overlay(state placing '\\x78'::bytea from 5)",
            "topic = 'test.happened '",
            "topic = 'forged', state = x'7b7d'",
            "version = version + 10",
            "version = -1",
            "stream_id = randomblob(16)",
        ]
    )
    driver.execute(f"UPDATE events SET {what} WHERE position = ?", (at,))
    return at


RANDOM_EDITS: tuple[Callable[[Any, random.Random], int], ...] = (
    change, change, *(edit for edit in on_sqlite.RANDOM_EDITS if edit is not on_sqlite.change),
)  # fmt: skip


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
def test_a_thousand_edits_are_all_found_by_position(database: Backend) -> None:
    """In transactions of the connection that reads, each rolled back."""
    log = database.open()
    kept = grow_and_sign(log, *on_sqlite.HEADS)
    grow(log, END - on_sqlite.HEADS[-1], size=2)
    build(log.store)
    chance = random.Random(20300101)
    store: Any = log.store
    driver = Driver(store._own("reader").open())
    for number in range(EDITS):
        edit = RANDOM_EDITS[number % len(RANDOM_EDITS)]
        driver.execute("BEGIN")
        driver.execute("ALTER TABLE events DISABLE TRIGGER USER")
        first = edit(driver, chance)

        report = check_log(store, kept)

        assert report.findings, (number, edit.__name__, first)
        assert on_sqlite.first_of(report) == first, (number, edit.__name__, report.findings)
        driver.execute("ROLLBACK")
    assert check_log(store, kept).findings == []
