"""Schema changes where others are: an application's tables, its own alembic, newer code, a log that is in use."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier

import pytest
import sqlalchemy as sa

from joblog.domain.errors import InvalidFieldError, SchemaTooNewError, UnsafeStoreError
from joblog.domain.spec import JobSpec
from joblog.eventstore import failpoint, migrate
from joblog.eventstore.opening import open_store
from joblog.eventstore.schema import SCHEMA_VERSION
from joblog.workers.commands.log import JobLog
from tests.conformance.builders import Side, once
from tests.postgres_server import fresh_database

ROOT = Path(__file__).parents[2]
NEWER = SCHEMA_VERSION + 1
DEFINITIONS = {
    "sqlite": ("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL", "PRAGMA application_id"),
    "postgresql": (
        "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
        (
            "SELECT p.proname, pg_get_functiondef(p.oid) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace "
            "WHERE n.nspname = 'public'"
        ),
        "SELECT tgname, pg_get_triggerdef(oid), tgenabled::text FROM pg_trigger WHERE NOT tgisinternal",
        (
            "SELECT c.relname, c.relkind::text, c.reloptions::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = 'public'"
        ),
        (
            "SELECT table_name, column_name, data_type, is_nullable, collation_name, identity_generation, column_default "
            "FROM information_schema.columns WHERE table_schema = 'public'"
        ),
        (
            "SELECT attrelid::regclass::text, attname, attstorage::text FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid "
            "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public' AND attnum > 0"
        ),
        (
            "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint "
            "WHERE connamespace = 'public'::regnamespace"
        ),
    ),
}


@contextmanager
def connected(url: str) -> Iterator[sa.Connection]:
    engine = sa.create_engine(url)
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def run(url: str, *statements: str) -> None:
    with connected(url) as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def definitions(url: str) -> set[str]:
    """Every object of the database as the database itself defines it, spaces aside."""
    with connected(url) as connection:
        rows = [row for sql in DEFINITIONS[connection.dialect.name] for row in connection.exec_driver_sql(sql)]
    return {re.sub(r"\s+", " ", " ".join(map(str, row))).replace("( ", "(").replace(" )", ")").strip() for row in rows}


@pytest.fixture
def other_url(database_url: str, tmp_path: Path) -> Iterator[str]:
    """A second database of the same kind."""
    if database_url.startswith("sqlite"):
        yield f"sqlite:///{tmp_path / 'other.db'}"
    else:
        with fresh_database() as url:
            yield url


def test_both_ways_to_a_schema_define_everything_alike(database_url: str, other_url: str) -> None:
    """Functions, triggers, partial indexes, collations, storage and the mark of the file."""
    migrate.upgrade(database_url)
    open_store(other_url).close()

    migrated, made = definitions(database_url), definitions(other_url)

    assert migrated - made == set()
    assert made - migrated == set()
    assert len(made) > 30


def test_down_and_up_again_gives_the_same(database_url: str) -> None:
    open_store(database_url).close()
    before = definitions(database_url)

    migrate.downgrade(database_url)
    with JobLog.open(database_url) as log:
        assert log.submit(JobSpec("import")).created

    assert definitions(database_url) == before


def test_an_application_with_an_alembic_of_its_own_shares_the_database(database_url: str) -> None:
    """Its revision is not ours, and ours not its."""
    if database_url.startswith("sqlite"):  # a file is the log's first
        open_store(database_url).close()
    run(
        database_url,
        "CREATE TABLE orders (id INTEGER PRIMARY KEY)",
        "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)",
        "INSERT INTO alembic_version VALUES ('5f3a9c')",
    )

    assert migrate.upgrade(database_url) == SCHEMA_VERSION
    assert migrate.check(database_url) == []
    with JobLog.open(database_url) as log:
        assert log.store.head() == 0
    migrate.downgrade(database_url)

    with connected(database_url) as connection:
        assert connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar() == "5f3a9c"
        assert set(sa.inspect(connection).get_table_names()) == {"orders", "alembic_version"}


@pytest.mark.parametrize("way", ["upgrade", "open"])
@pytest.mark.parametrize("table", ["events", "outbox", "jobs_0"])
def test_nobody_elses_table_becomes_ours(database_url: str, way: str, table: str) -> None:
    """An application's `events` would get our triggers, and be insert-only from then on."""
    run(database_url, f"CREATE TABLE {table} (id INTEGER PRIMARY KEY)", f"INSERT INTO {table} VALUES (1)")
    before = definitions(database_url)

    with pytest.raises(UnsafeStoreError, match="something else"):
        migrate.upgrade(database_url) if way == "upgrade" else open_store(database_url)

    assert definitions(database_url) == before
    run(database_url, f"DELETE FROM {table}")


def test_what_differs_is_named(database_url: str) -> None:
    open_store(database_url).close()
    run(database_url, "DROP INDEX leases_until", "CREATE TABLE orders (id INTEGER PRIMARY KEY)")

    [difference] = migrate.check(database_url)

    assert "add_index" in difference
    assert "leases_until" in difference


def test_an_empty_database_differs_in_everything(database_url: str) -> None:
    found = migrate.check(database_url)

    assert found[-1] == f"revision None, not {SCHEMA_VERSION:04d}"
    assert len(found) > 10


def test_a_newer_schema_that_this_code_may_use_is_left_as_it_is(database_url: str) -> None:
    """Else still older code would be let in."""
    open_store(database_url).close()
    run(
        database_url,
        f"UPDATE log_state SET schema_version = {NEWER}",
        f"UPDATE joblog_version SET version_num = '{NEWER:04d}'",
    )

    assert migrate.upgrade(database_url) == NEWER
    with connected(database_url) as connection:
        assert connection.exec_driver_sql("SELECT schema_version FROM log_state").scalar() == NEWER
    with pytest.raises(SchemaTooNewError, match="the joblog that made it"):
        migrate.downgrade(database_url)


@pytest.mark.parametrize("change", [migrate.upgrade, migrate.downgrade])
def test_a_schema_for_newer_code_only_is_not_touched(database_url: str, change: Callable[[str], object]) -> None:
    open_store(database_url).close()
    run(database_url, f"UPDATE log_state SET schema_version = {NEWER}, min_code = {NEWER}")

    with pytest.raises(SchemaTooNewError, match="upgrade"):
        change(database_url)


def test_jobs_that_wait_in_the_outbox_are_not_dropped(database_url: str) -> None:
    """Somebody's transaction has committed them."""
    with JobLog.open(database_url) as log, connected(database_url) as connection:
        log.submit_in(connection, JobSpec("import"))

    with pytest.raises(UnsafeStoreError, match="jobs in its outbox"):
        migrate.downgrade(database_url)
    with JobLog.open(database_url) as log:
        assert log.drain_outbox() == 1


def test_a_log_in_use_can_be_looked_at_and_brought_up(database_url: str) -> None:
    """It is where it should be: nobody notices."""
    with JobLog.open(database_url) as log:
        log.submit(JobSpec("import"))
        before = definitions(database_url)

        assert migrate.upgrade(database_url) == SCHEMA_VERSION
        assert migrate.check(database_url) == []

        assert definitions(database_url) == before
        assert log.submit(JobSpec("import")).created


def test_many_at_once_make_it_once(database_url: str) -> None:
    """Some open it, some migrate it."""
    start = Barrier(6)

    def make(way: int) -> None:
        start.wait()
        if way % 2:
            migrate.upgrade(database_url)
        else:
            open_store(database_url).close()

    for side in [Side(lambda way=way: make(way)) for way in range(6)]:  # type: ignore[misc]
        side.result()

    assert migrate.check(database_url) == []
    with connected(database_url) as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM log_state").scalar() == 1
        assert connection.exec_driver_sql("SELECT count(*) FROM joblog_version").scalar() == 1


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_a_database_in_memory_is_no_log(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(InvalidFieldError, match="no durable log"):
        migrate.upgrade(url)
    assert list(tmp_path.iterdir()) == []


class Fault(Exception):  # noqa: N818 - raised where anything may go wrong
    pass


@pytest.mark.parametrize("point", ["migrate.begin", "migrate.statement", "migrate.before_commit"])
@pytest.mark.parametrize("change", ["up", "down"])
def test_a_fault_anywhere_leaves_the_old_schema_whole(database_url: str, point: str, change: str) -> None:
    if change == "down":
        migrate.upgrade(database_url)
    before = definitions(database_url)

    failpoint.arm(point, once(Fault()))
    with pytest.raises(Fault):
        migrate.upgrade(database_url) if change == "up" else migrate.downgrade(database_url)
    failpoint.disarm()

    assert definitions(database_url) == before
    migrate.upgrade(database_url) if change == "up" else migrate.downgrade(database_url)
    assert migrate.check(database_url) == [] or change == "down"


KILL = """
import os, signal, sys
from joblog.eventstore import failpoint, migrate
left = [int(sys.argv[2])]
def die():
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
failpoint.arm("migrate.statement", die)
migrate.upgrade(sys.argv[1])
"""


@pytest.mark.faults
@pytest.mark.parametrize("statement", [2, 9, 20, 34])
def test_killed_after_any_statement_the_old_schema_is_whole(database_url: str, statement: int) -> None:
    before = definitions(database_url)
    command = [sys.executable, "-c", KILL, database_url, str(statement)]
    died = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT / "src")}, check=False, timeout=60)
    assert died.returncode == -signal.SIGKILL

    assert definitions(database_url) - before <= {"0"}

    migrate.upgrade(database_url)
    assert migrate.check(database_url) == []
