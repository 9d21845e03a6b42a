"""``import.file``: a CSV, NDJSON or JSON file into a table, batch by batch, each row exactly once.

The file is planned and hashed in the first step; every later lease proves that it is still the same.  Rows and
checkpoint are one commit where the table lives in the log's database, else a mark beside the rows does the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from ...domain.retry import RetryPolicy

if TYPE_CHECKING:
    from ..registry import Jobs
    from ..run import SyncRun

BATCH: Final = 500


class ImportFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What ``import.file`` takes."""

    source: str  #: path of the file; ``archive.zip!member`` names a member
    target: str  #: SQLAlchemy URL without a password, or env:NAME
    table: str
    batch: int = BATCH  #: rows a unit
    key: tuple[str, ...] = ()  #: columns of an upsert; without them rows are inserted
    columns: dict[str, str] = {}  #: types by column; all else is text, or what the table has
    schema: str = ""
    row_key: str = ""  #: a column that gets each row's own key
    null: str | None = None  #: the text that stands for NULL
    format: str = ""  #: csv, ndjson or json; by default told from name and content
    encoding: str = ""
    header: bool = True
    names: tuple[str, ...] = ()
    dialect: dict[str, Any] = {}
    bad_rows: Literal["stop", "skip"] = "stop"
    bad_rows_limit: int = 100  #: with skip: more of them stop the import
    pace: float = 0.0  #: seconds to wait after each batch, for those who want to watch


def import_file(run: SyncRun, args: ImportFile) -> dict[str, int]:
    """Import the file; returns how many rows were written and how many were refused."""
    from .importing import run_import  # readers, writers and their dialects: only where an import runs

    return run_import(run, args)


def register(jobs: Jobs) -> None:
    """Add ``import.file``."""
    jobs.job("import.file", retry=RetryPolicy(), guarantee="exactly-once")(import_file)
