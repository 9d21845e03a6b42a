"""A real file, imported by real workers of which one after another is killed (OPS-2T)."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.faults import import_rig


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def test_every_row_is_there_once_however_often_the_worker_dies(kind: str) -> None:
    spec = find_spec("airportsdata")
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).with_name("airports.csv")

    report = import_rig.campaign(kind, source, kills=6, workers=2, seed=7, batch=100)

    assert report.violations == []
    assert report.counts["rows"] == 28_298
    assert report.counts["reclaims"] == report.fired.total() == 6
