"""The README is true: its tour runs, its state table is the code's, its commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from joblog.domain.status import TRANSITIONS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_tour_runs_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All Python blocks, in order, in one namespace."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    namespace: dict[str, object] = {}

    for number, block in enumerate(blocks, 1):
        exec(compile(block, f"README.md block {number}", "exec"), namespace)  # noqa: S102 - our own README

    assert len(blocks) >= 6


def test_the_state_table_is_the_code() -> None:
    rows = [
        f"| {status.value} | {after.value} | {cause} |"
        for status, following in TRANSITIONS.items()
        for after, cause in following.items()
    ]
    table = README.split("<!-- states:")[1].split("<!-- states end -->")[0]

    assert [line for line in table.splitlines() if line.startswith("| ")][2:] == rows


@pytest.mark.parametrize("target", ["run", "test", "check", "bench", "faults", "campaign", "model"])
def test_every_make_target_it_names_exists(target: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")

    assert target in README
    assert re.search(rf"^{target}:", makefile, re.MULTILINE)
