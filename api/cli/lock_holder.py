"""Who holds the writer lock of an SQLite log, and whether that process is stopped; as far as Linux tells."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from pathlib import Path
from typing import Final, NamedTuple

_PATIENCE: Final = 1.0  #: seconds; no healthy write takes so long
_STEP: Final = 0.02


class Holder(NamedTuple):
    """A process, 0 if it can't be told which."""

    pid: int
    is_stopped: bool
    seconds: float  #: for how long it was seen to hold the lock, at least


def find(lock: Path) -> Holder | None:
    """The process that kept *lock* while others would have had their turn; None if it came free."""
    try:
        fd = os.open(lock, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    began, tick = time.monotonic(), threading.Event()
    try:
        while time.monotonic() - began < _PATIENCE:
            try:
                fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                tick.wait(_STEP)
            else:
                return None
        pid = _pid(os.fstat(fd))
        return Holder(pid, _is_stopped(pid), time.monotonic() - began)
    finally:
        os.close(fd)


def _pid(stat: os.stat_result) -> int:
    """Look the lock up in the kernel's list: ``1: FLOCK  ADVISORY  WRITE 1234 08:01:131 0 EOF``."""
    place = f"{os.major(stat.st_dev):02x}:{os.minor(stat.st_dev):02x}:{stat.st_ino}"
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    for line in lines:
        parts = line.split()
        if len(parts) > 5 and parts[1] == "FLOCK" and parts[3] == "WRITE" and parts[5] == place:  # noqa: PLR2004
            return int(parts[4])
    return 0


def _is_stopped(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] in {"T", "t"}
