"""``docs/errors.md`` lists every refusal, and nothing else."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import joblog
from joblog.api.cli.exits import OF_CODE
from joblog.domain.errors import JobLogError

TABLE = (Path(__file__).parent.parent / "docs" / "errors.md").read_text(encoding="utf-8")
ROWS = {
    row[0]: row
    for row in re.findall(r"^\| `(.*?)` \| `(.*?)` \| (.*?) \| (\d+) \| (\d+) \| (.*?) \|$", TABLE, re.MULTILINE)
}


def tree(cls: type[JobLogError] = JobLogError) -> Iterator[type[JobLogError]]:
    yield cls
    for below in cls.__subclasses__():
        yield from tree(below)


def every_class() -> dict[str, type[JobLogError]]:
    for module in pkgutil.walk_packages(joblog.__path__, "joblog."):
        if "migrations" not in module.name and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found: dict[str, type[JobLogError]] = {}
    for cls in tree():
        if cls.__module__.startswith("joblog."):
            found.setdefault(cls.code, cls)
    return found


CLASSES = every_class()


def test_every_refusal_is_in_the_table_and_every_row_is_a_refusal() -> None:
    assert CLASSES.keys() == ROWS.keys()


def test_no_two_classes_share_a_code() -> None:
    classes = [cls for cls in tree() if cls.__module__.startswith("joblog.") and "code" in vars(cls)]

    assert len({cls.code for cls in classes}) == len(classes)


@pytest.mark.parametrize("code", CLASSES)
def test_a_row_names_its_class_its_exit_and_a_way_out(code: str) -> None:
    _, name, means, exit_code, status, way_out = ROWS[code]
    cls = CLASSES[code]
    codes = [str(getattr(one, "code", "")) for one in cls.__mro__]
    wanted = next(OF_CODE[one] for one in codes if one in OF_CODE)

    assert name == cls.__name__
    assert int(exit_code) == wanted
    assert 400 <= int(status) < 600
    assert means
    assert way_out
