"""The bookkeeping of one run of a job: which units are done, where each list or source goes on, what to record next.

It does no input or output: it yields what it needs (see ``commands.drive``), so that threads and event loops share it.
The five steps of a unit are visible in ``unit``.
"""

from __future__ import annotations

import threading
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid5

from ..domain import storable
from ..domain.errors import InvalidFieldError, UnitDoneError
from ..eventstore.failpoint import failpoint
from ..eventstore.mapper import evidence_of
from .commands.drive import Invoke
from .errors import Stopped
from .process_unit import InProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from datetime import datetime

    from ..eventstore.append import Delivery
    from .commands.held import Held
    from .commands.log import JobLog
    from .outbound.clients import Clients
    from .provider import Provider
    from .redo import Redo

STEPS_LIMIT: Final = 10_000
LONGEST_WAIT: Final = 1.0  #: seconds that a finished unit waits for others of its commit
_MISSING: Final = object()


class Control:
    """What the worker wants of a running job; read at each boundary."""

    def __init__(self) -> None:
        self.stop: str | None = None  #: shutdown, yield, lease-lost
        self.abandoned = False  #: the grace is over: the unit in flight is not waited for
        self.presence_fd: int | None = None  #: of the worker, for units in processes
        self._asked: threading.Event | None = None  #: made by who waits: few do

    def ask(self, cause: str) -> None:
        """Have the job stop at its next boundary."""
        if self.stop != "lease-lost":
            self.stop = cause
        self._ring()

    def abandon(self) -> None:
        """Have the unit in flight end before its checkpoint, if it can be ended."""
        self.abandoned = True
        self._ring()

    def _ring(self) -> None:
        if self._asked is not None:
            self._asked.set()

    def wait(self, seconds: float) -> None:
        """Wait in a thread, until *seconds* are over or the worker asks."""
        if self._asked is None:
            self._asked = threading.Event()
        if self.stop is None and not self.abandoned:  # looked at behind the event's making, so that no ring is missed
            self._asked.wait(seconds)


class Book:
    """See the module."""

    def __init__(
        self,
        log: JobLog,
        held: Held,
        control: Control,
        *,
        gates: Mapping[str, Provider] = MappingProxyType({}),
        clients: Clients | None = None,
        units_per_commit: int = 1,
        redo: Redo | None = None,
    ) -> None:
        self.log, self.held, self.control, self.redo = log, held, control, redo
        self.gates, self.clients = gates, clients
        job = held.job
        cursor = job.cursor if isinstance(job.cursor, dict) else {}
        self.marks: dict[str, Any] = dict(cursor)  #: per verb name: where it goes on
        self.tallies: dict[str, int] = dict(job.tallies)
        self.unit = ""  #: the unit in flight
        self.skip_mark: tuple[str, Any] | None = None  #: where its verb goes on if it is passed over
        self._steps: dict[str, Any] | None = {} if job.done == 0 else None
        self._must_attempt = job.crashes > 0 or job.unit_attempt > 0 or bool(job.gate)
        self._pending: list[tuple[str, Any]] = []  #: finished units that wait for the next commit
        self._pending_since = 0.0
        self._units_per_commit = units_per_commit
        # After a crash or a failure the units behind the checkpoint go one by one: the bad one stands alone.
        self._alone = units_per_commit if self._must_attempt else 0

    # -- boundaries --------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Stop here if the lease is gone, the worker wants it, or an operator does."""
        if self.control.stop is not None:
            raise Stopped(self.control.stop)
        if self.held.is_overdue:
            raise Stopped("lease-lost")
        if self.held.job.wish:
            raise Stopped("wish")

    def unit_id(self, unit: str | None = None) -> str:
        """An id that is the same each time this unit is tried: the idempotency key to hand on."""
        return str(uuid5(self.held.job_id, self.unit if unit is None else unit))

    # -- units -------------------------------------------------------------------------------------------------------

    def begun(self, unit: str, skip_mark: tuple[str, Any] | None = None) -> Generator[Any, Any, None]:
        """Spend an attempt before the body, where a death in it must count."""
        self.unit, self.skip_mark = unit, skip_mark
        if self._must_attempt:
            yield from self.flush()
            self._must_attempt = bool(self.held.job.gate)
            yield from self.held.attempting(unit)
            failpoint("unit.attempted")

    def done(
        self,
        units: list[tuple[str, Any]],
        mark: tuple[str, Any] | None = None,
        *,
        at_once: bool = False,
        delivery: Delivery | None = None,
    ) -> Generator[Any, Any, None]:
        """Record finished units and where their verb goes on: evidence and checkpoint in one commit.

        Where the operation declares ``units_per_commit`` they may wait for others; never with *at_once*, nor with a
        *delivery*, the record of a webhook that is settled in the same commit.
        """
        if not self._pending:
            self._pending_since = self.log.clock.monotonic()
        self._pending += units
        if mark is not None:
            self.marks = {**self.marks, mark[0]: mark[1]}
        self.unit = ""
        if at_once or delivery is not None or self._is_commit_due():
            yield from self.flush(delivery)

    def _is_commit_due(self) -> bool:
        if self._alone:
            self._alone -= 1
            return True
        waited = self.log.clock.monotonic() - self._pending_since
        return len(self._pending) >= self._units_per_commit or waited >= LONGEST_WAIT

    @property
    def is_flushed(self) -> bool:
        """Whether every finished unit is recorded."""
        return not self._pending

    def flush(self, delivery: Delivery | None = None) -> Generator[Any, Any, None]:
        """Record what is pending, with *delivery*."""
        while self._pending:
            units = list(self._pending)  # they stay until they are recorded: the marks stand behind them already
            try:
                checkpoint = {"cursor": self.marks, "tallies": dict(self.tallies)}
                yield from self.held.completing_units(units, checkpoint, delivery=delivery)
            except UnitDoneError:
                # They are in the log already, under an answer we never got: the checkpoint is what the log says.
                stored = yield partial(self.log.store.unit_states, self.held.job_id, [unit for unit, _ in units])
                self._pending = [unit for unit in self._pending if unit[0] not in stored]
                if not self._pending:
                    self.marks = dict(self.held.job.cursor or {})
            else:
                del self._pending[: len(units)]
            failpoint("unit.recorded")

    def pending(self, unit: str) -> Any:
        """The evidence of a unit that is finished and not recorded yet, or ``_MISSING``."""
        return next((evidence for key, evidence in self._pending if key == unit), _MISSING)

    def known(self, unit: str) -> Generator[Any, Any, Any]:
        """The recorded result of a step, or ``_MISSING``; all steps are read in one query."""
        if self._steps is None:
            job_id, store = self.held.job_id, self.log.store
            states = yield lambda: store.unit_states(job_id, prefix="step:")
            self._steps = {key: evidence_of(state) for key, state in states.items()}
        elsewhere = {} if self.redo is None else self.redo.steps
        return self._steps.get(unit, elsewhere.get(unit, _MISSING))

    def step(self, name: str, function: Callable[..., Any], args: tuple[Any, ...]) -> Generator[Any, Any, Any]:
        """One named unit whose result is remembered: returned, not run again."""
        unit = f"step:{storable.name(name, 'step')}"
        # 1 the job is claimed and its checkpoint read; 2 look the unit's result up by its key
        self.check()
        result = yield from self.known(unit)
        if result is not _MISSING:
            return result
        if self._steps is not None and len(self._steps) >= STEPS_LIMIT:
            raise InvalidFieldError("step", f"more than {STEPS_LIMIT:,} steps", "use batches or items for many units")
        yield from self.begun(unit)
        # 3 one bounded unit of work
        failpoint("unit.before_effect")
        result = yield self.call(function, args)
        failpoint("unit.after_effect")
        # 4 verify that it can be kept, then evidence and checkpoint in one commit
        storable.payload(result, f"result of {name}")
        yield from self.done([(unit, result)])
        self.remember(unit, result)
        # 5 the lease was renewed with the commit where due; yield, then the next
        self.check()
        return result

    def remember(self, unit: str, result: Any) -> None:
        """Keep a recorded step at hand for this run."""
        if self._steps is not None:
            self._steps[unit] = result

    def call(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """A call of the user's function: in place, or in a process of its own."""
        if isinstance(function, InProcess):
            bound = function.bound(self.control)
            return lambda: bound(*args)
        return Invoke(function, args)

    def until(self, name: str, wake: datetime) -> Generator[Any, Any, None]:
        """Sleep durably: the instant is recorded once, the lease and the slot are given back."""
        unit = f"step:{name}"
        self.check()
        recorded = yield from self.known(unit)
        if recorded is _MISSING:
            yield from self.done([(unit, wake.isoformat())])
            self.remember(unit, wake.isoformat())
        else:
            wake = type(wake).fromisoformat(recorded)
        if self.log.now() < wake:
            raise Stopped("wait", wake)


def missing(value: Any) -> bool:
    """Whether ``Book.known`` found nothing."""
    return value is _MISSING
