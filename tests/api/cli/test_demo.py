"""`demo`: what `make run` shows."""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from joblog.api.cli import demo
from joblog.domain.errors import InvalidFieldError
from joblog.workers.commands.log import JobLog
from joblog.workers.operations import builtin
from tests.api.cli.terminal import ADA, Answer, run, started

ROWS = 28_298


def rows(folder: Path) -> tuple[int, int]:
    with closing(sqlite3.connect(folder / "airports.db")) as connection:
        found: tuple[int, int] = connection.execute("SELECT count(*), count(DISTINCT icao) FROM airports").fetchone()
    return found


def finish(folder: Path) -> Answer:
    answer = run("demo", "--pace", "0", cwd=folder, seconds=240)
    assert answer.code == 0, answer.err
    return answer


@pytest.mark.slow
def test_killed_and_started_again_it_goes_on_and_every_row_is_there_once(tmp_path: Path) -> None:
    for units in (20, 60):
        with started("demo", "--pace", "0.02", "--quiet") as process:
            until_done(tmp_path, units)
            process.kill()

    answer = finish(tmp_path)

    assert rows(tmp_path) == (ROWS, ROWS)
    assert f"{ROWS:,} rows of {ROWS:,} airports are in airports.db: each exactly once" in answer.out
    assert answer.out.count("took it back") == 2
    assert "going on with job" in answer.err
    assert "kill it with  kill -9 " in answer.err


def until_done(folder: Path, units: int) -> None:
    tick = threading.Event()
    for _ in range(2000):
        tick.wait(0.01)
        if not (folder / "joblog-demo.db").exists():
            continue
        with JobLog.open(f"sqlite:///{folder / 'joblog-demo.db'}") as log:
            found = log.store.find_jobs(limit=1)
            if found and found[0]["done"] >= units:
                return
    raise TimeoutError(folder)


def test_an_unfinished_demo_goes_on_and_a_finished_one_is_followed_by_a_new_one(sqlite_log: JobLog) -> None:
    jobs = builtin()
    args = {"source": "a.csv", "target": "sqlite:///x.db", "table": "t"}

    first, is_new = demo.unfinished_or_new(sqlite_log, jobs, args)
    again, again_new = demo.unfinished_or_new(sqlite_log, jobs, args | {"pace": 1.0})
    sqlite_log.command("cancel", first, ADA)
    second, second_new = demo.unfinished_or_new(sqlite_log, jobs, args)

    assert (is_new, again_new, second_new) == (True, False, True)
    assert first == again != second


def test_without_the_package_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "find_spec", lambda _: None)

    with pytest.raises(InvalidFieldError, match="pip install airportsdata"):
        demo.airports()


def test_the_file_is_the_one_that_the_readme_names() -> None:
    with demo.airports().open("rb") as file:
        assert sum(1 for _ in file) == ROWS + 1
