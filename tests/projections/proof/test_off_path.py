"""Tree, heads, consumers and views cost an append nothing: it runs the same statements with them as without."""

from typing import Any

from joblog.eventstore.postgres_functions import all_functions
from joblog.eventstore.schema import JOB_COLUMNS
from joblog.projections.feed.consumers import Consumer
from joblog.projections.view_rebuild import rebuild
from joblog.projections.views import VIEWS
from joblog.workers.commands.held import Held
from tests.clocks import MovedClock
from tests.conformance.backends import SqliteBackend
from tests.conformance.builders import claimed
from tests.projections.proof.logs import grow_and_sign
from tests.projections.viewing import ALL, runner

OFF_PATH = {"tree_tiles", "tree_heads", "consumers", "projections", "view_state"} | {
    table.name
    for view in ALL
    for table in view.tables
    if table.name not in JOB_COLUMNS  # a job row counts its failures too
}


def statements(held: Held, unit: str) -> list[str]:
    """What one unit commit runs, without its values."""
    store: Any = held._log.store
    seen: list[str] = []
    driver = store.lane("append").pinned.driver
    driver.set_trace_callback(seen.append)
    held.complete_units([(unit, 1)], cursor=1)
    driver.set_trace_callback(None)
    return [sql.split("(")[0].split(" SET ")[0] for sql in seen]


def test_an_append_runs_no_statement_more(sqlite_url: str) -> None:
    backend = SqliteBackend(sqlite_url, MovedClock())
    log = backend.open()
    held = claimed(log)
    held.complete_units([("warm", 1)], cursor=1)
    before = statements(held, "a")

    grow_and_sign(log, 300)
    consumer = Consumer.open(log.store, "audit")
    consumer.read()
    consumer.commit()
    runner(log).run()
    rebuild(log.store, log.mapper, VIEWS["recovery"], "me")

    after = statements(held, "b")
    assert after == before
    assert after[0] == "BEGIN IMMEDIATE"
    assert after[-1] == "COMMIT"
    backend.close()


def test_the_function_that_appends_knows_none_of_it() -> None:
    for sql in all_functions():
        assert not any(name in sql for name in OFF_PATH)
