"""Renewing the leases of a whole process, in a thread of its own: a blocked event loop must not lose a lease."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from ..domain.errors import JobLogError, StoreError
from .commands import claiming

if TYPE_CHECKING:
    from collections.abc import Callable

    from .commands.held import Held
    from .commands.log import JobLog

logger = logging.getLogger(__name__)


class Renewal:
    """Renews what is held each heartbeat, on its own connection; tells who lost theirs."""

    def __init__(self, log: JobLog, on_lost: Callable[[Held], None], on_beat: Callable[[], None]) -> None:
        self._log, self._on_lost, self._on_beat = log, on_lost, on_beat
        self._held: dict[Held, None] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="joblog-renewal", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; leases are no longer renewed."""
        self._stopped.set()
        self._thread.join()

    def add(self, held: Held) -> None:
        """Renew this one too."""
        with self._lock:
            self._held[held] = None

    def remove(self, held: Held) -> None:
        """No longer."""
        with self._lock:
            self._held.pop(held, None)

    def _run(self) -> None:
        while not self._stopped.wait(self._log.leases.heartbeat.total_seconds()):
            self.beat()
            self._on_beat()
        self._log.store.release_thread()

    def beat(self) -> None:
        """Renew now; a fault of the store costs nobody the lease before its deadline."""
        with self._lock:
            held = list(self._held)
        if not held:
            with suppress(StoreError):
                self._log.measure_clock()  # the store's may have been set
            return
        try:
            lost = claiming.renew(self._log, held)
        except JobLogError as error:
            logger.warning("leases could not be renewed: %s", error)
            lost = [one for one in held if one.is_overdue]
        for one in lost:
            if one in self._held:  # it may have ended meanwhile
                self._on_lost(one)
