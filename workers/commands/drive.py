"""One logic for threads and event loops: a command is a generator that yields what it needs done.

It yields an ``Append`` and gets its answer, or a function that reads and gets what that returns.  ``run`` does both in
the calling thread; ``run_soon`` awaits the writer and reads in a pool, so that an event loop is never blocked.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any, TypeVar

from ...domain.errors import JobLogError
from ...eventstore.append import Append
from .family import Together

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from concurrent.futures import Executor

    from ...eventstore.writer import GroupWriter

T = TypeVar("T")


class Invoke:
    """A call of the user's function: in the thread or on the loop that drives the command."""

    __slots__ = ("_args", "_function")

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._function, self._args = function, args

    def __call__(self) -> Any:
        """Call it."""
        return self._function(*self._args)


def _answer(want: Any, writer: GroupWriter) -> Any:
    if isinstance(want, Append):
        return writer.append(want)
    return want.write(writer) if isinstance(want, Together) else want()


def run(command: Generator[Any, Any, T], writer: GroupWriter) -> T:
    """Drive *command* in this thread."""
    answer: Any = None
    try:
        while True:
            want = command.send(answer)
            answer = _answer(want, writer)
    except StopIteration as end:
        value: T = end.value
        return value


def run_all(commands: Sequence[Generator[Any, Any, T]], writer: GroupWriter) -> list[T | Exception]:
    """Drive several commands side by side in this thread: their appends travel together.

    A command that is refused gives its error in its place, and does not touch the others.
    """
    results: list[Any] = [None] * len(commands)
    asking: Sequence[int] = range(len(commands))
    answers: Sequence[Any] = results
    while asking:
        whose: list[int] = []
        appends: list[Append] = []
        for index, answer in zip(asking, answers, strict=True):
            try:
                want = commands[index].send(answer)
                while not isinstance(want, Append):  # all that it wants before its next append
                    want = commands[index].send(_answer(want, writer))
            except StopIteration as end:
                results[index] = end.value
            except JobLogError as error:
                results[index] = error
            else:
                whose.append(index)
                appends.append(want)
        asking, answers = whose, writer.append_many(appends) if appends else ()
    return results


async def run_soon(command: Generator[Any, Any, T], writer: GroupWriter, readers: Executor | None) -> T:
    """Drive *command* from an event loop."""
    loop = asyncio.get_running_loop()
    answer: Any = None
    try:
        while True:
            want = command.send(answer)
            if isinstance(want, Append):
                answer = await writer.append_soon([want], loop)[0]
            elif isinstance(want, Invoke):
                try:
                    answer = want()
                    if inspect.isawaitable(answer):
                        answer = await answer
                except Exception as error:
                    command.throw(error)
                    raise
            else:
                answer = await loop.run_in_executor(readers, _answer, want, writer)
    except StopIteration as end:
        value: T = end.value
        return value
