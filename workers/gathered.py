"""Questions of many tasks to the store, asked together: those that come while the last are answered are the next ones.

Each is answered by a look that began after it was asked.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor

Q = TypeVar("Q")
A = TypeVar("A")


class Gathered(Generic[Q, A]):
    """On one event loop.  *answer* is called in a thread, with questions as they came, and gives as many answers."""

    def __init__(self, answer: Callable[[Sequence[Q]], Sequence[A]]) -> None:
        self._answer = answer
        self._waiting: list[tuple[Q, asyncio.Future[A]]] = []
        self._looking: asyncio.Task[None] | None = None

    async def ask(self, question: Q, readers: Executor | None) -> A:
        """The answer; raises what the whole look raised."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[A] = loop.create_future()
        self._waiting.append((question, future))
        if self._looking is None:
            self._looking = loop.create_task(self._look(readers))
        return await future

    async def _look(self, readers: Executor | None) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                taken, self._waiting = self._waiting, []
                try:
                    answers = await loop.run_in_executor(readers, self._answer, [question for question, _ in taken])
                except Exception as error:  # noqa: BLE001 - raised where each of them waits
                    for _, future in taken:
                        if not future.done():
                            future.set_exception(error)
                else:
                    for (_, future), answer in zip(taken, answers, strict=True):
                        if not future.done():
                            future.set_result(answer)
        finally:
            self._looking = None
