"""Schema changes: up, down, checked, all of it or nothing, on both databases."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from joblog import JobLog, JobSpec
from joblog.domain.errors import SchemaMissingError, SchemaTooNewError, UnsafeStoreError
from joblog.eventstore import ddl, migrate
from joblog.eventstore.migrations import freeze
from joblog.eventstore.opening import open_store
from joblog.eventstore.schema import SCHEMA_VERSION

ROOT = Path(__file__).parent.parent.parent
VERSIONS = ROOT / "eventstore" / "migrations" / "versions"
POINTS = ["migrate.begin", "migrate.statement", "migrate.before_commit", "migrate.after_commit"]


def shape(url: str) -> dict[str, object]:
    """Tables with columns and indexes, and what reflection does not see."""
    engine = sa.create_engine(url)
    inspector = sa.inspect(engine)
    tables: dict[str, object] = {}
    for name in inspector.get_table_names():
        columns = [(c["name"], str(c["type"]), c["nullable"]) for c in inspector.get_columns(name)]
        indexes = sorted((i["name"], tuple(i["column_names"]), bool(i["unique"])) for i in inspector.get_indexes(name))
        tables[name] = (columns, indexes, inspector.get_pk_constraint(name)["constrained_columns"])
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            hidden = "SELECT type, name, sql FROM sqlite_master WHERE type IN ('trigger', 'index') ORDER BY name"
        else:
            hidden = (
                "SELECT 'function', proname, md5(prosrc) FROM pg_proc WHERE proname LIKE 'joblog%' "
                "UNION ALL SELECT 'trigger', tgname, tgenabled::text FROM pg_trigger WHERE NOT tgisinternal ORDER BY 2"
            )
        tables["hidden"] = [tuple(row) for row in connection.exec_driver_sql(hidden.replace("%", "%%"))]
    engine.dispose()
    return tables


def test_up_makes_what_the_code_expects_and_again_changes_nothing(database_url: str) -> None:
    assert migrate.upgrade(database_url) == SCHEMA_VERSION
    before = shape(database_url)

    assert migrate.check(database_url) == []
    migrate.upgrade(database_url)

    assert shape(database_url) == before


def test_a_schema_made_at_once_is_the_migrated_one(database_url: str) -> None:
    """An empty database gets its schema without alembic, so that a first submit is quick."""
    migrate.upgrade(database_url)
    migrated = shape(database_url)
    migrate.downgrade(database_url)
    _empty(database_url)

    open_store(database_url).close()

    assert shape(database_url) == migrated
    assert migrate.check(database_url) == []


def _empty(url: str) -> None:
    """What alembic leaves is gone too; an SQLite file anew, as one with foreign tables is not ours."""
    parsed = sa.make_url(url)
    if parsed.get_backend_name() == "sqlite":
        assert parsed.database is not None
        for file in Path(parsed.database).parent.glob(Path(parsed.database).name + "*"):
            file.unlink()
        return
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE IF EXISTS joblog_version")
    engine.dispose()


def test_down_leaves_nothing_of_ours(database_url: str) -> None:
    migrate.upgrade(database_url)

    migrate.downgrade(database_url)

    assert shape(database_url) == {"hidden": []}


def test_down_never_drops_a_log_with_events(database_url: str) -> None:
    with JobLog.open(database_url) as log:
        log.submit(JobSpec("kind"))

    with pytest.raises(UnsafeStoreError, match="has events"):
        migrate.downgrade(database_url)

    with JobLog.open(database_url) as log:
        assert log.store.head() == 1


@pytest.mark.parametrize("name", ["sqlite", "postgresql"])
def test_nobody_changes_the_schema_without_a_migration(name: str) -> None:
    """If this fails: a new revision, or before a release ``python -m joblog.eventstore.migrations.freeze``."""
    for direction, made in (("up", freeze.up(name)), ("down", freeze.down(name))):
        file = VERSIONS / f"{SCHEMA_VERSION:04d}_{name}_{direction}.sql"
        assert file.read_text(encoding="utf-8") == freeze.SEPARATOR.join(made) + "\n"


@pytest.mark.parametrize("point", POINTS)
def test_killed_anywhere_the_schema_is_the_old_one_or_the_new_one(database_url: str, point: str) -> None:
    script = (
        "import os, signal, sys\n"
        "from joblog.eventstore import failpoint, migrate\n"
        "failpoint.arm(sys.argv[2], lambda: os.kill(os.getpid(), signal.SIGKILL))\n"
        "migrate.upgrade(sys.argv[1])\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    died = subprocess.run([sys.executable, "-c", script, database_url, point], env=environment, check=False)
    assert died.returncode == -signal.SIGKILL

    left = shape(database_url)
    whole = point == "migrate.after_commit"
    assert ("events" in left) is whole

    assert migrate.upgrade(database_url) == SCHEMA_VERSION
    assert migrate.check(database_url) == []


def test_two_processes_migrate_at_once(database_url: str) -> None:
    script = "import sys\nfrom joblog.eventstore import migrate\nmigrate.upgrade(sys.argv[1])\n"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    both = [subprocess.Popen([sys.executable, "-c", script, database_url], env=environment) for _ in range(2)]

    assert [one.wait(timeout=60) for one in both] == [0, 0]
    assert migrate.check(database_url) == []


def test_newer_and_older_databases_are_refused_with_the_way_out(database_url: str) -> None:
    open_store(database_url).close()
    engine = sa.create_engine(database_url)
    for statement, error, way_out in [
        (f"UPDATE log_state SET min_code = {SCHEMA_VERSION + 1}", SchemaTooNewError, "upgrade"),
        (f"UPDATE log_state SET min_code = 0, schema_version = {SCHEMA_VERSION - 1}", SchemaMissingError, "migrate"),
    ]:
        with engine.begin() as connection:
            connection.exec_driver_sql(statement)
        with pytest.raises(error, match=way_out):
            open_store(database_url)
    engine.dispose()


def test_a_newer_schema_that_this_code_may_still_use_is_used(database_url: str) -> None:
    """Expand-only: one release back keeps working."""
    open_store(database_url).close()
    engine = sa.create_engine(database_url)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE log_state SET schema_version = {SCHEMA_VERSION + 1}")
    engine.dispose()

    with JobLog.open(database_url) as log:
        assert log.submit(JobSpec("kind")).created


def test_an_empty_database_is_not_touched_when_creating_is_off(database_url: str) -> None:
    with pytest.raises(SchemaMissingError, match="joblog migrate"):
        open_store(database_url, create=False)


def test_the_stamp_is_the_revision() -> None:
    assert f"'{SCHEMA_VERSION:04d}'" in ddl.STAMP[1]
