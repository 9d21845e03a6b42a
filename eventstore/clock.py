"""The real clock, randomness and ids: the only place of the engine that asks the machine for them."""

from __future__ import annotations

import asyncio
import os
import random
import time
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import count
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


@cache
def _boot_id() -> str:
    if _BOOT_ID.exists():
        return _BOOT_ID.read_text(encoding="ascii").strip()
    return f"boot-{int((time.time() - time.monotonic()) // 60)}"


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def micros(moment: datetime) -> int:
    """An aware datetime as whole microseconds since 1970, UTC: how every instant stands in a table."""
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds  # twice as fast as a division


def moment(value: int) -> datetime:
    """Undo ``micros``."""
    return _EPOCH + timedelta(microseconds=value)


class SystemClock:
    """This machine's time."""

    def now(self) -> datetime:
        """Wall clock, aware, UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that never jump."""
        return time.monotonic()

    def boottime(self) -> float:
        """Seconds since boot, suspend included; where the system has no such clock, the monotonic one."""
        return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()

    def boot_id(self) -> str:
        """The kernel's name of this boot; elsewhere derived from the boot's instant, to the minute."""
        return _boot_id()


class SystemRandom:
    """Jitter."""

    def __init__(self) -> None:
        """Seed from the system."""
        self._random = random.SystemRandom()

    def random(self) -> float:
        """A number in [0, 1)."""
        return self._random.random()


class SystemIds:
    """A random prefix for this process (drawn again after a fork) and a counter: unique and cheap."""

    def __init__(self) -> None:
        """Draw the prefix."""
        self._draw()
        os.register_at_fork(after_in_child=self._draw)

    def _draw(self) -> None:
        self._prefix = os.urandom(9).hex()
        self._count = count(1)

    def next(self) -> str:
        """An id that no other process, fork or restart gives."""
        return f"{self._prefix}-{next(self._count):x}"


def new_uuid() -> UUID:
    """A random UUID, for what is made once: the name of a log."""
    return uuid4()


async def pause_soon(seconds: float) -> None:
    """``pause`` on an event loop."""
    await asyncio.sleep(seconds)


def pause(seconds: float) -> None:
    """Wait, for the few places that may: back-off between tries of a busy store."""
    time.sleep(seconds)
