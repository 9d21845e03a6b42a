"""Connections that write one SQLite file, each with its own descriptor of the lock that lets one write at a time."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from .sql_connections import Pinned


class WriterLock:
    """The lock between processes (and connections) that write one file: fair, held for one transaction."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        # A forked child would go on holding the lock after the death of its parent.
        forget = weakref.WeakMethod(self.close)
        os.register_at_fork(after_in_child=lambda: (close := forget()) and close())

    def acquire(self, *, blocking: bool = True) -> bool:
        """Take it; False if another holds it and *blocking* is off."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | (0 if blocking else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Let others write."""
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Give the descriptor back."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class Lane:
    """A connection that writes, with its own descriptor of the writer lock."""

    def __init__(self, pinned: Pinned, lock: WriterLock) -> None:
        self.pinned, self.lock = pinned, lock
        self.guard = threading.RLock()
        self._changes = 0

    def changes(self) -> int:
        """Rows changed through this connection since this was last asked."""
        before, self._changes = self._changes, self.pinned.driver.total_changes
        return max(self._changes - before, 0)  # a connection that was reopened starts at 0

    def roll_back(self) -> None:
        """End a transaction that failed, with its connection if need be."""
        driver = getattr(self.pinned, "driver", None)
        if self.pinned.cursor is not None and driver is not None and driver.in_transaction:
            try:
                driver.rollback()
            except sqlite3.Error:  # the transaction is gone with its connection
                self.pinned.drop()
