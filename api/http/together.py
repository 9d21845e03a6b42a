"""What many ask at the same time is asked of the database once: nobody gets an answer that began before their question."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Mapping

T = TypeVar("T")
Q = TypeVar("Q", bound="Hashable")


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


class TogetherSoon(Generic[Q, T]):
    """Joins the requests of an event loop: what they ask while a look is under way travels with the next one.

    *look* gets all questions of one turn, each once, and answers each of them.
    """

    def __init__(self, look: Callable[[list[Q]], Awaitable[Mapping[Q, T]]]) -> None:
        self._look = look
        self._waiting: dict[Q, list[asyncio.Future[T]]] = {}
        self._turns: asyncio.Task[None] | None = None

    async def ask(self, question: Q) -> T:
        """The answer to *question*, of a look that began after it was asked."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self._waiting.setdefault(question, []).append(answer)
        if self._turns is None:
            self._turns = loop.create_task(self._take_turns())
        return await answer

    async def _take_turns(self) -> None:
        try:
            while self._waiting:
                asked, self._waiting = self._waiting, {}
                await self._answer(asked)
        finally:
            self._turns = None

    async def _answer(self, asked: dict[Q, list[asyncio.Future[T]]]) -> None:
        waiting = [(answer, question) for question, answers in asked.items() for answer in answers]
        try:
            found = await self._look(list(asked))
            told = [(answer, found[question]) for answer, question in waiting]
        except Exception as error:  # noqa: BLE001 - whoever asked gets it
            for answer, _ in waiting:
                if not answer.done():
                    answer.set_exception(error)
        else:
            for answer, said in told:
                if not answer.done():  # its client may have gone meanwhile
                    answer.set_result(said)
