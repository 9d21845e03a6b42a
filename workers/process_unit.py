"""Units in a process of their own: one picklable function, killed on time-out or when the lease is lost.

The child holds the worker's presence lock too and dies with its parent, so that the lock is free only when worker and
children are gone.
"""

from __future__ import annotations

import ctypes
import json
import multiprocessing
import os
import signal
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import DupFd
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from ..domain import withheld
from .errors import RetryLater, Stopped

if TYPE_CHECKING:
    from collections.abc import Callable

    from .book import Control

R = TypeVar("R")
_PR_SET_PDEATHSIG: Final = 1
_LOOK_SECONDS: Final = 0.2
_WATCH_EVERY: Final = 5  #: looks


class InProcess(Generic[R]):
    """Wraps a function for a verb: ``run.step("parse", in_process(parse, timeout=60), path)``."""

    def __init__(
        self, function: Callable[..., R], timeout: float | None, watch: Callable[[], None] | None = None
    ) -> None:
        self.function, self.timeout, self.watch = function, timeout, watch
        self.control: Control | None = None

    def bound(self, control: Control) -> InProcess[R]:
        """The same, for one run."""
        made = InProcess(self.function, self.timeout, self.watch)
        made.control = control
        return made

    def __call__(self, *args: Any) -> R:
        """Run it in a new process and wait; any exception of the function is raised here."""
        context = multiprocessing.get_context("spawn")
        mine, theirs = context.Pipe(duplex=False)
        fd = self.control.presence_fd if self.control is not None else None
        arguments = (theirs, os.getpid(), self.function, args, fd)
        process = context.Process(target=_Child(*arguments), daemon=True)
        process.start()
        theirs.close()
        try:
            return self._result(mine, process)
        finally:
            if process.is_alive():
                process.kill()
            process.join()
            mine.close()

    def _result(self, pipe: Connection, process: Any) -> R:
        left, looks = self.timeout, 0
        while not wait([pipe, process.sentinel], timeout=_LOOK_SECONDS):
            looks += 1
            if self.watch is not None and looks % _WATCH_EVERY == 0:
                self.watch()
            if (control := self.control) is not None and (control.abandoned or control.stop == "lease-lost"):
                raise Stopped(control.stop or "shutdown")
            if left is not None:
                left -= _LOOK_SECONDS
                if left <= 0:
                    raise RetryLater("process-timeout", f"killed after {self.timeout} s", category="network")
        try:
            good, value = pipe.recv()
        except EOFError:
            process.join()
            raise RetryLater("process-died", f"exit code {process.exitcode}", category="storage") from None
        if not good:
            raise value
        result: R = value
        return result


class _Child:
    """What the child runs; made in the parent, pickled, so it carries the presence descriptor across spawn."""

    def __init__(self, pipe: Connection, parent: int, function: Any, args: tuple[Any, ...], fd: int | None) -> None:
        self._pipe, self._parent, self._function, self._args, self._fd = pipe, parent, function, args, fd

    def __getstate__(self) -> dict[str, Any]:
        """Duplicate the descriptor for the child: its lock is shared."""
        state = dict(vars(self))
        state["_fd"] = None if self._fd is None else DupFd(self._fd)
        return state

    def __call__(self) -> None:
        held = None if self._fd is None else self._fd.detach()  # type: ignore[attr-defined]
        if hasattr(signal, "SIGKILL") and os.name == "posix":
            libc = ctypes.CDLL(None, use_errno=True)
            if hasattr(libc, "prctl"):
                libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != self._parent:  # it died before we asked to die with it
            os._exit(1)
        try:
            answer: tuple[bool, Any] = (True, _harmless(self._function(*self._args)))
        except Exception as error:  # noqa: BLE001 - the user's own: raised again in the parent
            error.args = tuple(withheld.scrub(each) if isinstance(each, str) else each for each in error.args)
            answer = (False, error)
        self._send(answer)
        if held is not None:
            os.close(held)

    def _send(self, answer: tuple[bool, Any]) -> None:
        try:
            self._pipe.send(answer)
        except Exception as error:  # noqa: BLE001 - what can't be pickled is told by its class
            told = TypeError(f"{type(answer[1]).__qualname__} can't leave its process: {type(error).__name__}")
            self._pipe.send((False, told))


def _harmless(result: Any) -> Any:
    """What the child returns.  Only the child knows the secrets that it resolved, so it looks for them itself."""
    withheld.refuse(json.dumps(result, default=str, ensure_ascii=False).encode("utf-8", "replace"), "result")
    return result


def in_process(
    function: Callable[..., R], *, timeout: float | None = None, watch: Callable[[], None] | None = None
) -> InProcess[R]:
    """Have a verb run *function* in a new process (``spawn``): picklable arguments and result, no ``atomic()``.

    *timeout* in seconds; past it the process is killed and the unit is tried again by the operation's policy.  *watch* is
    called here about once a second meanwhile; what it raises ends the process.
    """
    return InProcess(function, timeout, watch)
