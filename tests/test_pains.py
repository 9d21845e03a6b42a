"""docs/pains.md answers every recipe, by tests that are there or by an honest "not yet"."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = (ROOT / "docs" / "pains.md").read_text(encoding="utf-8")
ROWS: Final = {
    int(number): (answer, re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", tests))
    for number, answer, tests in re.findall(r"^\| (\d+) \| .*? \| (.*?) \| (.*?) \|$", PAGE, re.MULTILINE)
}
LEFT_OUT: Final = {
    1,
    4,
    7,
    10,
    13,
    16,
    19,
    22,
    25,
    28,
    31,
    34,
    37,
    40,
    43,
    46,
    49,
    52,
    55,
    58,
}  #: not in the collection


def test_every_recipe_is_answered() -> None:
    assert list(ROWS) == [number for number in range(1, 61) if number not in LEFT_OUT]


@pytest.mark.parametrize("number", ROWS)
def test_its_tests_are_there(number: int) -> None:
    answer, tests = ROWS[number]
    assert tests or answer.startswith(("Not yet", "By design"))
    for path, name in tests:
        text = (ROOT / "tests" / path).read_text(encoding="utf-8")
        assert f"def {name}(" in text if name else "def test_" in text
