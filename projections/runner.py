"""Following the log for all views at once: one process for each view, elected and fenced, any other can take over.

A turn is a lease in the database that each batch renews in its own transaction, so an idle leader costs nothing; when it
has run out, whoever next sees something to do takes the view.  Of two that think they have it, the position and the
token let one write.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..domain.errors import UnknownOutcomeError
from ..eventstore.store import ConflictError, LockedError
from ..eventstore.views import TurnLostError, ViewWrite
from .folding import Folder, page, reason_of
from .uncollected import uncollected
from .views import VIEWS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..eventstore.mapper import OrjsonMapper
    from ..eventstore.store import Store
    from ..eventstore.views import Making, Standing, Turn
    from .view import Happened, View

logger = logging.getLogger(__name__)

BATCH: Final = 5000  #: events a transaction
TURN_MICROS: Final = 10_000_000  #: a leader that writes nothing for so long may be replaced


@dataclass(frozen=True, slots=True)
class Step:
    """What one step did."""

    events: int  #: passed, for whichever view
    again: bool  #: there is more to read at once
    led: int  #: views that this process writes
    others_for: float | None = None  #: seconds until a turn of others may end


@dataclass(slots=True)
class _Led:
    turn: Turn
    folder: Folder
    position: int


class Runner:
    """One process' part in following the log; see the module.  Not thread-safe."""

    def __init__(
        self, store: Store, mapper: OrjsonMapper, owner: str, views: Iterable[View] | None = None, *, batch: int = BATCH
    ) -> None:
        self.store, self.owner, self.batch = store, owner, batch
        self._mapper = mapper
        self.views = {view.name: view for view in (VIEWS.values() if views is None else views)}
        self._led: dict[str, _Led] = {}
        self._given_up: dict[str, int] = {}  #: view -> the position it stopped at, under this code
        self._others_for: float | None = None
        self._lost = False  #: a view's turn, to somebody else or because its generation was replaced: look anew

    # -- one step ----------------------------------------------------------------------------------------------------

    def step(self, *, look: bool = True) -> Step:
        """Read one batch and bring every view that this process leads behind it.

        *look*: also whether others have left a view to be led; without one of its own it always looks.
        """
        if not self._led or self._lost or (look and len(self._led) < len(self.views)):
            self._lost = False
            self._elect()
        led = dict(self._led)
        if not led:
            return Step(0, again=False, led=0, others_for=self._others_for)
        behind, head = min(one.position for one in led.values()), self.store.head()
        if behind >= head:
            return Step(0, again=False, led=len(led), others_for=self._others_for)
        views = tuple(self.views[name] for name in led)
        with uncollected():
            happened, last = page(self.store, self._mapper, views, behind, head, self.batch)
            try:
                self._bring(led, happened, last)
            except BaseException:
                self._led = {}  # what they remember may be ahead of what was written: look anew at where all stands
                raise
        again = last < head or any(one.position < last for one in self._led.values())
        return Step(last - behind, again=again, led=len(self._led), others_for=self._others_for)

    def run(self) -> int:
        """Step until nothing is left to read; returns how many events were read."""
        events = 0
        while True:
            step = self.step()
            events += step.events
            if not step.again:
                return events

    def resign(self) -> None:
        """Let others lead at once."""
        turns = [one.turn for one in self._led.values()]
        self._led = {}
        if turns:
            self.store.views.resign(turns, self.owner)

    # -- election ----------------------------------------------------------------------------------------------------

    def _elect(self) -> None:
        """Take what nobody leads, if there is anything to do for it."""
        standings, head, now = self.store.views.standings(), self.store.head(), self.store.now()
        wanted = {name: view.version for name, view in self.views.items() if name not in self._led}
        self._others_for = None
        for name in list(wanted):
            one = standings.get(name)
            if one is not None and not self._is_free(one, now, head):
                del wanted[name]
        if not wanted or not head:
            return
        turns = self.store.views.elect(wanted, self.owner, TURN_MICROS)
        if turns:  # positions are read after the turns were taken: whoever wrote before can write no more
            standings = self.store.views.standings()
        for name, turn in turns.items():
            folder = Folder(self.views[name], self.store.views, turn.generation)
            self._led[name] = _Led(turn, folder, standings[name].position)

    def _is_free(self, one: Standing, now: int, head: int) -> bool:
        if one.version != self.views[one.name].version or self._given_up.get(one.name) == one.stopped_at is not None:
            return False
        if one.owner not in {"", self.owner} and one.alive_until > now:
            left = (one.alive_until - now) / 1_000_000
            self._others_for = left if self._others_for is None else min(left, self._others_for)
            return False
        return one.position < head

    # -- writing -----------------------------------------------------------------------------------------------------

    def _bring(self, led: dict[str, _Led], happened: Sequence[Happened], last: int) -> None:
        writes = {name: self._folding(one, happened, last) for name, one in led.items() if one.position < last}
        try:
            self._write(led, writes)
        except (TurnLostError, ConflictError, LockedError, UnknownOutcomeError):
            for one in led.values():  # what they remember is ahead of what was written
                one.folder.forget()
            self._write_alone(led, happened, last)

    @staticmethod
    def _folding(one: _Led, happened: Sequence[Happened], last: int) -> Making:
        return lambda: one.folder.fold(happened, one.position, last)

    def _write(self, led: dict[str, _Led], writes: dict[str, Making]) -> None:
        given = {led[name].turn: make for name, make in writes.items()}
        for turn, write in self.store.views.write(given, self.owner, TURN_MICROS).items():
            led[turn.name].position = write.after
            if write.stop is not None:
                self._gave_up(turn.name, *write.stop)

    def _write_alone(self, led: dict[str, _Led], happened: Sequence[Happened], last: int) -> None:
        """Each view by itself, so that one that can't be written stops no other."""
        for name, one in led.items():
            try:
                position = self.store.views.standings()[name].position
                if position >= last:
                    one.position = position
                    continue
                one.position = max(one.position, position)
                self._write(led, {name: self._folding(one, happened, last)})
            except (TurnLostError, LockedError, UnknownOutcomeError) as error:
                logger.info("view %s is left for now: %s", name, error)
                self._lose(name)
            except ConflictError as error:
                logger.exception("view %s can't be written behind %d", name, one.position)
                self._stop(name, one, reason_of(error))

    def _stop(self, name: str, one: _Led, reason: str) -> None:
        write = ViewWrite(one.position, one.position, stop=(one.position + 1, reason))
        try:
            self._write({name: one}, {name: lambda: write})
        except TurnLostError:
            self._lose(name)

    def _lose(self, name: str) -> None:
        self._led.pop(name, None)
        self._lost = True

    def _gave_up(self, name: str, position: int, reason: str) -> None:
        logger.error("view %s stands still at position %d: %s", name, position, reason)
        self._given_up[name] = position
        self._led.pop(name, None)
