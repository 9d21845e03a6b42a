"""What a run knows of its job, whichever kind it is."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    import sqlalchemy as sa

    from ..eventstore.store import Store
    from .book import Book
    from .commands.log import JobLog


class BaseRun:
    """What both kinds of run know."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._sleeps = 0

    @property
    def job_id(self) -> UUID:
        """The job's id."""
        return self._book.held.job_id

    @property
    def tenant(self) -> str:
        """The job's tenant."""
        return self._book.held.job.tenant

    @property
    def owner(self) -> str:
        """Whose job it is."""
        return self._book.held.job.owner

    @property
    def log(self) -> JobLog:
        """The log that the job is in: to hand jobs in, never to command this one."""
        return self._book.log

    @property
    def attempt(self) -> int:
        """How often the job was claimed, this time included."""
        return self._book.held.attempt

    @property
    def unit_id(self) -> str:
        """The same id each time the unit in flight is tried: hand it on as idempotency key."""
        return self._book.unit_id()

    @property
    def fencing_token(self) -> str:
        """Grows with each grant of the job: whoever checks it refuses a former holder."""
        epoch, grant = self._book.held.token
        return f"{epoch}.{grant}"

    @property
    def store(self) -> Store:
        """The log's store; for operations that come with joblog."""
        return self._book.log.store

    def now(self) -> datetime:
        """The store's time, as this process estimates it."""
        return self._book.log.now()

    def tally(self, what: str, count: int = 1) -> None:
        """Add to a durable counter; it counts with the next unit."""
        self._book.tallies[what] = self._book.tallies.get(what, 0) + count

    def total(self, what: str) -> int:
        """The durable counter *what*, over all attempts."""
        return self._book.tallies.get(what, 0)

    def is_own_database(self, url: sa.URL) -> bool:
        """Whether *url* names the log's own database, by file or by server and name."""
        engine = getattr(self._book.log.store, "engine", None)
        if engine is None or engine.url.get_backend_name() != url.get_backend_name():
            return False
        mine: sa.URL = engine.url
        if mine.get_backend_name() == "sqlite":
            return Path(mine.database or "").resolve() == Path(url.database or "").resolve()
        return (mine.host, mine.port or 5432, mine.database) == (url.host, url.port or 5432, url.database)

    def _wake_at(self, seconds: float) -> tuple[str, datetime]:
        self._sleeps += 1
        return f"sleep-{self._sleeps}", self.now() + timedelta(seconds=seconds)
