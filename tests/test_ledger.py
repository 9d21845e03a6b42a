"""README says no more than the ledger of fault campaigns does."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
LINES: Final[list[dict[str, Any]]] = [
    json.loads(line) for line in (ROOT / "docs" / "evidence.jsonl").read_text(encoding="utf-8").splitlines()
]
README: Final = (ROOT / "README.md").read_text(encoding="utf-8")
KILLS: Final = "worker-kills"


def test_every_line_says_what_was_run_on_what_and_what_was_found() -> None:
    for line in LINES:
        assert {"date", "commit", "campaign", "violations", "failed", "counts", "seconds", "machine"} <= line.keys()


def test_the_kills_of_workers_that_the_readme_speaks_of_have_happened() -> None:
    [said] = re.findall(r"more than ([\d,]+) kills of workers", README)
    faults, violations = Counter[str](), 0
    for line in LINES:
        if line["campaign"] == KILLS:
            faults.update(line["faults"])
            violations += line["violations"]

    assert faults.total() > int(said.replace(",", ""))
    assert faults["any-moment"] > 0
    assert violations == 1, "README says what the one violation was"
