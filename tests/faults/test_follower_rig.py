"""The rig of what follows the log: it kills at every point, and it finds what it is there to find."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from joblog.projections.archive import make as archive_module
from joblog.projections.proof import tree as tree_module
from joblog.projections.transfer import export as export_module
from joblog.projections.transfer import lines as lines_module
from joblog.projections.transfer import offline as offline_module
from tests.faults import follower_rig
from tests.faults.campaign import start_shard
from tests.faults.follower_rig import Place

pytestmark = pytest.mark.faults


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(tree_module, "BATCH", 16)
    monkeypatch.setattr(archive_module, "CHUNK", 7)
    for module in (export_module, lines_module, offline_module):
        monkeypatch.setattr(module, "CHUNK", 40)
    made = Place(tmp_path)
    for group in ("tree", "consumer", "export", "import", "archive", "restore"):
        made.work(group)
    made.judge()
    return made


def test_it_kills_at_every_point_and_all_is_whole() -> None:
    report = start_shard("follower-kills", 1, len(follower_rig.POINTS))

    assert report.violations == []
    assert set(report.fired) == set(follower_rig.POINTS)


def forge_event(place: Place) -> None:
    with closing(sqlite3.connect(place.folder / "joblog.db", isolation_level=None)) as driver:
        driver.execute("DROP TRIGGER events_no_update")
        driver.execute("UPDATE events SET topic = 'forged' WHERE position = 7")


def tear_an_archive(place: Place) -> None:
    [file] = place.archives.glob("*.gz")
    file.write_bytes(file.read_bytes()[:-20])


def lose_an_archive(place: Place) -> None:
    [file] = place.archives.glob("*.gz")
    file.unlink()


def forge_a_read(place: Place) -> None:
    had = json.loads(place.read.read_text())
    place.read.write_text(json.dumps(had | {"head": had["head"] - 1}))


def repeat_a_page(place: Place) -> None:
    first = place.journal.read_text().splitlines()[0]
    with place.journal.open("a") as journal:
        journal.write(first + "\n")


def leave_a_gap(place: Place) -> None:
    last = json.loads(place.journal.read_text().splitlines()[-1])["committed"]
    with place.journal.open("a") as journal:
        journal.write(json.dumps({"first": last + 2, "last": last + 3}) + "\n")


def tear_the_export(place: Place) -> None:
    place.exported.write_bytes(place.exported.read_bytes()[:-20])


def import_half(place: Place) -> None:
    with closing(sqlite3.connect(place.imported, isolation_level=None)) as driver:
        driver.execute("DROP TRIGGER events_no_update")
        driver.execute("UPDATE events SET topic = 'other' WHERE position = 3")


def restore_in_the_old_epoch(place: Place) -> None:
    with closing(sqlite3.connect(place.restored, isolation_level=None)) as driver:
        driver.execute("UPDATE log_state SET epoch = 1")


@pytest.mark.parametrize(
    "damage",
    [
        tear_an_archive,
        lose_an_archive,
        forge_a_read,
        forge_event,
        repeat_a_page,
        leave_a_gap,
        tear_the_export,
        import_half,
        restore_in_the_old_epoch,
    ],
)
def test_it_finds_what_is_wrong(place: Place, damage: Callable[[Place], None]) -> None:
    damage(place)

    with pytest.raises(AssertionError):
        place.judge()
