"""The door to a log in a database: the half that looks after the log."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING
from uuid import UUID

from ...domain.errors import LogRewoundError
from .. import documents
from .session import actor

if TYPE_CHECKING:
    from ...workers.commands.log import JobLog
    from .door import Asked, Document, Report


class LocalCare:
    """See ``Door``."""

    def __init__(self, log: JobLog) -> None:
        self.log = log

    def verify(self, job_id: str, first: int | None, last: int | None, report: Report) -> Document:
        """See ``Door``."""
        from ...projections.proof.known import check

        only = UUID(job_id) if job_id else None
        return check(self.log.store, job=only, first=first, last=last, report=report).document()

    def archives(self) -> Document:
        """See ``Door``."""
        return documents.archives(self.log)

    def consumers(self) -> Document:
        """See ``Door``."""
        from ...projections.feed import consumers

        return {"items": [documents.consumer(one) for one in consumers.lags(self.log.store)]}

    def drop_consumer(self, name: str) -> None:
        """See ``Door``."""
        from ...projections.feed import consumers

        consumers.drop(self.log.store, name)

    def consumer(self, name: str) -> str:
        """See ``Door``."""
        from ...projections.feed.consumers import Consumer

        consumer = Consumer.open(self.log.store, name)
        try:
            consumer.read(limit=1)
        except LogRewoundError as error:
            raise LogRewoundError(f"{error}; `joblog consumers rejoin {name}` goes on from there") from error
        return str(consumer.committed)

    def move_consumer(self, name: str, cursor: str) -> None:
        """See ``Door``."""
        from ...projections.feed.consumers import Consumer
        from ...projections.feed.pages import Cursor

        epoch, _, position = cursor.partition(":")
        Consumer.open(self.log.store, name).commit(Cursor(int(epoch), int(position)))

    def projections(self) -> Document:
        """See ``Door``."""
        return documents.projections(self.log)

    def rebuild(self, name: str, report: Report) -> Document:
        """See ``Door``."""
        from ...workers.operations import care

        owner = f"{socket.gethostname()}:{os.getpid()}"
        return care.rebuilt(self.log, name, owner, report)

    def compare(self, name: str, *, units: bool, report: Report) -> Document:
        """See ``Door``."""
        from ...projections.compare import compare

        made: Document = compare(
            self.log.store,
            self.log.mapper,
            name,
            units=units,
            report=lambda step: report(step.position, max(step.head, step.position)),
        )
        return made

    def recovery(self, chosen: str, search: str, page: str) -> Document:
        """See ``Door``."""
        from ...projections import queries

        store = self.log.store
        found = queries.recovery_page(store, filter=chosen, search=search, page=page)
        return documents.recovery(found, store.head())

    def note(self, fields: Document, asked: Asked) -> Document:
        """See ``Door``."""
        from ...workers.commands import recovery

        return {"position": recovery.note(self.log, fields, actor(request_id=asked.request_id))}
