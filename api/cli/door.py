"""What operators ask and command: the one port behind which the log itself stands, or a service that is asked over HTTP.

Both answer the same documents, so every command says the same through either.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from .settings import current

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    Document = dict[str, Any]
    Report = Callable[[int, int], None]  #: how many events are done, of how many


class Asked(NamedTuple):
    """Why something is commanded, and under which request id."""

    request_id: str = ""
    reason: str = ""


class NewJob(NamedTuple):
    """A job to hand in, as it was typed."""

    kind: str
    args: Any
    key: str
    due_at: datetime | None
    queue: str | None
    priority: int | None
    tenant: str
    tags: tuple[str, ...]


class TailPage(NamedTuple):
    """Some events, and how far was looked."""

    items: list[Document]
    cursor: str


class Door(Protocol):
    """See the module.  Ids are whole, unless it is said that their beginning is enough."""

    def now(self) -> datetime:
        """The log's time, as far as it is known here."""

    # -- jobs

    def find(self, text: str) -> str:
        """A job's id, given whole or by its first four or more digits."""

    def jobs(self, filters: dict[str, str | None], *, limit: int, after: str, at: str) -> Document:
        """A page of jobs, newest first; *after*: a cursor, or a job's id."""

    def job(self, job_id: str, *, at: str = "") -> Document:
        """A job with its lease as it stands now; or as it stood."""

    def history(self, job_id: str) -> list[Document]:
        """Its turning points."""

    def events(self, job_id: str) -> Iterator[Document]:
        """All its events."""

    def why(self, job_id: str) -> Document:
        """Why it stands where it stands."""

    def submit(self, job: NewJob) -> Document:
        """Hand it in."""

    def command(self, action: str, job_id: str, asked: Asked, *, if_version: int | None, cleanup: bool) -> Document:
        """Pause, resume, cancel or retry it."""

    def retry_skipped(self, job_id: str, unit: str) -> Document:
        """Retry what it has passed over, or *unit* alone, each in a job of its own."""

    # -- queues, workers, gates

    def command_jobs(self, action: str, queue: str, asked: Asked) -> Document:
        """Pause, resume, cancel or retry every job that a queue has now."""

    def queues(self) -> Document:
        """What waits and runs in each."""

    def command_queue(self, queue: str, action: str, asked: Asked, **options: Any) -> Document:
        """Pause, resume or limit one."""

    def workers(self) -> Document:
        """Who holds jobs."""

    def gates(self) -> Document:
        """What passes each."""

    def open_gate(self, gate: str, asked: Asked, *, resume: bool) -> Document:
        """Open one."""

    def close_gate(self, gate: str, asked: Asked, until: datetime) -> Document:
        """Close one."""

    def limit_gate(self, gate: str, asked: Asked, given: dict[str, Any]) -> Document:
        """Set slots, spacing_seconds, or both."""

    # -- the log

    def verify(self, job_id: str, first: int | None, last: int | None, report: Report) -> Document:
        """Hold it, a range of it or a job against the tree of hashes and the heads beside it."""

    def archives(self) -> Document:
        """Where bodies are that were moved out of it."""

    def consumers(self) -> Document:
        """Who follows it under a name."""

    def drop_consumer(self, name: str) -> None:
        """Forget one."""

    def consumer(self, name: str) -> str:
        """The cursor behind which one goes on; a new one begins at the beginning.

        Raises:
            LogRewoundError: the log is not the one that it has read.
        """

    def move_consumer(self, name: str, cursor: str) -> None:
        """It will not ask for anything up to there again."""

    # -- what is derived from it

    def projections(self) -> Document:
        """How far each has come."""

    def rebuild(self, name: str, report: Report) -> Document:
        """Fold the log into a new generation, then switch."""

    def compare(self, name: str, *, units: bool, report: Report) -> Document:
        """Hold the rows against what the log makes of them."""

    def note(self, fields: Document, asked: Asked) -> Document:
        """Put what somebody reports into the recovery report."""

    def recovery(self, chosen: str, search: str, page: str) -> Document:
        """A page of the recovery report."""

    def follow(self, start: TailStart, *, waiting: bool) -> Iterator[TailPage]:
        """Pages of the log, in order, without gaps: to its end, or *waiting* there for more."""


class TailStart(NamedTuple):
    """Where to begin, and what is wanted."""

    after: str = ""  #: a position, or epoch:position; by default the end, or the beginning of *job*
    job: str = ""
    topics: Sequence[str] = ()
    tenant: str | None = None
    cloudevents: bool = False


@contextmanager
def open_door(*, create: bool = False, reading: bool = False) -> Iterator[Door]:
    """The door that was chosen: `--server`, else the database."""
    if current().server:
        from .remote import Remote

        with Remote.open(current()) as door:
            yield door
        return
    from .local import Local
    from .session import open_log

    with open_log(create=create, reading=reading) as log:
        yield Local(log)
