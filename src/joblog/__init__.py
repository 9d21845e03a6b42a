"""A durable job log: long jobs survive any restart by going on at the last verified unit."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .domain.errors import JobLogError as JobLogError
    from .domain.job import Actor as Actor
    from .domain.job import Job as Job
    from .domain.lease import LeasePolicy as LeasePolicy
    from .domain.retry import RetryPolicy as RetryPolicy
    from .domain.spec import JobSpec as JobSpec
    from .domain.status import Status as Status
    from .workers.commands.log import JobLog as JobLog
    from .workers.errors import Fatal as Fatal
    from .workers.errors import NeedsOperator as NeedsOperator
    from .workers.errors import RetryLater as RetryLater
    from .workers.registry import Jobs as Jobs
    from .workers.run import Run as Run
    from .workers.run import SyncRun as SyncRun
    from .workers.sources import ListSource as ListSource
    from .workers.worker import Worker as Worker
    from .workers.worker import WorkerSettings as WorkerSettings

#: Public name -> the module that has it.  Loaded on first use: ``import joblog`` itself costs nothing.
_HOME = {
    "Actor": "domain.job",
    "Fatal": "workers.errors",
    "Job": "domain.job",
    "JobLog": "workers.commands.log",
    "JobLogError": "domain.errors",
    "JobSpec": "domain.spec",
    "Jobs": "workers.registry",
    "LeasePolicy": "domain.lease",
    "ListSource": "workers.sources",
    "NeedsOperator": "workers.errors",
    "RetryLater": "workers.errors",
    "RetryPolicy": "domain.retry",
    "Run": "workers.run",
    "Status": "domain.status",
    "SyncRun": "workers.run",
    "Worker": "workers.worker",
    "WorkerSettings": "workers.worker",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if (home := _HOME.get(name)) is None:
        message = f"module 'joblog' has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module(f".{home}", __name__), name)
