"""Appends that wait for the writer, and how whoever waits is told: a thread, or an event loop."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from ..domain.errors import UnknownOutcomeError
from .append import Append
from .outcomes import Answer

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future

logger = logging.getLogger(__name__)


class Request:
    """An append, and who waits for its answer: a thread, or a future of an event loop."""

    __slots__ = ("answer", "append", "doubts", "future", "loop", "ready")

    def __init__(self, append: Append, loop: AbstractEventLoop | None = None) -> None:
        self.append = append
        self.answer: Answer | None = None
        self.doubts: tuple[UnknownOutcomeError, ...] = ()  #: tries that may have been written, also with its batch
        self.loop = loop
        self.future: Future[Answer] | None = None if loop is None else loop.create_future()
        self.ready: threading.Lock | None = None

    def expect(self) -> None:
        """Another thread will answer: make what this one waits for."""
        if self.loop is None and self.ready is None:
            self.ready = threading.Lock()
            self.ready.acquire()


class Bell:
    """Wakes one thread that looks for itself what there is to do; rung again before it looks, it wakes once."""

    __slots__ = ("_silent",)

    def __init__(self) -> None:
        self._silent = threading.Lock()
        self._silent.acquire()

    def ring(self) -> None:
        """Wake the thread now, or when it next listens."""
        if self._silent.locked():
            with suppress(RuntimeError):  # somebody else rang in between
                self._silent.release()

    def listen(self) -> None:
        """Wait until it rings."""
        self._silent.acquire()


def deliver(requests: list[Request]) -> None:
    """One call into each loop for all its answers."""
    by_loop: dict[AbstractEventLoop, list[Request]] = {}
    for request in requests:
        if request.loop is not None and request.answer is not None:
            by_loop.setdefault(request.loop, []).append(request)
    for loop, mine in by_loop.items():
        try:
            loop.call_soon_threadsafe(set_results, mine)
        except RuntimeError:  # the loop is closed: nobody waits any more, the append stands
            logger.debug("an event loop was closed before its appends were answered")


def set_results(requests: list[Request]) -> None:
    for request in requests:
        if request.future is not None and not request.future.done():
            request.future.set_result(request.answer)  # type: ignore[arg-type]
