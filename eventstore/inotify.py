"""The kernel says when a file changes: inotify(7), Linux only."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_MODIFY: Final = 0x2
_MOVED: Final = 0x40 | 0x80
_CREATE: Final = 0x100
_DELETE: Final = 0x200
_OVERFLOW: Final = 0x4000
_HEAD: Final = struct.Struct("iIII")  #: watch, mask, cookie, length of the name behind it
_READ: Final = 65536


class FileWatch:
    """Tells whether a file has been written, made or removed since it was last asked."""

    def __init__(self, path: Path) -> None:
        """Watch the folder of *path*, so that the file itself may come and go.

        Raises:
            OSError: this system has no inotify, or gives no more watches.
        """
        self._name = os.fsencode(path.name)
        libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(libc, "inotify_init1"):
            raise OSError(errno.ENOSYS, "no inotify")
        self._fd: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        mask = _MODIFY | _MOVED | _CREATE | _DELETE
        if libc.inotify_add_watch(self._fd, os.fsencode(path.parent), mask) < 0:
            code = ctypes.get_errno()
            self.close()
            raise OSError(code, "inotify_add_watch", str(path.parent))

    def fileno(self) -> int:
        """Readable when something in the folder has changed."""
        return self._fd

    def has_changed(self) -> bool:
        """Whether the file has, not only another one beside it."""
        found = False
        while True:
            try:
                told = os.read(self._fd, _READ)
            except BlockingIOError:
                return found
            at = 0
            while at < len(told):
                _, mask, _, length = _HEAD.unpack_from(told, at)
                at += _HEAD.size + length
                found = found or bool(mask & _OVERFLOW) or told[at - length : at].rstrip(b"\0") == self._name

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._fd)
