"""Source files as tests write them, and limits small enough to be met."""

import contextlib
import gzip
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from joblog.workers.operations import container, csv_records, decoded, json_array, json_values, line_records, sources
from joblog.workers.operations.plan import Plan
from joblog.workers.operations.planning import Declared, make_plan
from joblog.workers.operations.rows import Batch, Row
from joblog.workers.operations.sources import FileSource

CONTAINERS = ("plain", "gzip", "zip")


def write(path: Path, content: bytes, kind: str = "plain") -> Path:
    """Write *content* as it is or packed, under the name that such a file would have."""
    if kind == "gzip":
        path = path.with_name(f"{path.name}.gz")
        path.write_bytes(gzip.compress(content, mtime=0))
    elif kind == "zip":
        with zipfile.ZipFile(path.with_name(f"{path.name}.zip"), "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(path.name, content)
        path = path.with_name(f"{path.name}.zip")
    else:
        path.write_bytes(content)
    return path


def planned(path: Path, **declared: Any) -> Plan:
    return make_plan(str(path), Declared(**declared))


def read(plan: Plan, size: int = 500) -> list[Batch]:
    return list(FileSource(plan).read(size))


def rows(plan: Plan) -> list[Row]:
    return [row for batch in read(plan) for row in batch.rows]


def values(plan: Plan) -> list[dict[str, Any]]:
    """Give the rows' values; no row may have a problem."""
    assert not [row.problem for row in rows(plan) if row.problem]
    return [row.values for row in rows(plan)]


def problems(plan: Plan) -> list[tuple[int, int, str, str]]:
    """Give number, line, code and column of each bad row."""
    return [
        (row.number, row.line, row.problem.code, row.problem.column) for row in rows(plan) if row.problem is not None
    ]


@contextlib.contextmanager
def limits(*, chunk: int = 0, field: int = 0, record: int = 0, batch: int = 0) -> Iterator[None]:
    """Make the sizes small that are megabytes otherwise."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name, limit in (
            (decoded, "CHUNK", chunk),
            (container, "CHUNK", chunk),
            (csv_records, "FIELD_LIMIT", field),
            (json_values, "FIELD_LIMIT", field),
            (json_array, "FIELD_LIMIT", field),
            (line_records, "FIELD_LIMIT", field),
            (decoded, "RECORD_LIMIT", record),
            (json_array, "RECORD_LIMIT", record),
            (line_records, "RECORD_LIMIT", record),
            (sources, "BATCH_LIMIT", batch),
        ):
            if limit:
                patch.setattr(module, name, limit)
        yield
