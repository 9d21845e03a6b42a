"""When and how SQLite's WAL is written back into the file: under the writer lock, and while nobody can write."""

from __future__ import annotations

import logging
import sqlite3
from typing import TYPE_CHECKING, Final

from ..domain.errors import StoreError
from .failpoint import failpoint
from .sqlite_errors import BUSY, result_code, translated

if TYPE_CHECKING:
    from pathlib import Path

    from .sql_connections import Pinned
    from .sqlite_lanes import Lane

logger = logging.getLogger(__name__)

WAL_PAGES: Final = 4000  # checkpoint when the WAL is longer (16 MB of 4 KiB pages)


class Checkpoints:
    """The checkpoints of one file, on a connection that does nothing else."""

    def __init__(self, path: Path, pinned: Pinned) -> None:
        self.pinned = pinned
        self._path = path
        self._wal = path.with_name(path.name + "-wal")
        self._size = 0  #: of the WAL's file at the last one
        self.commits = 0  #: of this process; it and ``pages`` are counted by whoever commits
        self.pages = 0  #: that this process has written since the last one

    def run_if_long(self, lane: Lane) -> None:
        """The WAL's file is used again from its start after a checkpoint and never shrinks, so its size does not tell.

        What this process wrote is counted, at about a page a row; what others wrote shows once the file grows.
        """
        if self.pages < WAL_PAGES and self.commits % 64:
            return
        try:
            size = self._wal.stat().st_size
            if size > WAL_PAGES * 4096 and (self.pages >= WAL_PAGES or size > self._size):
                self.run(lane)
                self.pages, self._size = 0, size
        except FileNotFoundError:
            return
        except (StoreError, sqlite3.Error, OSError) as error:  # what was written stands, and is acknowledged
            logger.warning("no checkpoint: %s", error)

    def run(self, lane: Lane) -> None:
        """PASSIVE on connection B while A holds the write lock, which keeps every writer out."""
        cursor = lane.pinned.open()
        try:
            cursor.execute("BEGIN IMMEDIATE")
            failpoint("checkpoint.before")
            self.pinned.open().execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            failpoint("checkpoint.after")
        except sqlite3.OperationalError as error:
            if result_code(error) not in BUSY:
                raise translated(error, self._path, committing=False) from error
        finally:
            lane.roll_back()
