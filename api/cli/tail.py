"""`tail`: the log as it grows."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import click

from ...domain.errors import InvalidFieldError, LogRewoundError, StoreBusyError, StoreUnavailableError
from ..text import clean
from .output import encoded, say
from .session import find_job, open_log
from .settings import current, shared_options

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from ...eventstore.store import LoggedEvent
    from ...projections.feed.consumers import Consumer
    from ...workers.commands.log import JobLog

_PAGE: Final = 500
_POLL_SECONDS: Final = 5.0  #: the floor under wake-ups
_AWAY_SECONDS: Final = 1.0


@click.command(name="tail")
@click.option(
    "--after",
    default="",
    metavar="POSITION",
    help="Begin behind this position, 0 for all of it; by default at the end.",
)
@click.option(
    "--job", default="", metavar="ID", help="Only this job; from its beginning unless --after says otherwise."
)
@click.option("--topic", "topics", multiple=True, help="Only these, such as joblog.job.completed; may be repeated.")
@click.option("--tenant", metavar="NAME", help="Only jobs of this tenant.")
@click.option(
    "--consumer",
    default="",
    metavar="NAME",
    help="Go on where this consumer has stopped, and remember how far it came; a new one begins at the beginning.",
)
@click.option("--cloudevents", is_flag=True, help="Each event as a CloudEvent, in JSON.")
@click.option("--no-follow", is_flag=True, help="End at the end of the log.")
@click.option("--replica", is_flag=True, help="The database is a standby: it is asked once a second.")
@shared_options()
def tail_command(
    *,
    after: str,
    job: str,
    topics: tuple[str, ...],
    tenant: str | None,
    consumer: str,
    cloudevents: bool,
    no_follow: bool,
    replica: bool,
) -> None:
    """Follow the log."""
    from ...projections.feed.pages import Cursor, Filter

    if consumer and (after or replica):
        raise InvalidFieldError(
            "consumer", "it knows where to go on, and is written", "leave --after and --replica away"
        )
    with open_log(reading=replica) as log:
        only = Filter(job=find_job(log, job) if job else None, tenant=tenant)
        named = _consumer(log, consumer) if consumer else None
        tail = Tail(log, named.committed.position if named else _start(log, after, only.job), topics)
        for page in tail.pages(follow=not no_follow):
            wanted = only.kept(log.store, page)
            if wanted:
                click.echo("\n".join(_lines(log, wanted, tail.epoch, cloudevents=cloudevents)))
            if named is not None:
                named.commit(Cursor(named.committed.epoch, tail.position))  # it is out: echo flushes
        if named is not None:
            named.commit(Cursor(named.committed.epoch, tail.position))


def _consumer(log: JobLog, name: str) -> Consumer:
    """The consumer; one whose log was put back is told."""
    from ...projections.feed.consumers import Consumer

    consumer = Consumer.open(log.store, name)
    try:
        consumer.read(limit=1)
    except LogRewoundError as error:
        raise LogRewoundError(f"{error}; `joblog consumers rejoin {name}` goes on from there") from error
    return consumer


def _start(log: JobLog, after: str, job_id: UUID | None) -> int:
    """The position to begin behind.  A position of an older epoch may now be another event's."""
    if not after:
        return log.store.head() if job_id is None else (log.store.position_of(job_id, 1) or 1) - 1
    epoch, colon, position = after.rpartition(":")
    if not position.isdecimal() or (colon and not epoch.isdecimal()):
        raise InvalidFieldError("after", f"{after[:40]!r} is no position", "give a position, or epoch:position")
    now = log.store.state().epoch
    if colon and int(epoch) != now:
        text = f"position {after} is of epoch {epoch}, the log is in epoch {now}: what followed may be other events now"
        raise LogRewoundError(f"{text}; begin again with --after 0, or accept it with --after {now}:{position}")
    return int(position)


class Tail:
    """Pages of the log behind a position, in order, without gaps; waits at the end for more."""

    def __init__(self, log: JobLog, position: int, topics: tuple[str, ...] = ()) -> None:
        self._log, self._topics = log, topics
        self.position = position
        self.epoch = log.store.state().epoch
        self._wake = threading.Event()
        self._is_away = False

    def pages(self, *, follow: bool) -> Iterator[list[LoggedEvent]]:
        """Until the end of the log, or for ever."""
        ticket = self._log.waker.subscribe(self._wake.set)
        try:
            while True:
                self._wake.clear()
                page = self._patient() if follow else self._page()
                if page:
                    yield page
                elif not follow:
                    return
                elif not self._is_away:
                    self._wake.wait(_POLL_SECONDS)
        finally:
            self._log.waker.unsubscribe(ticket)

    def _page(self) -> list[LoggedEvent]:
        head = self._log.store.head()  # read first: all up to it is in the page, or is not wanted
        if head < self.position:
            text = f"the log ends at {head}, before position {self.position}"
            raise LogRewoundError(f"{text}; if it was restored, begin again with --after 0")
        page = self._log.store.log(self.position, _PAGE, topics=self._topics)
        self.position = page[-1].position if len(page) == _PAGE else max(head, page[-1].position if page else 0)
        self.epoch = self._log.store.state().epoch
        return page

    def _patient(self) -> list[LoggedEvent]:
        """No process ends because the database restarts."""
        try:
            page = self._page()
        except (StoreBusyError, StoreUnavailableError) as error:
            if not self._is_away:
                say(f"the database does not answer: {clean(str(error))}; trying again")
            self._is_away = True
            threading.Event().wait(_AWAY_SECONDS)
            return []
        if self._is_away:
            say("the database answers again")
            self._is_away = False
        return page


def _lines(log: JobLog, page: list[LoggedEvent], epoch: int, *, cloudevents: bool) -> Iterator[str]:
    if cloudevents:
        from ...projections.feed.envelope import cloud_event

        store_id = log.store.state().store_id
        for event in page:
            yield encoded(cloud_event(event, store_id, epoch))
        return
    if current().as_json:
        from ..shapes import of_event

        for event in page:
            yield encoded(of_event(event) | {"epoch": epoch, "cursor": f"{epoch}:{event.position}"})
        return
    from .. import history

    now = log.now()
    for event in page:
        yield history.log_line(log, event, now)
