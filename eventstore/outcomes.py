"""What became of an append that did not simply commit: refused, in the log after all, or unknown; never guessed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ..domain.errors import JobLogError, RefusedError, UnknownOutcomeError, VersionConflictError
from .append import Append, Stored
from .mapper import event_id
from .store import ConflictError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .busy import BusyRetry
    from .store import Store

logger = logging.getLogger(__name__)

Answer = Stored | JobLogError


class Outcomes:
    """Asks the store."""

    def __init__(self, store: Store, busy: BusyRetry) -> None:
        self._store, self._busy = store, busy

    def diagnose(self, append: Append, conflict: ConflictError) -> Answer:
        """Why a refused append does not go, or where it is."""
        try:
            return self._busy.run(lambda: self._store.diagnose(append))
        except ConflictError:
            logger.debug("a conflict that is gone: %s", conflict)
            return VersionConflictError(append.stream_id, append.expected)  # reload and decide again
        except JobLogError as error:
            return error

    def refused(self, append: Append, conflict: ConflictError, doubts: Sequence[UnknownOutcomeError]) -> Answer:
        """The same after tries of it whose answers were lost, if there were any."""
        answer = self.diagnose(append, conflict)
        return self._doubted(append, answer, doubts[-1]) if doubts else answer

    def _doubted(self, append: Append, answer: Answer, doubt: UnknownOutcomeError) -> Answer:
        """A refusal after a try whose answer was lost is only definite once another event has that version.

        The lost try may still be waiting for a lock in its backend, and may have passed the check that refused this one.
        """
        if isinstance(answer, Stored):
            return answer
        if not isinstance(answer, RefusedError):
            return doubt  # the store could not be read back either
        try:
            first = self._store.read(append.stream_id, after=append.expected, limit=1)
            if not first:
                return doubt
            if not append.event_id or event_id(first[0].state) != append.event_id:
                return answer
            # It landed between the refusal and this look: the last read decides, not the first.
            position = self._store.position_of(append.stream_id, append.expected + 1)
        except JobLogError:
            return doubt
        return doubt if position is None else Stored(position)

    def resolve(self, append: Append, error: UnknownOutcomeError) -> Answer:
        """After an unknown outcome: in the log, or still unknown; never guessed."""
        try:
            return self._store.diagnose(append)
        except Exception:  # noqa: BLE001 - what can't even be asked for stays unknown
            return error
