"""A log with short leases on each database, with a target table and a file for effects."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from joblog import JobLog
from joblog.domain.job import Job
from joblog.workers.operations import builtin
from joblog.workers.worker import Worker, WorkerSettings
from tests.acceptance.app import effects, jobs
from tests.acceptance.run_worker import LEASES
from tests.patience import until
from tests.workers.operations.receiver import receiver

__all__ = ["receiver"]  # a fixture


@dataclass
class Site:
    """A log, and the world outside it."""

    url: str
    log: JobLog
    folder: Path

    @property
    def args(self) -> dict[str, str]:
        return {
            "effects": str(self.folder / "effects"),
            "gate": str(self.folder / "gate"),
            "target": f"sqlite:///{self.folder / 'target.db'}",
        }

    def submit(self, kind: str, *, more: dict[str, Any] | None = None, **options: Any) -> UUID:
        return self.log.submit(jobs.spec(kind, {**self.args, **(more or {})}, **options)).job_id

    def status(self, job_id: UUID) -> str:
        return str(self.log.row(job_id)["status"])

    def is_held(self, job_id: UUID) -> bool:
        return self.log.store.lease(job_id) is not None

    def effects(self) -> list[str]:
        return effects(self.folder / "effects")

    def finish(self, job_id: UUID) -> Job:
        """With one healthy worker, to the end; it runs in this process, which is never killed."""
        with JobLog.open(self.url, leases=LEASES) as log:
            worker = Worker(
                log, jobs.merged(builtin()), WorkerSettings(os.environ.get("WORKER_NAME"), slots=4, poll_seconds=0.5)
            )
            thread = threading.Thread(target=worker.run)
            thread.start()
            try:
                until(lambda: self.status(job_id) not in {"queued", "running", "waiting"})
            finally:
                worker.stop()
                thread.join()
        return self.log.job(job_id)

    def topics(self, job_id: UUID) -> list[str]:
        return [event.topic.removeprefix("joblog.job.") for event in self.log.store.read(job_id)]

    def times(self, job_id: UUID) -> list[datetime]:
        """The instants of its events."""
        return [self.log.mapper.decode(job_id, *event).timestamp for event in self.log.store.read(job_id)]

    def target(self, *, elsewhere: bool = False) -> list[int]:
        engine = sa.create_engine(self.args["target"] if elsewhere else self.url)
        try:
            with engine.connect() as connection:
                return list(connection.scalars(sa.text("SELECT n FROM target ORDER BY n")))
        finally:
            engine.dispose()


@contextmanager
def made_site(url: str, folder: Path) -> Iterator[Site]:
    """A log at *url*, with a target table in it and in a file in *folder*."""
    with JobLog.open(url, leases=LEASES) as log:
        made = Site(url, log, folder)
        for place in (url, made.args["target"]):
            engine = sa.create_engine(place)
            with engine.begin() as connection:
                connection.execute(sa.text("CREATE TABLE IF NOT EXISTS target (n INTEGER)"))
            engine.dispose()
        yield made


@pytest.fixture
def site(database_url: str, tmp_path: Path) -> Iterator[Site]:
    with made_site(database_url, tmp_path) as made:
        yield made
