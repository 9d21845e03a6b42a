"""SIGTERM, SIGINT and SIGHUP around a worker: the first drains it, the second stops it at once.

They are caught before there is a worker, so that none is lost while the database is waited for.  A unit that blocks the
event loop can't keep the process: past the grace, or after the second signal, a thread of its own gives the jobs back
and ends it.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import sys
import threading
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


logger = logging.getLogger(__name__)

_CAUGHT: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_STDERR: Final = 2
GRACE: Final = 25.0
_LOOKS: Final = 10  #: a second each, for what the worker does past the grace
_GIVING_BACK: Final = 5.0  #: seconds at most, before the process ends anyway
_ENDS: Final = {signal.SIGTERM: Exit.TERMINATED, signal.SIGINT: Exit.INTERRUPTED, signal.SIGHUP: Exit.HUNG_UP}


class Stopping:
    """While the block runs, signals stop the worker; afterwards ``received`` is the first one."""

    def __init__(self, worker: Stoppable | None = None, *, grace_seconds: float = GRACE) -> None:
        self._worker, self._grace, self._ends_in = worker, grace_seconds, _LOOKS
        self._before: dict[int, Any] = {}
        self._quiet = current().quiet
        self._reader, self._writer = os.pipe()
        self.received: int | None = None

    def __enter__(self) -> Self:
        """Catch, but leave a hang-up ignored that ``nohup`` has ignored."""
        wanted = [number for number in _CAUGHT if signal.getsignal(number) is not signal.SIG_IGN]
        self._before = {number: signal.signal(number, self._stop) for number in wanted}
        threading.Thread(target=self._watch, name="joblog-stopping", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Put back what was there."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._writer)  # ends the thread

    def serves(self, worker: Stoppable) -> None:
        """From now on stop this one; at once, if a signal has come before."""
        self._worker = worker
        if self.received is not None:
            worker.stop()

    def _stop(self, number: int, _: FrameType | None) -> None:
        again = self.received is not None
        if not again:
            self.received = number
            self._tell(b"stopping: units go on to their next boundary; the same signal again stops at once\n")
        else:
            self._tell(b"stopping at once: other workers go on at the checkpoints\n")
        os.write(self._writer, b"!")
        if self._worker is not None:
            self._worker.stop(now=again)

    def _tell(self, text: bytes) -> None:
        """The main thread may be anywhere, also inside a print: only a system call is safe here."""
        if not self._quiet:
            os.write(_STDERR, text)

    # -- the last resort, in a thread of its own ---------------------------------------------------------------------

    def _watch(self) -> None:
        """Wait for the first signal, then for the grace or the second; the loop must turn, and then come to its end."""
        seconds = self._grace
        told = os.read(self._reader, 1)
        while told and not self._is_over(seconds):
            self._ends_in -= 1
            seconds = 1.0
            answers = getattr(self._worker, "answers", None)
            if not self._ends_in or (answers is not None and not answers()):
                self._leave()
        os.close(self._reader)

    def _is_over(self, seconds: float) -> bool:
        """Wait for the end of the block, the next signal, or so long."""
        readable, _, _ = select.select([self._reader], [], [], seconds)
        return bool(readable) and not os.read(self._reader, 64)

    def _leave(self) -> None:
        logger.warning("a unit keeps the process: its job is given back, and the process ends")
        if (give_back := getattr(self._worker, "give_back", None)) is not None:
            giving = threading.Thread(target=give_back, daemon=True)
            giving.start()
            giving.join(_GIVING_BACK)
        sys.stderr.flush()
        os._exit(self.end)

    @property
    def end(self) -> Exit:
        """How the command ends."""
        return Exit.DONE if self.received is None else _ENDS[signal.Signals(self.received)]
