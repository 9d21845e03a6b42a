"""What a process loads: a worker knows no web server, no templates, no migrations."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WORKER = """
import sys, threading
from joblog import JobLog
from joblog.workers.registry import Jobs
from joblog.workers.worker import Worker, WorkerSettings

jobs = Jobs()

@jobs.job("noop")
def noop(run, args):
    run.step("a", int)

with JobLog.open(sys.argv[1]) as log:
    noop.submit(log, {})
    worker = Worker(log, jobs, WorkerSettings())
    def look():
        if log.store.find_jobs()[0]["status"] == "completed":
            worker.stop()
    log.waker.subscribe(look)
    worker.run()
print(*sorted(sys.modules))
"""
#: The web server, templates, migrations, and what only secrets, signatures or mail need.
HEAVY = ("aiohttp", "alembic", "jinja2", "cryptography", "aiosmtplib", "click", "rich")


def modules(code: str, *arguments: str) -> set[str]:
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True, env={"PYTHONPATH": str(ROOT / "src")}
    )
    return set(done.stdout.split())


def test_a_worker_loads_what_it_works_with(database_url: str) -> None:
    loaded = modules(WORKER, database_url)

    assert "joblog.workers.worker" in loaded
    assert loaded.isdisjoint(HEAVY)


@pytest.mark.parametrize("name", ["sqlalchemy", "eventsourcing", "orjson", "msgspec", "asyncio", *HEAVY])
def test_the_import_alone_loads_nothing(name: str) -> None:
    assert name not in modules("import sys, joblog; print(*sorted(sys.modules))")
