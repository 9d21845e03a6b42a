"""The table that rows go into: as it is there, or made from the source's columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
        if kind == "decimal" and table.metadata.info.get("dialect") == "sqlite":
            kinds[name] = "text"
    return kinds


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
