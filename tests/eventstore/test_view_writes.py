"""Rows of a view are written many at a time, and merged as the rule of each column says, whatever their number."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from joblog.eventstore import view_writes as module
from joblog.eventstore.view_schema import failures, job_versions
from joblog.eventstore.view_scratch import Scratch
from joblog.eventstore.views import TableRows, ViewWrite, dumped, merged

COUNTS = [0, 1, 6, 7, 8, 14, 15]
JOB = [UUID(int=number * 2**64 + 7) for number in range(20)]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PARAMETERS", 7 * 14)  # seven rows a statement: none, some and all of them fit


def failure(number: int, batch: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    texts = {name: f"{name} {number} {batch}" for name in ("kind", "category", "text", "last_unit")}
    numbers = {"count": number + batch, "first_at": batch, "last_at": batch, "last_position": number}
    return (f"{number:02}",), texts | numbers | {"last_job": JOB[number]}


def span(number: int, batch: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    texts = {name: f"{name} {batch}" for name in ("status", "worker", "reason", "kind", "queue", "tenant")}
    return (number, JOB[number]), texts | {"to_position": batch, "from_at": number, "to_at": 2**62, "attempt": batch}


def expected(table: sa.Table, *batches: TableRows) -> list[tuple[Any, ...]]:
    kept: dict[tuple[Any, ...], dict[str, Any]] = {}
    keys = [column.name for column in table.primary_key if column.name != "generation"]
    for rows in batches:
        for key, row in rows.items():
            if row is None:
                kept.pop(key, None)
            else:
                kept[key] = merged(table, kept.get(key), dict(zip(keys, key, strict=True)) | row)
    plain = [
        tuple(row[name].bytes if isinstance(row[name], UUID) else row[name] for name in dumped(table))
        for row in kept.values()
    ]
    return sorted(plain)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(("table", "make"), [(failures, failure), (job_versions, span)], ids=["failures", "versions"])
def test_rows_are_merged_whatever_their_number(tmp_path: Path, table: sa.Table, make: Any, count: int) -> None:
    scratch = Scratch(tmp_path / "fold.db", "view", (table,))
    first: TableRows = dict(make(number, 1) for number in range(count))
    second: TableRows = dict(make(number, 2) for number in range(3, count + 3))
    gone: TableRows = dict.fromkeys(list(first)[1::2])
    third = gone | dict([make(19, 3)])
    for after, rows in enumerate((first, second, third), 1):
        scratch.write(ViewWrite(after - 1, after, {table: dict(rows)}))

    assert list(scratch.values(table)) == expected(table, first, second, third)
    scratch.close()
