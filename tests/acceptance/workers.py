"""Worker processes for tests: started, killed, stopped, and waited for with a bound."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
_PATIENCE = 60.0


def start(url: str, *more: str) -> subprocess.Popen[bytes]:
    """A worker on *url*; *more*: a fail point and at which passing it dies there."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "tests.acceptance.run_worker", url, *more]
    return subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL)


def dies(url: str, point: str, nth: int = 1) -> bool:
    """Run a worker that is to die at *point*; True if it did."""
    worker = start(url, point, str(nth))
    try:
        return worker.wait(timeout=_PATIENCE) == -signal.SIGKILL
    finally:
        end(worker)


def end(worker: subprocess.Popen[bytes]) -> None:
    """Make sure that it is gone."""
    if worker.poll() is None:
        worker.kill()
        worker.wait()


@contextmanager
def working(url: str) -> Iterator[subprocess.Popen[bytes]]:
    """A worker for the block; stopped in order at its end."""
    worker = start(url)
    try:
        yield worker
        worker.send_signal(signal.SIGTERM)
        worker.wait(timeout=_PATIENCE)
    finally:
        end(worker)


def until(condition: Callable[[], bool], seconds: float = _PATIENCE) -> None:
    """Wait for *condition*, with a bound."""
    deadline = time.monotonic() + seconds
    tick = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        tick.wait(0.05)
