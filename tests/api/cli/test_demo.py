"""`demo`: what `make run` shows."""

import http.client
import os
import pty
import re
import select
import signal
import sqlite3
import subprocess
import threading
from contextlib import closing
from pathlib import Path

import pytest

from joblog.api.cli import demo
from joblog.domain.errors import InvalidFieldError
from joblog.workers.commands.log import JobLog
from joblog.workers.operations import builtin
from tests.api.cli.terminal import ADA, Answer, command, environment, run, started
from tests.patience import BOUND, until

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


@pytest.mark.slow
def test_its_page_shows_the_import_and_stays_in_a_terminal_until_it_is_ended(tmp_path: Path) -> None:
    here, there = pty.openpty()
    command_line = command("demo", "--pace", "0.002", "--port", "0")
    with subprocess.Popen(
        command_line, stdin=there, stdout=there, stderr=there, cwd=tmp_path, env=environment(), start_new_session=True
    ) as process:
        os.close(there)
        try:
            said = Screen(here)
            [code] = said.until(r"/sign-in\?code=(\S+)")
            [port] = said.until(r"serving on http://127\.0\.0\.1:(\d+)")
            [job_id] = said.until(r"importing job (\S+)")
            page = Page(int(port), code)
            until(lambda: "running" in page.text(f"/jobs/{job_id}"))
            until(lambda: re.search(r"of about 2\d,\d{3}.* left<", page.text(f"/jobs/{job_id}")))
            said.until(r"the page (stays)")
            assert "completed" in page.text(f"/jobs/{job_id}")
            assert job_id[:8] in page.text("/jobs")
            process.send_signal(signal.SIGINT)
            assert process.wait(BOUND) == 0
        finally:
            process.kill()
            os.close(here)


class Screen:
    """What a terminal was told."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._text = descriptor, ""

    def until(self, pattern: str) -> tuple[str, ...]:
        while (found := re.search(pattern, self._text)) is None:
            assert select.select([self._descriptor], [], [], BOUND)[0], self._text
            self._text += os.read(self._descriptor, 65536).decode()
        return found.groups()


class Page:
    """A browser that has followed the link."""

    def __init__(self, port: int, code: str) -> None:
        self._port, self._cookie = port, ""
        self._cookie = self._get(f"/sign-in?code={code}")[1].partition(";")[0]

    def text(self, path: str) -> str:
        return self._get(path)[0]

    def _get(self, path: str) -> tuple[str, str]:
        """The page, and the cookie that came with it."""
        with closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=BOUND)) as connection:
            connection.request("GET", path, headers={"Accept": "text/html", "Cookie": self._cookie})
            answer = connection.getresponse()
            assert answer.status in {200, 303}, answer.status
            return answer.read().decode(), answer.getheader("Set-Cookie", "")


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
