"""Rows arrive in the table as they stand in the source, once each, or are answered with their reason."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from joblog.domain.errors import InputError, InvalidFieldError
from joblog.workers.operations.errors import TargetRefusedError
from joblog.workers.operations.plan import Plan
from joblog.workers.operations.rows import Row
from joblog.workers.operations.sources import FileSource
from joblog.workers.operations.target import Target
from joblog.workers.operations.target_table import TargetSpec, ensure_table
from tests.workers.operations.source_files import planned, write

ODD_NAMES = ("a b", "100%", "x(y)", 'quo"te', "a:b", "select", "é", "[z]", "p.q")


@pytest.fixture
def engine(database_url: str) -> Iterator[sa.Engine]:
    made = sa.create_engine(database_url.replace("postgresql://", "postgresql+psycopg://"))
    yield made
    made.dispose()


def some_rows(*values: Mapping[str, Any]) -> list[Row]:
    return [Row(number, number + 1, dict(each)) for number, each in enumerate(values, 1)]


def prepared(engine: sa.Engine, source_columns: Sequence[str], /, *, is_fixed: bool = True, **spec: Any) -> Target:
    with engine.begin() as connection:
        return Target.prepare(connection, TargetSpec("t", **spec), source_columns, source="s", is_fixed=is_fixed)


def put(engine: sa.Engine, target: Target, rows: Sequence[Row]) -> list[tuple[int, str, str]]:
    """Fit and write; give number, code and column of each refused row."""
    fitted = target.fit(rows)
    with engine.begin() as connection:
        refused = target.write(connection, fitted)
    return [(row.number, str(row.problem.code), row.problem.column) for row in fitted.refused + refused if row.problem]


def stored(engine: sa.Engine, order: str = "") -> list[tuple[Any, ...]]:
    with engine.connect() as connection:
        table = sa.Table("t", sa.MetaData(), autoload_with=connection)
        return [tuple(row) for row in connection.execute(sa.select(table).order_by(*([order] if order else [])))]


def ddl(engine: sa.Engine, *statements: str) -> None:
    with engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def test_a_table_is_made_of_text_from_the_sources_columns(engine: sa.Engine) -> None:
    target = prepared(engine, ["id", "name"])

    assert not put(engine, target, some_rows({"id": "1", "name": "Ada"}, {"id": "", "name": "é 😀\n"}))
    assert stored(engine) == [("1", "Ada"), ("", "é 😀\n")]
    with engine.connect() as connection:
        assert all(isinstance(each["type"], sa.TEXT) for each in sa.inspect(connection).get_columns("t"))


def test_declared_types_make_the_tables_columns(engine: sa.Engine) -> None:
    types = {"i": "integer", "r": "real", "b": "boolean", "d": "date", "w": "timestamp"}
    target = prepared(engine, [*types, "t"], columns=types, null="")
    row = {"i": "1", "r": "1.5", "b": "yes", "d": "2030-01-02", "w": "2030-01-02T03:04:05+01:00", "t": "x"}

    assert not put(engine, target, some_rows(row, dict.fromkeys(row, "")))
    first, empty = stored(engine, "i") if stored(engine, "i")[0][0] else reversed(stored(engine, "i"))
    assert first[:4] == (1, 1.5, True, date(2030, 1, 2))
    assert first[4].replace(tzinfo=first[4].tzinfo or UTC) == datetime(2030, 1, 2, 2, 4, 5, tzinfo=UTC)
    assert empty == (None,) * 6


def test_a_table_that_is_there_decides_what_undeclared_values_become(engine: sa.Engine) -> None:
    ddl(
        engine,
        "CREATE TABLE t (i INTEGER, n NUMERIC(30, 20), f REAL, b BOOLEAN, d DATE, w TIMESTAMP, v VARCHAR(50))",
    )
    columns = ["i", "n", "f", "b", "d", "w", "v"]
    target = prepared(engine, columns)
    good = dict(zip(columns, ["1", "1.25", "0.5", "t", "2030-01-02", "2030-01-02T03:04:05+01:00", "x"], strict=True))

    bad = {"i": "x", "n": "x", "f": "x", "b": "x", "d": "x", "w": "x"}
    assert put(engine, target, some_rows(good, *(good | {name: value} for name, value in bad.items()))) == [
        (number, "bad-value", name) for number, name in enumerate(bad, 2)
    ]
    (row,) = stored(engine)
    assert (row[0], float(row[1]), *row[2:]) == (
        1,
        1.25,
        0.5,
        True,
        date(2030, 1, 2),
        datetime(2030, 1, 2, 2, 4, 5),  # noqa: DTZ001 - UTC, in a column that keeps no offset
        "x",
    )


@pytest.mark.postgres
def test_text_becomes_what_a_special_column_is(postgres_url: str) -> None:
    engine = sa.create_engine(postgres_url.replace("postgresql://", "postgresql+psycopg://"))
    ddl(
        engine,
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE TABLE t (u UUID, j JSONB, m mood, a INET, z TIMESTAMPTZ, l INTEGER[])",
    )
    target = prepared(engine, ["u", "j", "m", "a", "z", "l"])
    row = {
        "u": "12345678-1234-5678-1234-567812345678",
        "j": '{"a": [1]}',
        "m": "ok",
        "a": "10.0.0.1",
        "z": "2030-01-01T00:00:00Z",
        "l": "{1,2}",
    }

    found = put(engine, target, some_rows(row, row | {"u": "c4n4ry"}, row | {"j": "{"}, row | {"m": "happy"}))
    assert found == [(number, "refused-by-target", "") for number in (2, 3, 4)]
    (first,) = stored(engine)
    assert (first[1], first[2], first[5]) == ({"a": [1]}, "ok", [1, 2])
    engine.dispose()


def test_columns_with_odd_names_are_written_and_upserted(engine: sa.Engine) -> None:
    target = prepared(engine, ODD_NAMES, key=["a b", "100%"])
    first, second = ({name: f"{name}{number}" for name in ODD_NAMES} for number in (1, 2))
    changed = first | {"é": "new", "[z]": "new"}

    assert not put(engine, target, some_rows(first, second, changed))
    assert sorted(stored(engine)) == sorted([tuple(changed.values()), tuple(second.values())])


def test_identical_rows_without_a_key_stay_distinct_and_in_order(engine: sa.Engine) -> None:
    ddl(
        engine,
        "CREATE TABLE t (n "
        + ("SERIAL" if engine.dialect.name == "postgresql" else "INTEGER PRIMARY KEY")
        + ", a TEXT)",
    )
    target = prepared(engine, ["a"])

    assert not put(engine, target, some_rows(*({"a": value} for value in "xyxxzx")))
    assert "".join(row[1] for row in stored(engine, "n")) == "xyxxzx"


def test_rows_with_a_key_are_upserted_the_last_one_wins(engine: sa.Engine) -> None:
    target = prepared(engine, ["id", "name"], key=["id"])

    for _ in range(2):
        assert not put(
            engine, target, some_rows({"id": "1", "name": "a"}, {"id": "2", "name": "b"}, {"id": "1", "name": "c"})
        )
    assert sorted(stored(engine)) == [("1", "c"), ("2", "b")]


def test_a_table_of_key_columns_alone_is_upserted_too(engine: sa.Engine) -> None:
    target = prepared(engine, ["id"], key=["id"])

    assert not put(engine, target, some_rows({"id": "1"}, {"id": "1"}))
    assert stored(engine) == [("1",)]


def test_a_row_without_its_key_is_refused(engine: sa.Engine) -> None:
    target = prepared(engine, ["id", "a"], key=["id"], null="", is_fixed=False)

    assert put(engine, target, some_rows({"id": "", "a": "x"}, {"a": "x"}, {"id": None}, {"id": "1"})) == [
        (1, "missing-key", "id"),
        (2, "missing-key", "id"),
        (3, "missing-key", "id"),
    ]
    assert stored(engine) == [("1", None)]


def test_a_column_that_a_row_does_not_have_keeps_its_default(engine: sa.Engine) -> None:
    ddl(engine, "CREATE TABLE t (a TEXT PRIMARY KEY, b TEXT DEFAULT 'd', c TEXT DEFAULT 'd' NOT NULL)")
    target = prepared(engine, ["a", "b"], key=["a"], is_fixed=False)
    rows = some_rows(
        {"a": "1"}, {"b": None, "a": "2"}, {"a": "3", "b": "x"}, {"a": "2", "c": "y"}, {"a": "4", "d": "z"}
    )

    assert put(engine, target, rows) == [(5, "unknown-column", "d")]
    assert sorted(stored(engine)) == [("1", "d", "d"), ("2", None, "y"), ("3", "x", "d")]


def test_a_batch_of_bad_rows_alone_writes_nothing(engine: sa.Engine) -> None:
    target = prepared(engine, ["a"])

    assert not put(engine, target, [])
    assert stored(engine) == []


def test_a_bad_row_of_the_source_is_answered_and_not_written(engine: sa.Engine, tmp_path: Path) -> None:
    plan = planned(write(tmp_path / "t.csv", b"a,b\n1,2\n3\n5,6\n"))
    (batch,) = FileSource(plan).read()
    target = prepared(engine, plan.columns)

    assert put(engine, target, batch.rows) == [(2, "field-count", "")]
    assert stored(engine) == [("1", "2"), ("5", "6")]


def test_one_row_that_a_constraint_refuses_does_not_void_the_others(engine: sa.Engine) -> None:
    ddl(engine, "CREATE TABLE t (a TEXT NOT NULL UNIQUE, b INTEGER CHECK (b < 10))")
    target = prepared(engine, ["a", "b"], null="")
    rows = some_rows(*({"a": a, "b": b} for a, b in [("x", "1"), ("x", "2"), ("", "3"), ("y", "99"), ("z", "4")]))
    fitted = target.fit(rows)

    with engine.begin() as connection:
        refused = target.write(connection, fitted)

    assert [row.number for row in refused] == [2, 3, 4]
    assert all(row.problem and row.problem.code == "refused-by-target" and row.problem.text for row in refused)
    assert sorted(stored(engine)) == [("x", 1), ("z", 4)]


def test_the_reason_of_a_refusal_never_repeats_the_rows_data(engine: sa.Engine) -> None:
    ddl(engine, "CREATE TABLE t (a VARCHAR(200) UNIQUE CHECK (length(a) < 20))")
    target = prepared(engine, ["a"])
    rows = some_rows({"a": "c4n4ry"}, {"a": "c4n4ry"}, {"a": "c4n4ry" * 9})

    with engine.begin() as connection:
        refused = target.write(connection, target.fit(rows))
    assert len(refused) == 2
    assert "c4n4ry" not in repr(refused)


def test_what_is_written_is_undone_with_the_callers_transaction(engine: sa.Engine) -> None:
    """Also by sqlite3, which would let a savepoint commit by itself."""
    target = prepared(engine, ["a"])
    with engine.connect() as connection:
        for value in "12":
            assert not target.write(connection, target.fit(some_rows({"a": value})))
        connection.rollback()

    assert stored(engine) == []


def test_a_thousand_rows_survive_a_crash_once_each(engine: sa.Engine, tmp_path: Path) -> None:
    """OPS-2T: batches of 100, a crash behind the rows of batch 4 and before its checkpoint; no key, equal rows."""
    lines = [f"{number % 7},same" for number in range(1000)]
    plan = planned(write(tmp_path / "t.csv", "\n".join(["a,b", *lines]).encode()))
    ddl(
        engine,
        "CREATE TABLE t (n "
        + ("SERIAL" if engine.dialect.name == "postgresql" else "INTEGER PRIMARY KEY")
        + ", a TEXT, b TEXT)",
    )
    checkpoint: dict[str, Any] | None = None

    for crash_at in (4, None):
        target = prepared(engine, plan.columns)
        for rows, cursor in FileSource(Plan.from_state(plan.to_state())).batches(100, checkpoint):
            with engine.connect() as connection:
                target.write(connection, target.fit(rows))
                if rows[0].number == 401 and crash_at:
                    break  # the connection closes without a commit, as after a kill
                connection.commit()
                checkpoint = cursor

    assert [f"{a},{b}" for _, a, b in stored(engine, "n")] == lines


def test_a_row_key_makes_a_repeated_insert_do_nothing(engine: sa.Engine) -> None:
    """OPS-2a: every record carries its key; a unit that runs twice writes it once."""
    target = prepared(engine, ["a"], row_key="source_key")
    rows = some_rows({"a": "x"}, {"a": "x"})

    for _ in range(2):
        assert not put(engine, target, rows)
    found = stored(engine)
    assert [row[0] for row in found] == ["x", "x"]
    assert len({row[1] for row in found}) == 2


def test_a_row_key_may_stand_beside_a_key(engine: sa.Engine) -> None:
    target = prepared(engine, ["id", "a"], key=["id"], row_key="k")

    assert not put(engine, target, some_rows({"id": "1", "a": "x"}, {"id": "1", "a": "y"}))
    ((number, value, key),) = stored(engine)
    assert (number, value, len(key)) == ("1", "y", 64)


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE t (a TEXT, b TEXT, c TEXT, UNIQUE (b, a))"],
        ["CREATE TABLE t (a TEXT, b TEXT, c TEXT, PRIMARY KEY (a, b))"],
        ["CREATE TABLE t (a TEXT, b TEXT, c TEXT)", "CREATE UNIQUE INDEX i ON t (a, b)"],
        ["CREATE TABLE t (a TEXT, b TEXT, c TEXT)", "CREATE INDEX h ON t (a)", "CREATE UNIQUE INDEX i ON t (b, a)"],
        [
            "CREATE TABLE p (x TEXT PRIMARY KEY)",
            "INSERT INTO p VALUES ('3')",
            "CREATE TABLE t (a TEXT, b TEXT, c TEXT REFERENCES p, UNIQUE (a, b))",
        ],
    ],
)
def test_any_unique_index_over_exactly_the_key_will_do(engine: sa.Engine, statements: list[str]) -> None:
    ddl(engine, *statements)
    target = prepared(engine, ["a", "b", "c"], key=["a", "b"])

    row = {"a": "1", "b": "2", "c": "3"}
    assert not put(engine, target, some_rows(row, row))
    assert stored(engine) == [("1", "2", "3")]


@pytest.mark.parametrize(
    "index",
    ["CREATE INDEX i ON t (a)", "CREATE UNIQUE INDEX i ON t (a, b)", "CREATE UNIQUE INDEX i ON t (a) WHERE b = 'x'"],
)
def test_a_key_that_is_not_unique_in_the_table_is_refused(engine: sa.Engine, index: str) -> None:
    ddl(engine, "CREATE TABLE t (a TEXT, b TEXT)", index)

    with pytest.raises(TargetRefusedError, match="a is not unique in t; add a unique index"):
        prepared(engine, ["a", "b"], key=["a"])


@pytest.mark.postgres
def test_an_index_over_an_expression_is_no_key(postgres_url: str) -> None:
    engine = sa.create_engine(postgres_url.replace("postgresql://", "postgresql+psycopg://"))
    ddl(engine, "CREATE TABLE t (a TEXT, b TEXT)", "CREATE UNIQUE INDEX i ON t (a, lower(b))")

    with pytest.raises(TargetRefusedError, match="not unique"):
        prepared(engine, ["a", "b"], key=["a"])
    engine.dispose()


@pytest.mark.parametrize(
    ("columns", "spec", "message"),
    [
        (["a", "x", "y"], {}, "no column for 'x', 'y' of the source"),
        (["a"], {"columns": {"z": "text"}}, "source has no column 'z'"),
        (["a"], {"key": ["z"]}, "source has no column 'z'"),
        (["a"], {"row_key": "z"}, "t has no column 'z'"),
        (["a"], {"row_key": "a"}, "source has a column 'a'"),
    ],
)
def test_columns_that_do_not_meet_are_refused_before_the_first_row(
    engine: sa.Engine, columns: list[str], spec: dict[str, Any], message: str
) -> None:
    ddl(engine, "CREATE TABLE t (a TEXT, b TEXT)")

    with pytest.raises(TargetRefusedError, match=message):
        prepared(engine, columns, **spec)


def test_a_declared_column_that_the_table_does_not_have_is_refused(engine: sa.Engine) -> None:
    ddl(engine, "CREATE TABLE t (a TEXT)")

    with pytest.raises(TargetRefusedError, match="t has no such column; there are: a"):
        prepared(engine, ["a"], columns={"z": "text"}, is_fixed=False)


def test_a_table_can_not_be_made_of_no_columns(engine: sa.Engine) -> None:
    with pytest.raises(TargetRefusedError, match="the source has no columns"):
        prepared(engine, [])


def test_names_that_the_database_would_cut_or_confuse_are_refused(engine: sa.Engine) -> None:
    if engine.dialect.name == "postgresql":
        with pytest.raises(TargetRefusedError, match="too long a name"):
            prepared(engine, ["é" * 32])
        prepared(engine, ["a", "A", "x" * 63])
    else:
        with pytest.raises(TargetRefusedError, match="two columns 'A'"):
            prepared(engine, ["a", "A"])


def test_a_table_in_a_schema_is_found(engine: sa.Engine) -> None:
    if engine.dialect.name == "postgresql":
        ddl(engine, "CREATE SCHEMA other")
    schema = "other" if engine.dialect.name == "postgresql" else "main"
    target = prepared(engine, ["a"], schema=schema)

    assert not put(engine, target, some_rows({"a": "1"}))
    with engine.connect() as connection:
        assert connection.exec_driver_sql(f"SELECT a FROM {schema}.t").scalar() == "1"


def test_an_upsert_where_the_database_has_none_is_refused() -> None:
    connection = sa.create_mock_engine("mysql://", lambda *_: None)

    with pytest.raises(TargetRefusedError, match="no upsert into mysql; leave the key out"):
        ensure_table(connection, TargetSpec("t", key=["a"]), ["a"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"table": ""}, "table"),
        ({"table": "t\0"}, "table"),
        ({"table": "t", "schema": "x\n"}, "schema"),
        ({"table": "t", "key": [""]}, "key[0]"),
        ({"table": "t", "key": [7]}, "key[0]"),
        ({"table": "t", "key": "id"}, "key"),
        ({"table": "t", "row_key": "\0"}, "row_key"),
        ({"table": "t", "columns": {"a": "float"}}, "columns.a"),
    ],
)
def test_a_bad_description_is_refused_by_its_field(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as refused:
        TargetSpec(**spec)
    assert refused.value.field == field
    assert not isinstance(refused.value, TargetRefusedError)
    assert issubclass(InvalidFieldError, InputError)
