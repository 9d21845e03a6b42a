"""SQL of ours, written with ``?``, for both drivers."""

from __future__ import annotations


def placed(sql: str, dialect: str) -> str:
    """*sql* with the placeholders of the dialect's driver."""
    return sql if dialect == "sqlite" else sql.replace("?", "%s")
