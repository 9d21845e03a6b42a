"""Processes that follow, rebuild or drop generations of the views, for the tests to kill."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
_CHILD = """
import os, signal, sys
from joblog.eventstore import failpoint
from joblog.workers.commands.log import JobLog
from joblog.projections import view_rebuild
from joblog.projections.runner import Runner
from joblog.projections.views import VIEWS

url, owner, action, point, passes = sys.argv[1:6]
view_rebuild.BATCH, view_rebuild.CATCH_UP = 7, 3
left = [int(passes)]

def die():
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)

with JobLog.open(url) as log:
    if point:
        failpoint.arm(point, die)
    if action == "follow":
        Runner(log.store, log.mapper, owner, batch=7).run()
    elif action == "rebuild":
        view_rebuild.rebuild(log.store, log.mapper, VIEWS["recovery"], owner)
    else:
        view_rebuild.drop_old(log.store, VIEWS["recovery"], limit=3)
"""


def run(url: str, action: str, *, point: str = "", passes: int = 1, owner: str = "child") -> int:
    """How the process ended that did *action*; with *point* it kills itself there."""
    command = [sys.executable, "-c", _CHILD, url, owner, action, point, str(passes)]
    return subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT / "src")}, check=False).returncode
