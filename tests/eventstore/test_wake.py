"""Hints that come from another process: a file that changes, looked at without any SQL."""

from threading import Semaphore

import pytest

from joblog.eventstore import wake
from joblog.eventstore.wake import FileWaker
from tests.conformance.builders import BOUND


class Scripted(FileWaker):
    """Looks at a script instead of a file, then at nothing new."""

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
