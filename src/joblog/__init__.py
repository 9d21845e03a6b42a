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

#: Public name -> the module that has it.  Loaded on first use: ``import joblog`` itself costs nothing.
_HOME = {
    "Actor": "domain.job",
    "Job": "domain.job",
    "JobLog": "workers.commands.log",
    "JobLogError": "domain.errors",
    "JobSpec": "domain.spec",
    "LeasePolicy": "domain.lease",
    "RetryPolicy": "domain.retry",
    "Status": "domain.status",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if (home := _HOME.get(name)) is None:
        message = f"module 'joblog' has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module(f".{home}", __name__), name)
