"""Each entry of ``faults/defences.toml`` still names code that is there, once, and tests that are there."""

import pytest

from tests.faults.defences import ROOT, Defence, defences


@pytest.mark.parametrize("defence", defences(), ids=lambda defence: defence.name)
def test_what_a_defence_takes_away_is_in_the_code_once(defence: Defence) -> None:
    whole = (ROOT / defence.file).read_text(encoding="utf-8")

    assert whole.count(defence.old) == 1, f"{defence.file}: say in defences.toml how its code looks now"
    assert [path for path in defence.tests if not (ROOT / path).exists()] == []
