"""A row of ``events`` as an entry, in the words of each database."""

from __future__ import annotations

from typing import Final


def sure(column: str, kind: str) -> str:
    """A column, or NULL where it holds another type: SQLite lets anybody who edits the file put anything anywhere."""
    return f"CASE typeof({column}) WHEN '{kind}' THEN {column} END"


_SQLITE: Final = (
    f"position, {sure('stream_id', 'blob')}, {sure('version', 'integer')}, "
    f"CASE typeof(topic) WHEN 'text' THEN CAST(topic AS BLOB) END, {sure('state', 'blob')}"
)
_POSTGRES: Final = "position, uuid_send(stream_id), version, convert_to(topic, 'UTF8'), state"


def entry_columns(dialect: str) -> str:
    """The five columns."""
    return _SQLITE if dialect == "sqlite" else _POSTGRES
