"""Following the log in a thread of a process that does other work too; woken by the log's waker, with a floor of its own.

It also takes in the files of notes (``recovery-events.jsonl``) that it was given, when they have changed, and lets the tree
of hashes grow (``projections.proof``), which signing, export and ``joblog verify`` rest on.

An idle log costs one look in ``FLOOR_SECONDS``; while something happens, what gathers in ``GATHER_SECONDS`` is one
transaction.  A process that leads no view looks again only when the leader's turn may have ended.  The tree takes a little at
a time, and waits in between while this process appends: who appends would wait for the interpreter, milliseconds each time.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..domain.errors import CorruptLogError, JobLogError, RebuildRunningError
from ..projections import view_rebuild
from ..projections.proof import tree
from ..projections.runner import Runner
from .commands import recovery

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..projections.view import View
    from .commands.log import JobLog

logger = logging.getLogger(__name__)

FLOOR_SECONDS: Final = 30.0
GATHER_SECONDS: Final = 0.2
OTHERS_SECONDS: Final = 1.0  #: what a process that leads nothing leaves to the one that did
AWAY_SECONDS: Final = 1.0  #: between tries while the store is away
LEAVES: Final = 50_000  #: events that the tree takes at one look: views must not wait for it
SLICE: Final = 1024  #: of them at a time, about 10 ms


class Following:
    """``start`` and ``stop`` are a thread's; ``run`` follows in the caller's."""

    def __init__(self, log: JobLog, views: Iterable[View] | None = None, *, files: Iterable[str] = ()) -> None:
        self.log = log
        self._files: dict[str, tuple[int, ...]] = dict.fromkeys(files, ())
        owner = f"{socket.gethostname()}:{os.getpid()}:{log.ids.next()[-6:]}"
        self.runner = Runner(log.store, log.mapper, owner, views)
        self._wake, self._stopped = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._next_look = self._quiet_until = float("-inf")
        self._leads = False
        self._leaves = 0  #: that the tree may still take before the next look
        self._seen = log.writer.seen

    def start(self) -> None:
        """Follow in a thread of its own."""
        self._thread = threading.Thread(target=self.run, name="joblog-views", daemon=True)
        self._thread.start()

    def stop(self, *, now: bool = False) -> None:
        """Finish the batch that is under way, let others lead."""
        del now  # there is nothing that takes long
        self._stopped.set()
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def run(self) -> None:
        """Follow until ``stop``."""
        ticket = self.log.waker.subscribe(self._wake.set, seen_only=True)
        try:
            while not self._stopped.is_set():
                self._wake.clear()
                self._wait(self._tick())
            self._leave()
        finally:
            self.log.waker.unsubscribe(ticket)
            self.log.store.release_thread()

    def _wait(self, seconds: float) -> None:
        """Until something was appended, or *seconds*; then let more gather, and do not look before it is of use."""
        if seconds <= 0 or not self._wake.wait(seconds):
            return
        left = self._quiet_until - self.log.clock.monotonic()
        # Who led last comes first, also after a time in which nobody had to: the views do not go back and forth.
        self._stopped.wait(max(left, GATHER_SECONDS if self._leads else OTHERS_SECONDS))

    def _tick(self) -> float:
        """One step; returns how long nothing needs to be done unless something is appended."""
        now = self.log.clock.monotonic()
        try:
            return self.tick(now)
        except JobLogError as error:  # the store is away: nothing of this process ends because of that
            logger.warning("the views stand still: %s", error)
            return AWAY_SECONDS + self.log.random.random()
        except Exception:  # a fault in here must not end what the process is for
            logger.exception("the views stand still for now")
            return FLOOR_SECONDS

    def tick(self, now: float) -> float:
        """As ``_tick``, at *now* of the monotonic clock; raises what goes wrong."""
        look = now >= self._next_look
        if look:
            self._next_look = now + FLOOR_SECONDS
            self._import()
        step = self.runner.step(look=look)
        if look and not step.again:
            self._look_after()
            self._leaves = LEAVES if step.led else 0
        if self._leaves and not step.again:
            self._grow_tree()
        self._leads = step.led > 0
        self._quiet_until = now
        if step.again:
            return 0.0
        if self._leaves:
            return GATHER_SECONDS if self._is_appending() else 0.0
        if step.led or step.others_for is None:
            return max(self._next_look - now, 0.0)
        self._quiet_until = now + step.others_for
        return min(max(step.others_for, GATHER_SECONDS), FLOOR_SECONDS)

    def _look_after(self) -> None:
        """Views of older code get a new generation, old generations are dropped once nobody reads them any more."""
        store = self.log.store
        now = None
        for name, one in store.views.standings().items():
            view = self.runner.views.get(name)
            if view is None:
                continue
            if one.version < view.version:
                self._rebuild(view)
            elif one.old_until is not None:
                now = store.now() if now is None else now
                if one.old_until <= now:
                    view_rebuild.drop_old(store, view)

    def _grow_tree(self) -> None:
        """What the tree has seen, nobody changes unnoticed any more; so it is not left to who signs it."""
        left, self._leaves = self._leaves, 0

        def grown(size: int, head: int) -> None:
            self._leaves = max(left - SLICE, 0) if size < head else 0

        try:
            tree.build(self.log.store, most=min(left, SLICE), report=grown)
        except CorruptLogError as error:
            logger.error("the log is not what its tree has seen: %s", error)  # noqa: TRY400 - a finding, no fault in here

    def _is_appending(self) -> bool:
        """Whether this process has appended anything since it was last asked."""
        before, self._seen = self._seen, self.log.writer.seen
        return self._seen != before

    def _import(self) -> None:
        """Take in what others have reported since the files were last looked at."""
        for name, seen in self._files.items():
            try:
                stat = Path(name).stat()
                found: tuple[int, ...] = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
            except OSError:
                found = (0,)
            if found != seen:
                recovery.import_file(self.log, name)
                self._files[name] = found

    def _rebuild(self, view: View) -> None:
        logger.info("view %s is of older code: it is made new", view.name)
        try:
            view_rebuild.rebuild(self.log.store, self.log.mapper, view, self.runner.owner)
        except RebuildRunningError as error:
            logger.info("view %s: %s", view.name, error)

    def _leave(self) -> None:
        try:
            self.runner.step()
            self.runner.resign()
        except JobLogError as error:
            logger.warning("the views are left as they are: %s", error)
