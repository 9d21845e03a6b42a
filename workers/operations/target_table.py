"""The table that rows go into: as it is there, or made from the source's columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.schema import CreateTable
from sqlalchemy.types import TypeEngine

from ...domain import storable
from ...domain.errors import InvalidFieldError
from .conversion import check_types
from .errors import TargetRefusedError

UPSERTS: Final = ("sqlite", "postgresql")
#: How a value of a kind is handed to the driver.  Text has no type, so that the database makes of it what the
#: column is (uuid, json, an enum, ...).
BOUND: Final[Mapping[str, TypeEngine[Any]]] = {
    "integer": sa.BigInteger(),
    "real": sa.Double(),
    "decimal": sa.types.NullType(),
    "text": sa.types.NullType(),
    "boolean": sa.Boolean(),
    "date": sa.Date(),
    "timestamp": sa.DateTime(timezone=True),
    "local": sa.DateTime(),
}


@dataclass(frozen=True)
class TargetSpec:
    """What the user says about the target."""

    table: str
    schema: str = ""
    key: Sequence[str] = ()  #: columns of an upsert; without them rows are inserted
    columns: Mapping[str, str] = field(default_factory=dict)  #: types; all else is text, or what the table has
    null: str | None = None  #: the text that stands for NULL; without it an empty value is an empty text
    row_key: str = ""  #: a column that gets each row's key; alone, it makes a second insert of a row do nothing

    def __post_init__(self) -> None:
        """Check every field."""
        storable.name(self.table, "table")
        storable.name(self.schema, "schema", empty=True)
        storable.name(self.row_key, "row_key", empty=True)
        if isinstance(self.key, str):
            raise InvalidFieldError("key", "a text", "give a list of columns")
        for index, column in enumerate(self.key):
            storable.name(column, f"key[{index}]")
        check_types(self.columns)

    @property
    def unique(self) -> tuple[str, ...]:
        """The columns by which a row that is there already is known."""
        return tuple(self.key) or ((self.row_key,) if self.row_key else ())


def ensure_table(connection: sa.Connection, spec: TargetSpec, source_columns: Sequence[str]) -> sa.Table:
    """Reflect the table, after creating it from the source's columns if it is not there.

    Raises:
        TargetRefusedError: it can't be created, or can't be upserted into by this key.
    """
    if spec.unique and connection.dialect.name not in UPSERTS:
        problem = f"no upsert into {connection.dialect.name}"
        raise TargetRefusedError("key", problem, f"leave the key out, or import into {' or '.join(UPSERTS)}")
    schema = spec.schema or None
    if not sa.inspect(connection).has_table(spec.table, schema=schema):
        connection.execute(CreateTable(_new(connection, spec, source_columns), if_not_exists=True))
    table = sa.Table(spec.table, sa.MetaData(), schema=schema, autoload_with=connection, resolve_fks=False)
    _check_key(table, spec)
    return table


def kinds_of(table: sa.Table, spec: TargetSpec) -> dict[str, str]:
    """The type of each column: as declared, else as the table has it."""
    if unknown := [name for name in spec.columns if name not in table.c]:
        raise TargetRefusedError(f"columns.{unknown[0]}", f"{table.name} has no such column", _there_are(table))
    kinds = {column.name: spec.columns.get(column.name) or _kind(column.type) for column in table.c}
    for name, kind in kinds.items():
        if kind == "timestamp" and not getattr(table.c[name].type, "timezone", False):
            kinds[name] = "local"
    return kinds


def _there_are(table: sa.Table) -> str:
    return f"there are: {', '.join(column.name for column in table.c)}"


def _kind(there: TypeEngine[Any]) -> str:
    kinds: tuple[tuple[type[TypeEngine[Any]], str], ...] = (
        (sa.Boolean, "boolean"),
        (sa.Integer, "integer"),
        (sa.Float, "real"),
        (sa.Numeric, "decimal"),
        (sa.DateTime, "timestamp"),
        (sa.Date, "date"),
    )
    return next((kind for kind_of, kind in kinds if isinstance(there, kind_of)), "text")


def _new(connection: sa.Connection, spec: TargetSpec, source_columns: Sequence[str]) -> sa.Table:
    names = list(dict.fromkeys([*source_columns, *spec.columns, *([spec.row_key] if spec.row_key else [])]))
    if not source_columns:
        raise TargetRefusedError("table", f"{spec.table} is not there, and the source has no columns", "create it")
    longest = connection.dialect.max_identifier_length
    folded: set[str] = set()
    for name in (spec.table, *names):
        if len(name.encode()) > longest:
            way_out = f"at most {longest} bytes; give names, or create the table"
            raise TargetRefusedError("columns", f"{storable.text(name, limit=40)!r} is too long a name", way_out)
    for name in names:
        if name.casefold() in folded and connection.dialect.name != "postgresql":
            raise TargetRefusedError("columns", f"two columns {name!r} but for their case", "give names")
        folded.add(name.casefold())
    columns = [_column(name, spec) for name in names]
    return sa.Table(spec.table, sa.MetaData(), *columns, schema=spec.schema or None)


def _column(name: str, spec: TargetSpec) -> sa.Column[Any]:
    kind = spec.columns.get(name, "text")
    stored = sa.Text() if kind == "text" else BOUND[kind]
    return sa.Column(name, stored, primary_key=name in spec.unique, autoincrement=False)


def _check_key(table: sa.Table, spec: TargetSpec) -> None:
    for name in (*spec.key, *([spec.row_key] if spec.row_key else [])):
        if name not in table.c:
            raise TargetRefusedError("key", f"{table.name} has no column {name!r}", _there_are(table))
    if spec.unique and frozenset(spec.unique) not in set(_unique_sets(table)):
        problem = f"{', '.join(spec.unique)} is not unique in {table.name}"
        raise TargetRefusedError("key", problem, "add a unique index over exactly these columns")


def _unique_sets(table: sa.Table) -> Iterator[frozenset[str]]:
    """Each set of columns that a whole-table unique index covers."""
    for constraint in table.constraints:
        if isinstance(constraint, sa.PrimaryKeyConstraint | sa.UniqueConstraint):
            yield frozenset(column.name for column in constraint.columns)
    for index in table.indexes:
        is_partial = any(dict(options).get("where") is not None for options in index.dialect_options.values())
        if index.unique and not is_partial and len(index.expressions) == len(index.columns):
            yield frozenset(column.name for column in index.columns)
