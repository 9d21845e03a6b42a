"""docs/crash-windows.md names every window, and each with tests that are there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs" / "crash-windows.md").read_text(encoding="utf-8")
ROWS: Final = re.findall(r"^\| ([A-Z].*?) \| .*? \| .*? \| (.*?) \|$", PAGE, re.MULTILINE)
NAMED: Final = {one: re.findall(r"`(.*?)::(.*?)`", tests) for ids, tests in ROWS for one in ids.split(", ")}
#: Fixtures that bring a test both databases, or name the one that it is about.
DATABASES: Final = {"site", "database_url", "sqlite_url", "postgres_url", "server", "log", "name"}


@cache
def arguments(path: str) -> dict[str, list[str]]:
    """The test functions of a module, and what they take."""
    tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
    return {node.name: [arg.arg for arg in node.args.args] for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_window_is_there() -> None:
    wanted = [*(f"CRW-{n:02}" for n in range(1, 17)), *(f"STU-{n:02}" for n in range(1, 9))]
    wanted += [*(f"SHD-{n:02}" for n in range(1, 7)), "C2", "C3", "C4", "C7", "C17", "C18", "C19"]

    assert list(NAMED) == wanted


@pytest.mark.parametrize("window", NAMED)
def test_its_tests_are_there_too(window: str) -> None:
    assert NAMED[window]
    for path, name in NAMED[window]:
        assert name in arguments(path), f"{path} has no {name}"
        assert path.startswith("faults/") or DATABASES & set(arguments(path)[name])


def test_every_test_that_carries_an_id_is_on_the_page() -> None:
    here = Path(__file__).parent
    carrying = {
        (f"acceptance/{path.name}", name)
        for path in here.glob("test_*.py")
        for name in arguments(f"acceptance/{path.name}")
        if re.match(r"test_(crw|stu|shd|c\d)", name)
    }

    assert carrying <= {each for tests in NAMED.values() for each in tests}
