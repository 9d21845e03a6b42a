"""Waiting, with a bound, for what real threads, processes and databases do on the other side."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
BOUND = 60.0  # seconds


def until(look: Callable[[], T], seconds: float = BOUND, tick: float = 0.02) -> T:
    """What *look* finds, once it finds something."""
    deadline, bell = time.monotonic() + seconds, threading.Event()
    while not (found := look()):
        assert time.monotonic() < deadline, "waited too long"
        bell.wait(tick)
    return found
