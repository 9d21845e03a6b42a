"""Takes each defence of the log away, one at a time, in a copy of the project, and sees that a test turns red.

    python -m tests.faults.defences [--only NAME] [--ledger]

A defence whose absence no test notices is either not needed or not tested: the command fails and names it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

from tests import postgres_server
from tests.faults.campaign import LEDGER, keep_ledger
from tests.faults.rig import Report, timed

ROOT = Path(__file__).parents[2]
FILE = Path(__file__).with_suffix(".toml")
_LONGEST = 600  #: seconds for the tests of one defence


@dataclass(frozen=True)
class Defence:
    """What is taken away: in *file*, every *old* becomes *new*; then one of *tests* must fail."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    only: str = ""  #: pytest's ``-k``


def defences() -> list[Defence]:
    with FILE.open("rb") as file:
        return [Defence(**{**entry, "tests": tuple(entry["tests"])}) for entry in tomllib.load(file)["defence"]]


def copied(folder: Path) -> Path:
    """The project, without what was made in it."""
    left_out = shutil.ignore_patterns(
        ".git", ".venv", "build", "dist", "__pycache__", ".*_cache", ".hypothesis", "*.db*"
    )
    return Path(shutil.copytree(ROOT, folder / "project", symlinks=True, ignore=left_out))


def is_noticed(project: Path, defence: Defence) -> str:
    """The first test that failed without the defence; empty if none did."""
    path = project / defence.file
    whole = path.read_text(encoding="utf-8")
    if defence.old not in whole:
        raise LookupError(f"{defence.name}: its code is not in {defence.file} any more; say here how it looks now")
    path.write_text(whole.replace(defence.old, defence.new), encoding="utf-8")
    try:
        return failed_test(project, defence)
    finally:
        path.write_text(whole, encoding="utf-8")


def failed_test(project: Path, defence: Defence) -> str:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *defence.tests]
    if defence.only:
        command += ["-k", defence.only]
    environment = os.environ | {"PYTHONPATH": "src", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, timeout=_LONGEST, check=False
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(
            f"{defence.name}: pytest ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-500:]}"
        )
    red = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return red[0].split(" ", 2)[1] if red else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="defences whose name holds this text")
    parser.add_argument("--ledger", action="store_true")
    chosen = parser.parse_args()
    report = Report("defences", 1)
    with timed(report), tempfile.TemporaryDirectory(prefix="joblog-defences-") as folder:
        project = copied(Path(folder))
        for defence in defences():
            if chosen.only and not any(text in defence.name for text in chosen.only):
                continue
            report.runs += 1
            red = is_noticed(project, defence)
            sys.stdout.write(f"{defence.name}: {red or 'NOT NOTICED'}\n")
            sys.stdout.flush()
            if red:
                report.fired["defence removed"] += 1
            else:
                report.fail(defence.name, ["no test noticed"])
    sys.stdout.write(report.line() + "\n")
    if chosen.ledger:
        keep_ledger(LEDGER, report, 1)
    return 1 if report.failed else 0


if __name__ == "__main__":
    postgres_server.share()
    try:
        sys.exit(main())
    finally:
        postgres_server.release()
