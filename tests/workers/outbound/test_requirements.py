"""docs/outbound.md names every requirement of the way out, and each with tests that are there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
PAGE: Final = (ROOT / "docs" / "outbound.md").read_text(encoding="utf-8")
ROWS: Final = re.findall(r"^\| ([A-Z].*?) \| .*? \| (.*?) \|$", PAGE, re.MULTILINE)
NAMED: Final = {one: re.findall(r"`(.*?)::(.*?)`", tests) for ids, tests in ROWS for one in ids.split(", ")}
#: How many each chapter has; the fifteenth of SSR is one that we do not carry over.
CHAPTERS: Final = {"BND": 10, "RTY": 14, "NXT": 8, "RAF": 15, "GAT": 9, "SEC": 12, "SSR": 14, "EXH": 7}


@cache
def named_in(path: str) -> set[str]:
    tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_requirement_is_there() -> None:
    wanted = {f"{chapter}-{number:02}" for chapter, count in CHAPTERS.items() for number in range(1, count + 1)}
    wanted |= {f"TST-{number:02}" for number in range(8, 18)} | {f"OPS-8{part}" for part in "abcdT"}

    assert NAMED.keys() == wanted


def test_its_tests_are_there_too() -> None:
    missing = [(one, path, name) for one, tests in NAMED.items() for path, name in tests if name not in named_in(path)]

    assert missing == []
    assert all(NAMED.values())
