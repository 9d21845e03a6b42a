"""Worker processes for tests: started, killed, stopped, and waited for with a bound."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
_PATIENCE = 60.0


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "PYTHONUNBUFFERED": "1", **more}


def start(url: str, *more: str, **env: str) -> subprocess.Popen[bytes]:
    """A worker on *url*; *more*: a fail point, at which passing of it it gets a signal, and which (SIGKILL)."""
    command = [sys.executable, "-m", "tests.acceptance.run_worker", url, *more]
    return subprocess.Popen(command, cwd=ROOT, env=environment(**env), stderr=subprocess.DEVNULL)


@contextmanager
def running(url: str, *more: str, **env: str) -> Iterator[subprocess.Popen[bytes]]:
    """As ``start``; gone at the end of the block, however it ends."""
    worker = start(url, *more, **env)
    try:
        yield worker
    finally:
        end(worker)


@contextmanager
def joblog_worker(url: str, *options: str, **env: str) -> Iterator[subprocess.Popen[str]]:
    """The command `joblog worker` with the operations of ``app``; gone at the end of the block."""
    command = [sys.executable, "-m", "joblog", "--db", url, "worker", "--app", "tests.acceptance.app:jobs", *options]
    worker = subprocess.Popen(command, cwd=ROOT, env=environment(**env), stderr=subprocess.PIPE, text=True)
    try:
        yield worker
    finally:
        if worker.poll() is None:
            worker.kill()
        worker.communicate()


def said(worker: subprocess.Popen[str], text: str) -> str:
    """Its first line on stderr with *text*; reads until there, with a bound."""
    assert worker.stderr is not None
    bound = threading.Timer(_PATIENCE, worker.kill)
    bound.start()
    try:
        for line in worker.stderr:
            if text in line:
                return line
    finally:
        bound.cancel()
    raise AssertionError(f"it ended without saying {text!r}")


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


def pause(seconds: float) -> None:
    """Between two acts of the world outside; nothing that is proven depends on it."""
    threading.Event().wait(seconds)
