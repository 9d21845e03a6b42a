"""What many ask at the same time is asked of the database once: nobody gets an answer that began before their question."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


@dataclass(slots=True)
class _Looks:
    """One question: the look that is under way or was the last, the next one, and how often it was asked."""

    last: Future[Any] | None = None
    following: Future[Any] | None = None
    asked: int = 0


class Together:
    """Joins threads that ask alike: whoever comes while a look is under way shares the next one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._looks: dict[str, _Looks] = {}

    def ask(self, name: str, look: Callable[[], T]) -> T:
        """What *look* answers, called by one of those who ask *name*; who shares a name must ask alike."""
        with self._lock:
            looks = self._looks.setdefault(name, _Looks())
            looks.asked += 1
            is_mine = looks.following is None
            mine: Future[T] = looks.following or Future()
            looks.following, before = mine, looks.last
        if is_mine:
            if before is not None:
                before.exception()  # until it has ended, however it does
            with self._lock:
                looks.last, looks.following = mine, None  # who asks from here on was not there when this one began
            try:
                mine.set_result(look())
            except BaseException as error:
                mine.set_exception(error)
                raise
        return mine.result()

    def asked(self, name: str) -> int:
        """How often."""
        with self._lock:
            return self._looks[name].asked if name in self._looks else 0
