"""SIGTERM and SIGINT around a worker: the first drains it, the second stops it at once."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any, Final

from .exits import Exit
from .settings import current

if TYPE_CHECKING:
    from types import FrameType, TracebackType
    from typing import Protocol, Self

    class Stoppable(Protocol):
        """A worker, or what else runs until it is told to stop."""

        def stop(self, *, now: bool = False) -> None:
            """Soon, or *now*."""


_CAUGHT: Final = (signal.SIGTERM, signal.SIGINT)
_STDERR: Final = 2


class Stopping:
    """While the block runs, signals stop *worker*; afterwards ``received`` is the first one."""

    def __init__(self, worker: Stoppable) -> None:
        self._worker = worker
        self._before: dict[int, Any] = {}
        self._quiet = current().quiet
        self.received: int | None = None

    def __enter__(self) -> Self:
        """Catch."""
        self._before = {number: signal.signal(number, self._stop) for number in _CAUGHT}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Put back what was there."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _stop(self, number: int, _: FrameType | None) -> None:
        again = self.received is not None
        if not again:
            self.received = number
            self._tell(b"stopping: units go on to their next boundary; the same signal again stops at once\n")
        else:
            self._tell(b"stopping at once: other workers go on at the checkpoints\n")
        self._worker.stop(now=again)

    def _tell(self, text: bytes) -> None:
        """The main thread may be anywhere, also inside a print: only a system call is safe here."""
        if not self._quiet:
            os.write(_STDERR, text)

    @property
    def end(self) -> Exit:
        """How the command ends."""
        if self.received is None:
            return Exit.DONE
        return Exit.TERMINATED if self.received == signal.SIGTERM else Exit.INTERRUPTED
