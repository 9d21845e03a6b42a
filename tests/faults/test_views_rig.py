"""The rig of the views: it kills at every point, and it finds what it is there to find."""

import sqlite3
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest

from joblog.projections import rebuild as job_rebuild
from joblog.projections import view_rebuild
from joblog.workers.commands import recovery
from tests import postgres_server as servers
from tests.faults import views_rig
from tests.faults.campaign import start_shard
from tests.faults.views_rig import Place

pytestmark = pytest.mark.faults


@pytest.mark.parametrize("name", ["view-kills", pytest.param("postgres-view-kills", marks=pytest.mark.postgres)])
def test_it_kills_at_every_point_and_all_is_true(name: str) -> None:
    servers.share()
    report = start_shard(name, 1, len(views_rig.POINTS))

    assert report.violations == []
    assert set(report.fired) >= set(views_rig.POINTS) - {views_rig.ANY}


@pytest.mark.postgres
def test_what_follows_on_postgresql_is_killed_too() -> None:
    servers.share()
    report = start_shard("postgres-follower-kills", 1, 16)

    assert report.violations == []
    assert report.fired.total() == 16


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    for module in (view_rebuild, job_rebuild):
        monkeypatch.setattr(module, "BATCH", 20)
        monkeypatch.setattr(module, "CATCH_UP", 5)
    monkeypatch.setattr(recovery, "BATCH", 2)
    made = Place(tmp_path, f"sqlite:///{tmp_path / 'joblog.db'}")
    for group in views_rig.GROUPS:
        made.work(group)
    made.finish()
    return made


def run_sql(place: Place, sql: str) -> None:
    with closing(sqlite3.connect(place.folder / "joblog.db", isolation_level=None)) as driver:
        driver.execute(sql)


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("UPDATE job_counts SET jobs = jobs + 1", "S13: counters"),
        ("DELETE FROM job_versions", "S13: versions"),
        ("UPDATE view_state SET state = '{}' WHERE view = 'versions'", "S13: versions"),
        ("UPDATE recovery_rows SET detail = 'forged'", "S13: recovery"),
        ("UPDATE projections SET stopped_at = 3, reason = 'x' WHERE name = 'schedule'", "S13: schedule stands still"),
        ("UPDATE tracking SET notification_id = 1", "S14: .* went back"),
    ],
)
def test_it_finds_a_view_that_says_something_else(place: Place, sql: str, found: str) -> None:
    run_sql(place, sql)

    with pytest.raises(AssertionError, match=found):
        place.judge()


def test_it_finds_a_job_row_that_says_something_else(place: Place) -> None:
    for table in ("jobs_0", "jobs_1"):
        run_sql(place, f"UPDATE {table} SET done = 77")

    with pytest.raises(AssertionError, match="S13: Difference"):
        place.judge()


def test_it_finds_a_report_that_was_not_taken_once(place: Place) -> None:
    place.reports.write_text("".join(place.reports.read_text().splitlines(keepends=True)[:-1]))

    with pytest.raises(AssertionError, match="S16"):
        place.finish()


def test_its_reader_finds_rows_that_are_gone_for_a_moment(place: Place) -> None:
    found: list[str] = []

    def read() -> None:
        try:
            place.read()
        except AssertionError as error:
            found.append(str(error))

    thread = Thread(target=read)
    thread.start()
    try:
        assert place.has_read.wait(30)
        run_sql(place, "DELETE FROM recovery_rows")
        thread.join(30)
    finally:
        place.stop.touch()
        thread.join()

    assert [text[:3] for text in found] == ["S14"]
