"""Which stage of a program takes how much: functions are wrapped from outside, and their CPU is read by the thread's clock.

What a stage calls that is a stage itself is not counted twice.  A wrapper costs something, too: it is measured beside and
taken off.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class Stage:
    """What a stage has used so far, in seconds; *waits*: neither at work nor in a stage within it."""

    calls: int = 0
    cpu: float = 0.0
    waits: float = 0.0


class Stages:
    """The stages of one process."""

    def __init__(self) -> None:
        self.found: dict[str, Stage] = {}
        self._local = threading.local()
        self._lock = threading.Lock()

    def wrap(self, owner: Any, attribute: str, name: str) -> None:
        """Count every call of *owner*'s function from now on; a class that defines a class method keeps one."""
        plain = getattr(owner, attribute)
        counted = self._counted(plain, self.found.setdefault(name, Stage()))
        is_bound = isinstance(owner, type) and getattr(plain, "__self__", None) is owner
        setattr(owner, attribute, staticmethod(counted) if is_bound else counted)

    def _counted(self, plain: Callable[..., Any], stage: Stage) -> Callable[..., Any]:
        def counted(*args: Any, **more: Any) -> Any:
            outer: list[float] = getattr(self._local, "inner", [0.0, 0.0])
            inner = self._local.inner = [0.0, 0.0]
            wall, cpu = time.perf_counter(), time.thread_time()
            try:
                return plain(*args, **more)
            finally:
                cpu, wall = time.thread_time() - cpu, time.perf_counter() - wall
                self._local.inner = outer
                outer[0] += cpu
                outer[1] += wall
                with self._lock:
                    stage.calls += 1
                    stage.cpu += cpu - inner[0]
                    stage.waits += (wall - inner[1]) - (cpu - inner[0])

        return counted

    def done(self) -> dict[str, Stage]:
        """What was found, without what the wrappers themselves took inside."""
        own = overhead()
        for stage in self.found.values():
            stage.cpu = max(stage.cpu - own * stage.calls, 0.0)
        return {name: stage for name, stage in self.found.items() if stage.calls}


def overhead(calls: int = 2000) -> float:
    """Seconds that a wrapper counts as CPU of a stage that does nothing."""

    class Nothing:
        @staticmethod
        def at_all() -> None:
            pass

    costs: list[float] = []
    for _ in range(7):
        stages, nothing = Stages(), Nothing()
        stages.wrap(nothing, "at_all", "nothing")
        for _ in range(calls):
            nothing.at_all()
        costs.append(stages.found["nothing"].cpu / calls)
    return median(costs)
