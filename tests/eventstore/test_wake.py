"""Hints that come from another process: a file that changes, without any SQL."""

import errno
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Event, Semaphore
from types import SimpleNamespace

import pytest
from sqlalchemy.engine import make_url

from joblog.eventstore import wake
from joblog.eventstore.inotify import FileWatch
from joblog.eventstore.wake import FileWaker
from joblog.workers.commands.log import JobLog
from tests.conformance.builders import BOUND, Side, an_append


class Scripted(FileWaker):
    """Looks at a script instead of a file, as where the kernel tells nothing; then at nothing new."""

    _run = FileWaker._look_often

    def __init__(self, looks: list[tuple[int, int]]) -> None:
        wake._WatchingWaker.__init__(self)
        self._looks = iter(looks)
        self._last = (0, 0)
        self.looked = Semaphore(0)

    def _look(self) -> tuple[int, int]:
        self._last = next(self._looks, self._last)
        self.looked.release()
        return self._last


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wake, "STAT_SECONDS", 0.001)
    monkeypatch.setattr(wake, "POLL_SECONDS", 1000.0)


def counted(looks: list[tuple[int, int]], wanted: int) -> int:
    """Count the wake-ups of a follower until the file was looked at *wanted* times."""
    waker = Scripted(looks)
    woken: list[bool] = []
    waker.subscribe(lambda: woken.append(True))
    for _ in range(wanted):
        assert waker.looked.acquire(timeout=BOUND)
    waker.close()
    return len(woken)


def test_a_follower_looks_once_when_the_watching_begins() -> None:
    """For what was appended before the first look at the file."""
    assert counted([(1, 1)], wanted=20) == 1


def test_a_change_is_told_and_told_again() -> None:
    """The file grows before the fsync, and the commit is seen only after it: one hint may come too early."""
    assert counted([(1, 1), (1, 1), (2, 1)], wanted=20) == 2 + wake.ECHOES


@pytest.mark.parametrize("change", [(2, 1), (1, 2), (0, 0)])
def test_size_time_and_absence_are_changes(change: tuple[int, int]) -> None:
    assert counted([(1, 1), change], wanted=20) > 1


def test_without_any_change_followers_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wake, "POLL_SECONDS", 0.005)

    assert counted([(1, 1)], wanted=40) > 4


# -- told by the kernel ----------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "joblog.db-wal"


@pytest.fixture
def watch(file: Path) -> Iterator[FileWatch]:
    with closing(FileWatch(file)) as watch:
        yield watch


def test_the_kernel_tells_of_the_file_and_of_no_other(watch: FileWatch, file: Path) -> None:
    file.with_name("joblog.db-wal.other").write_bytes(b"1")
    file.with_name("joblog.db").write_bytes(b"1")
    assert not watch.has_changed()

    file.write_bytes(b"1")
    assert watch.has_changed()
    assert not watch.has_changed()


@pytest.mark.parametrize(
    "change",
    [lambda file: file.write_bytes(b"22"), Path.unlink, lambda file: file.rename(file.with_name("gone"))],
    ids=["written", "removed", "renamed"],
)
def test_every_kind_of_change_is_told(watch: FileWatch, file: Path, change: Callable[[Path], object]) -> None:
    file.write_bytes(b"1")
    assert watch.has_changed()

    change(file)
    assert watch.has_changed()


def test_a_folder_that_is_not_there_cannot_be_watched(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FileWatch(tmp_path / "none" / "joblog.db-wal")


@pytest.mark.parametrize("tells", [True, False], ids=["told", "looks"])
def test_another_process_is_heard_with_and_without_the_kernel(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, *, tells: bool
) -> None:
    """The polling floor is far away here."""

    def refused(path: Path) -> FileWatch:
        raise OSError(errno.EMFILE, "no more watches", str(path))

    if not tells:
        monkeypatch.setattr(wake, "FileWatch", refused)
    with JobLog.open(sqlite_url) as other, JobLog.open(sqlite_url) as log:
        begun, heard = Event(), Event()
        ticket = log.waker.subscribe(begun.set, seen_only=True)
        assert begun.wait(BOUND)
        log.waker.unsubscribe(ticket)
        log.waker.subscribe(heard.set, seen_only=True)
        other.writer.append(an_append())

        assert heard.wait(BOUND)


def test_a_neighbour_that_is_written_all_the_time_wakes_nobody_all_the_time(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wake, "STAT_SECONDS", 1000.0)
    with JobLog.open(sqlite_url) as log:
        woken = Semaphore(0)
        log.waker.subscribe(woken.release)
        assert woken.acquire(timeout=BOUND)
        neighbour = Path(str(make_url(sqlite_url).database)).with_name("other.log")
        neighbour.write_bytes(b"1")
        assert woken.acquire(timeout=BOUND)  # what the kernel tells of is not known before it is read
        neighbour.write_bytes(b"2")

        assert not woken.acquire(timeout=0.2)


def test_nobody_waits_for_a_silent_file_at_the_end(sqlite_url: str) -> None:
    """With no floor asked for, a wait for news is long; the end does not wait for it, nor does a new subscriber."""
    with JobLog.open(sqlite_url) as log:
        begun, called = Event(), Event()
        log.waker.subscribe(begun.set, seen_only=True)
        assert begun.wait(BOUND)
        log.waker.subscribe(called.set)

        assert called.wait(wake.SILENT_SECONDS / 2)
        assert Side(log.close).is_done(wake.SILENT_SECONDS / 2)


# -- how often -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("silence", "is_told"), [(0, True), (1, False)], ids=["after-silence", "all-the-time"])
def test_a_change_is_told_at_once_unless_more_are_written_all_the_time(
    file: Path, monkeypatch: pytest.MonkeyPatch, silence: int, *, is_told: bool
) -> None:
    """What was told is told again only much later here; whoever is looked at seldom delays nobody's end."""
    monkeypatch.setattr(wake, "STAT_SECONDS", 1000.0)
    monkeypatch.setattr(wake, "FSYNC_SECONDS", 1000.0)
    monkeypatch.setattr(wake, "FRESH_ECHOES", silence)
    waker = FileWaker(SimpleNamespace(path=file.with_name("joblog.db")))  # type: ignore[arg-type] # no more is looked at
    woken = Semaphore(0)
    waker.subscribe(woken.release, seen_only=True)
    with closing(waker):
        assert woken.acquire(timeout=BOUND)  # the watching begins
        file.write_bytes(b"1")
        assert woken.acquire(timeout=BOUND)
        file.write_bytes(b"22")

        assert woken.acquire(timeout=BOUND if is_told else 0.2) is is_told
