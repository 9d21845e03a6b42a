"""A real file, imported by worker processes of the command line that are killed again and again while they hold the job.

    python -m tests.faults.import_rig FILE --kills 50 --kinds sqlite,postgresql --workers 3 --ledger

At the end every row is there exactly once: the table's digest is that of an import that nobody disturbed, and the job's
history names each death.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from joblog import JobLog
from joblog.eventstore.store import JobRow
from tests import postgres_server
from tests.acceptance.workers import end
from tests.faults.campaign import LEDGER, keep_ledger
from tests.faults.rig import Report, timed

ROOT = Path(__file__).parents[2]
TABLE = "imported"
_HANGS_AFTER = 120.0  #: seconds without a unit
_TICK = 0.002


@dataclass
class Import:
    """An import of *source* into a table of the log's own database, and what became of it."""

    url: str
    source: Path
    batch: int = 500
    killed: list[str] = field(default_factory=list)  #: the workers that died while they held the job
    job_id: UUID = field(default_factory=lambda: UUID(int=0))

    def command(self, *arguments: str, stdout: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "JOBLOG_DB": self.url}
        line = [sys.executable, "-m", "joblog", *arguments]
        return subprocess.Popen(line, env=environment, stdout=stdout, stderr=subprocess.DEVNULL, text=True)

    def answer(self, *arguments: str) -> Any:
        process = self.command(*arguments, "--json", stdout=subprocess.PIPE)
        out, _ = process.communicate(timeout=_HANGS_AFTER)
        assert process.returncode == 0, f"joblog {arguments[0]} ended with {process.returncode}"
        return json.loads(out)

    def submit(self) -> None:
        """The job, by the command line."""
        args = {"source": str(self.source), "target": self.url, "table": TABLE, "batch": self.batch}
        self.job_id = UUID(self.answer("submit", "import.file", "--args", json.dumps(args))["id"])

    def run(self, *, workers: int, kills: int, chance: random.Random) -> JobRow:
        """Work until the job has ended; kill whoever holds it, *kills* times, after some of its units."""
        crew = Crew(self)
        with JobLog.open(self.url) as log:
            try:
                for _ in range(workers):
                    crew.hire()
                for _ in range(kills):
                    holder = crew.progressed(log, chance.randint(1, 8))
                    crew.kill(holder)
                    crew.hire()
                return crew.ended(log)
            finally:
                crew.dismiss()


class Crew:
    """The workers that are alive, by name."""

    def __init__(self, work: Import) -> None:
        self.work = work
        self.alive: dict[str, subprocess.Popen[str]] = {}
        self.hired = 0

    def hire(self) -> None:
        self.hired += 1
        name = f"worker-{self.hired}"
        self.alive[name] = self.work.command("worker", "--name", name)

    def kill(self, name: str) -> None:
        end(self.alive.pop(name))  # type: ignore[arg-type]
        self.work.killed.append(name)

    def dismiss(self) -> None:
        for process in self.alive.values():
            end(process)  # type: ignore[arg-type]
        self.alive.clear()

    def progressed(self, log: JobLog, units: int) -> str:
        """Wait until a living worker has done *units* more; returns its name."""
        first: dict[str, int] = {}
        for row in self.looks(log):
            assert row["status"] in ("queued", "running"), f"the job is {row['status']} before all kills were made"
            holder = row["worker"]
            if holder in self.alive and row["done"] >= first.setdefault(holder, row["done"]) + units:
                return str(holder)
        raise AssertionError  # pragma: no cover - looks() ends by a failure only

    def ended(self, log: JobLog) -> JobRow:
        for row in self.looks(log):
            if row["status"] not in ("queued", "running"):
                return row
        raise AssertionError  # pragma: no cover - as above

    def looks(self, log: JobLog) -> Iterator[JobRow]:
        """The job's row, again and again while it moves."""
        tick, done, since = threading.Event(), -1, time.monotonic()
        while True:
            row = log.row(self.work.job_id)
            if row["done"] != done:
                done, since = row["done"], time.monotonic()
            assert time.monotonic() < since + _HANGS_AFTER, f"L1: nobody works on the job any more at unit {done}"
            yield row
            tick.wait(_TICK)


def digest(url: str) -> tuple[int, str]:
    """How many rows the table has, and a digest of them in any order."""
    engine = sa.create_engine(url)
    count = total = 0
    with engine.connect() as connection:
        rows = connection.execution_options(yield_per=5000).execute(sa.text(f"SELECT * FROM {TABLE}"))
        for row in rows:
            count += 1
            total += int.from_bytes(sha256(repr(tuple(row)).encode()).digest()[:16])
    engine.dispose()
    return count, f"{total % 2**128:032x}"


def reclaims(work: Import) -> list[str]:
    """The workers that the job's history says have died, as `joblog show --events` tells it."""
    events = work.answer("show", str(work.job_id), "--events")["events"]
    return [event["data"]["worker"] for event in events if event["topic"] == "joblog.job.lease-expired"]


def check(disturbed: Import, row: JobRow, calm: Import, report: Report) -> None:
    """The disturbed import must have come out as the calm one."""
    found: list[str] = []
    if row["status"] != "completed":
        found.append(f"L1: the job ended as {row['status']} ({row['reason']})")
    (rows, left), (expected, right) = digest(disturbed.url), digest(calm.url)
    if (rows, left) != (expected, right):
        found.append(f"S6: {rows} rows with digest {left}, undisturbed {expected} rows with {right}")
    if (named := reclaims(disturbed)) != disturbed.killed:
        found.append(f"S15: the history names {named}, killed were {disturbed.killed}")
    report.counts["rows"] += rows
    if found:
        report.fail(f"job {disturbed.job_id}", found)


@contextmanager
def database(kind: str) -> Iterator[str]:
    if kind == "sqlite":
        folder = tempfile.mkdtemp(prefix="joblog-import-")
        try:
            yield f"sqlite:///{folder}/joblog.db"
        finally:
            shutil.rmtree(folder)
    else:
        with postgres_server.fresh_database() as url:
            yield url


def campaign(kind: str, source: Path, *, kills: int, workers: int, seed: int, batch: int = 500) -> Report:
    """One disturbed import beside a calm one."""
    report = Report(f"import-{kind}-{source.name}", seed)
    report.again = f"python -m tests.faults.import_rig FILE --kinds {kind} --kills {kills} --seed {seed}"
    with timed(report), ExitStack() as stack:
        calm, disturbed = (Import(stack.enter_context(database(kind)), source, batch) for _ in range(2))
        chance = random.Random(seed)
        for work, deaths in ((calm, 0), (disturbed, kills)):
            with JobLog.open(work.url):
                pass
            work.submit()
            row = work.run(workers=workers if deaths else 1, kills=deaths, chance=chance)
        report.runs += 1
        report.fired["sigkill while it held the job"] += len(disturbed.killed)
        report.counts["units"] += row["done"]
        report.counts["reclaims"] += row["reclaims"]
        check(disturbed, row, calm, report)
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--kinds", default="sqlite,postgresql")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--batch", type=int, default=500, help="rows a unit")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ledger", action="store_true")
    chosen = parser.parse_args()
    failed = 0
    for kind in chosen.kinds.split(","):
        how = {"kills": chosen.kills, "workers": chosen.workers, "seed": chosen.seed, "batch": chosen.batch}
        report = campaign(kind, chosen.file.resolve(), **how)
        sys.stdout.write("\n".join([report.line(), *report.violations]) + "\n")
        sys.stdout.flush()
        failed += report.failed
        if chosen.ledger:
            keep_ledger(LEDGER, report, 1)
    return 1 if failed else 0


if __name__ == "__main__":
    postgres_server.share()
    try:
        sys.exit(main())
    finally:
        postgres_server.release()
