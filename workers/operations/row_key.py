"""The key of a row: the same in every attempt, process and year."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from .rows import Row


def row_key(row: Row, key_columns: Sequence[str], source: str) -> str:
    """64 hex digits that follow from the row's key columns, else from *source* and the row's number.

    So identical rows of a file stay distinct, and a row with a key is the same row in any file.  *source* is the
    file's digest; with the job's id before it, a second import of the same file gets keys of its own.
    """
    parts = [[name, row.values.get(name)] for name in key_columns] if key_columns else [source, row.number]
    return hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).hexdigest()
