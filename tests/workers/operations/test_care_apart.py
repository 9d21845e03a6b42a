"""What folds or hashes the whole log: in a process of its own, of lower priority, which ends with the wish for it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from joblog import JobLog
from joblog.domain.job import Actor
from joblog.domain.status import Status
from joblog.workers.operations import care
from joblog.workers.registry import Jobs
from joblog.workers.run import SyncRun
from joblog.workers.worker import Worker, WorkerSettings
from tests.patience import until

jobs = Jobs()


def where(log: JobLog) -> dict[str, Any]:
    folders = [str(folder) for folder in log.store.bodies.files.folders]
    return {"process": os.getpid(), "nice": os.nice(0), "head": log.store.head(), "archives": folders}


def waits(_: JobLog, begun: str) -> dict[str, Any]:
    Path(begun).write_text(str(os.getpid()), encoding="ascii")
    threading.Event().wait()
    return {}


@jobs.job("where")
def tell(run: SyncRun, args: None) -> dict[str, Any]:
    return care.apart(run, "look", where)


@jobs.job("waits")
def wait(run: SyncRun, args: str) -> dict[str, Any]:
    return care.apart(run, "look", waits, args)


@contextmanager
def worker(log: JobLog) -> Iterator[Worker]:
    made = Worker(log, jobs, WorkerSettings(slots=1))
    thread = threading.Thread(target=made.run)
    thread.start()
    try:
        yield made
    finally:
        made.stop()
        thread.join()


def test_it_runs_in_another_process_of_lower_priority(database_url: str, tmp_path: Path) -> None:
    with JobLog.open(database_url, archives=tmp_path) as log, worker(log):
        job_id = tell.submit(log, None, key="k").job_id
        until(lambda: log.job(job_id).status is Status.COMPLETED)
        made: Any = log.job(job_id).result
    assert made["process"] != os.getpid()
    assert made["nice"] == min(os.nice(0) + care._LOWER, 19)
    assert made["head"] >= 2
    assert made["archives"] == [str(tmp_path)]


def test_it_ends_when_its_job_is_cancelled(sqlite_url: str, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    with JobLog.open(sqlite_url) as log, worker(log):
        job_id = wait.submit(log, str(begun), key="k").job_id
        until(lambda: begun.exists() and begun.read_text(encoding="ascii") != "")
        log.command("cancel", job_id, Actor("ada"))
        until(lambda: log.job(job_id).status is Status.CANCELLED)
        process = int(begun.read_text(encoding="ascii"))
        until(lambda: not Path(f"/proc/{process}").exists())
