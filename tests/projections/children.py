"""Processes that rebuild, for the tests to let run and to kill."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
_REBUILD = """
import os, signal, sys
from joblog.domain.errors import StoreBusyError
from joblog.eventstore import failpoint
from joblog.eventstore.opening import open_store
from joblog.eventstore.mapper import OrjsonMapper, OrjsonTranscoder
from joblog.projections import rebuild as module
from tests.clocks import MovedClock

url, owner, point, passes, batch = sys.argv[1:6]
module.BATCH, module.CATCH_UP = int(batch), 0
left = [int(passes)]

def die():
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)

if point:
    failpoint.arm(point, die)
store = open_store(url, create=False, clock=MovedClock())  # that of the tests; on PostgreSQL it is the database's
print("ready", flush=True)
sys.stdin.readline()
count = 0
while True:
    try:
        module.rebuild(store, OrjsonMapper(OrjsonTranscoder()), owner)
        count += 1
        store.rebuild_drop_old()
    except StoreBusyError:  # a reader of the old rows was slow: nothing was changed
        continue
    if point or os.path.exists(sys.argv[6]):
        break
print(count, flush=True)
"""


def start(
    url: str, *, owner: str = "child", point: str = "", passes: int = 1, batch: int = 7, until: str = "/"
) -> "subprocess.Popen[str]":
    """Start a process that rebuilds; with *point* it kills itself there, else it goes on until the file *until* is there."""
    command = [sys.executable, "-c", _REBUILD, url, owner, point, str(passes), str(batch), until]
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def go(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def end(process: "subprocess.Popen[str]") -> tuple[int, str]:
    """Its return code, and what it said at its end."""
    said, _ = process.communicate(timeout=60)
    return process.returncode, said.strip()
