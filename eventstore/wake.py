"""Wake-up of followers and workers: hints that something was appended, with polling as the floor.

A hint may come late, twice or never; whoever waits looks for itself.  Within a process it is a call.  Between processes
it is, on SQLite, a change of the ``-wal`` file, of which the kernel tells (else its size and time, looked at every 50 ms),
without any SQL; on PostgreSQL a rate-limited NOTIFY that goes out after the commit on a connection of its own.
"""

from __future__ import annotations

import logging
import selectors
import socket
import threading
from abc import ABC, abstractmethod
from contextlib import closing, suppress
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from .inotify import FileWatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from .sql_connections import Pinned
    from .sql_store import SqlStore
    from .sqlite_store import SqliteStore

logger = logging.getLogger(__name__)

STAT_SECONDS: Final = 0.05
FSYNC_SECONDS: Final = 0.0025  #: the file grows first, the commit is seen after its fsync
ECHOES: Final = 2  #: more wake-ups after a change, for a slower disk
#: As many where the kernel tells of a change: each comes after twice the time of the one before, up to ``STAT_SECONDS``.
TOLD_ECHOES: Final = 6
FRESH_ECHOES: Final = 3  #: after so many without another change the next one is news, not more of the same
POLL_SECONDS: Final = 1.0
SILENT_SECONDS: Final = 30.0  #: how long one wait for a NOTIFY lasts where nobody asks for the polling floor
NOTIFY_SECONDS: Final = 0.01  #: at most one NOTIFY in this span
CALM_SECONDS: Final = 0.09  #: more of it behind one that tells of no job, unless there is one to claim
CHANNEL: Final = "joblog"


class Waker:
    """Calls whoever subscribed when something may have been appended."""

    def __init__(self) -> None:
        self._subscribers: dict[int, tuple[Callable[[], None], bool, bool]] = {}
        self._tickets = count(1)
        self._lock = threading.Lock()

    def subscribe(self, call: Callable[[], None], *, ready_only: bool = False, seen_only: bool = False) -> int:
        """Have *call* called (from any thread; it must be quick); returns a ticket.

        *ready_only*: only when a job may have become claimable, as far as that is known.  *seen_only*: only when
        something was seen, not with the polling floor; whoever wants that has a floor of its own.
        """
        ticket = next(self._tickets)
        with self._lock:
            self._subscribers[ticket] = (call, ready_only, seen_only)
            self._watch()
        return ticket

    def unsubscribe(self, ticket: int) -> None:
        """End a subscription; a second time does nothing."""
        with self._lock:
            self._subscribers.pop(ticket, None)

    @property
    def has_floor(self) -> bool:
        """Whether somebody wants to be called now and then although nothing was seen."""
        return any(not seen_only for _, _, seen_only in list(self._subscribers.values()))

    def notify(self, *, ready: bool = False) -> None:
        """Something was appended by this process; *ready*: a job that may be claimed."""
        if self._subscribers:
            self.wake_all(ready=ready)

    def wake_all(self, *, ready: bool = True, seen: bool = True) -> None:
        """Call every subscriber whom it concerns; *seen*: not only because it is time to look again."""
        with self._lock:
            calls = [
                call
                for call, ready_only, seen_only in self._subscribers.values()
                if (ready or not ready_only) and (seen or not seen_only)
            ]
        for call in calls:
            try:
                call()
            except Exception:  # the writer's thread must go on, and so must the others that wait
                logger.exception("a subscriber failed to be woken")

    def _watch(self) -> None:
        """Start looking at other processes; the first subscriber needs it."""

    def close(self) -> None:
        """Stop looking."""


class _WatchingWaker(Waker, ABC):
    """A waker with one thread that looks at what other processes do."""

    def __init__(self) -> None:
        super().__init__()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def _watch(self) -> None:
        if self._stopped.is_set():
            return
        if self._thread is None:
            self._bell, self._rung = socket.socketpair()  # ends a long wait: a new subscriber, or the end
            self._bell.setblocking(False)  # noqa: FBT003 - the library's own signature
            self._thread = threading.Thread(target=self._run, name="joblog-waker", daemon=True)
            self._thread.start()
        else:
            self._ring()

    def _ring(self) -> None:
        with suppress(BlockingIOError):  # it has rung often enough
            self._bell.send(b"!")

    def _wait_for(self, descriptor: int, seconds: float | None = None) -> bool:
        """Until there is something to read, the bell rings (True), or *seconds*, else the polling floor, are over (False)."""
        if seconds is None:
            seconds = POLL_SECONDS if self.has_floor else SILENT_SECONDS
        with selectors.DefaultSelector() as waiting:
            waiting.register(descriptor, selectors.EVENT_READ)
            waiting.register(self._rung, selectors.EVENT_READ)
            found = waiting.select(seconds)
        if any(key.fileobj is self._rung for key, _ in found):
            self._rung.recv(4096)
        return bool(found)

    @abstractmethod
    def _run(self) -> None:
        """Look, and wake, until stopped."""

    def close(self) -> None:
        """Stop looking."""
        with self._lock:  # no new subscriber rings a bell that is gone
            if self._stopped.is_set():
                return
            self._stopped.set()
        if self._thread is not None:
            self._ring()
            self._thread.join()
            self._bell.close()
            self._rung.close()


class FileWaker(_WatchingWaker):
    """Watches a file: told by the kernel where it can, else looking at size and time."""

    def __init__(self, store: SqliteStore) -> None:
        super().__init__()
        self._path = store.path.with_name(store.path.name + "-wal")

    def _run(self) -> None:
        try:
            watch = FileWatch(self._path)
        except OSError as error:
            logger.debug("%s is looked at every %s s: %s", self._path, STAT_SECONDS, error)
            self._look_often()
        else:
            with closing(watch):
                self._be_told(watch)

    def _be_told(self, watch: FileWatch) -> None:
        self.wake_all()  # for what was appended before
        echo, pause = TOLD_ECHOES, FSYNC_SECONDS
        while not self._stopped.is_set():
            is_silent = echo == TOLD_ECHOES
            told = self._wait_for(watch.fileno(), None if is_silent else min(FSYNC_SECONDS * 2**echo, STAT_SECONDS))
            if watch.has_changed():
                if echo >= FRESH_ECHOES:
                    pause = FSYNC_SECONDS
                else:  # whoever writes all the time is looked at more and more seldom
                    pause = min(2 * pause, STAT_SECONDS)
                    self._stopped.wait(pause)
                    watch.has_changed()
                echo = 0
                self.wake_all()
            elif is_silent:
                self.wake_all(seen=False)
                if told:  # a neighbour of the file may be written all the time
                    self._stopped.wait(STAT_SECONDS)
            else:
                echo += 1
                self.wake_all()

    def _look(self) -> tuple[int, int]:
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            return (0, 0)
        return (stat.st_size, stat.st_mtime_ns)

    def _look_often(self) -> None:
        before, idle, again = self._look(), 0.0, 0
        self.wake_all()  # for what was appended before the first look
        while not self._stopped.wait(STAT_SECONDS):
            now = self._look()
            idle += STAT_SECONDS
            seen = True
            if now != before:
                before, again = now, ECHOES
            elif again:
                again -= 1
            elif idle < POLL_SECONDS:
                continue
            else:
                seen = False
            idle = 0.0
            self.wake_all(seen=seen)


class ListenWaker(_WatchingWaker):
    """Listens on PostgreSQL and sends hints to others; without LISTEN (pooler-safe) it only polls."""

    def __init__(self, store: SqlStore, *, pooler_safe: bool = False) -> None:
        super().__init__()
        self._store, self._pooler_safe = store, pooler_safe
        self._send, self._hurry = threading.Event(), threading.Event()
        self._owing = threading.Lock()
        self._ready = self._owed = False  #: what others were not told yet
        self._sender: threading.Thread | None = None

    def notify(self, *, ready: bool = False) -> None:
        """Wake this process' own at once, others through the sender."""
        super().notify(ready=ready)
        if not self._pooler_safe:
            with self._owing:
                self._ready, self._owed = self._ready or ready, True
            self._send.set()
            if ready:
                self._hurry.set()
            if self._sender is None:
                with self._lock:
                    if self._sender is None:
                        self._sender = threading.Thread(target=self._run_sender, name="joblog-notify", daemon=True)
                        self._sender.start()

    def _run_sender(self) -> None:
        """Send what is owed; also before the end, as whoever hands in one job and goes does nothing else."""
        pinned = self._store.pin()
        is_last = False
        while not is_last:
            self._send.wait()
            self._send.clear()
            is_last = self._stopped.is_set()  # set before the bell that told of it
            self._hurry.clear()
            with self._owing:
                ready, owed = self._ready, self._owed
                self._ready = self._owed = False
            if owed:
                self._tell_others(pinned, ready=ready)
                self._stopped.wait(NOTIFY_SECONDS)
                if not ready:
                    self._hurry.wait(CALM_SECONDS)
        pinned.close()

    @staticmethod
    def _tell_others(pinned: Pinned, *, ready: bool) -> None:
        try:
            pinned.open().execute(f"NOTIFY {CHANNEL}, '{'ready' if ready else ''}'")
        except Exception as error:  # noqa: BLE001 - a hint: followers poll anyway
            logger.debug("a wake-up could not be sent: %s", error)
            pinned.drop()

    def _run(self) -> None:
        pinned: Pinned | None = None
        while not self._stopped.is_set():
            if self._pooler_safe:
                self._stopped.wait(POLL_SECONDS)
                self.wake_all()  # as if something was seen: there is no other hint
                continue
            try:
                if pinned is None:
                    pinned = self._store.pin()
                    pinned.open().execute(f"LISTEN {CHANNEL}")
                    self.wake_all()  # for what was appended before it listened
                notes = self._notes(pinned.driver)
            except Exception as error:  # noqa: BLE001 - the database may be restarting; polling goes on
                logger.debug("no wake-ups for now: %s", error)
                if pinned is not None:
                    pinned.drop()
                    pinned = None
                self._stopped.wait(POLL_SECONDS)
                self.wake_all()
            else:
                self.wake_all(ready="ready" in notes, seen=bool(notes))
        if pinned is not None:
            pinned.close()

    def _notes(self, driver: Any) -> list[str]:
        """What was said, once something is; nothing after the polling floor, or when the bell has rung."""
        self._wait_for(driver.fileno())
        return [note.payload for note in driver.notifies(timeout=0, stop_after=1)]  # all that came with it

    def close(self) -> None:
        """Stop listening and sending."""
        super().close()
        self._send.set()
        self._hurry.set()
        if self._sender is not None:
            self._sender.join()


def waker_for(store: Any) -> Waker:
    """The waker that fits *store*."""
    if store.dialect == "sqlite":
        return FileWaker(store)
    if store.dialect == "postgresql":
        return ListenWaker(store, pooler_safe=store.pooler_safe or store.read_only)  # a standby can't LISTEN
    waker: Waker = store.waker  # one for all logs on this store: there is nobody else to look at
    return waker
