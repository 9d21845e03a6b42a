"""`tail`: the log as it grows."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import click

from ...domain.errors import InvalidFieldError, LogRewoundError, StoreBusyError, StoreUnavailableError
from ..text import clean
from .door import TailPage, TailStart, open_door
from .output import encoded, say
from .settings import current, shared_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime
    from uuid import UUID

    from ...eventstore.store import LoggedEvent
    from ...projections.feed.pages import Cursor, Page
    from ...workers.commands.log import JobLog
    from .door import Document

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
    if consumer and (after or replica):
        raise InvalidFieldError(
            "consumer", "it knows where to go on, and is written", "leave --after and --replica away"
        )
    form = "cloudevents" if cloudevents else "json" if current().as_json else "lines"
    tell = _telling(form)
    with open_door(reading=replica) as door:
        begin = door.consumer(consumer) if consumer else after
        only = door.find(job) if job else ""
        for page in door.follow(TailStart(begin, only, topics, tenant, cloudevents), waiting=not no_follow):
            tell(page.items, door.now())
            if consumer:  # what is out is committed
                door.move_consumer(consumer, page.cursor)


def _telling(form: str) -> Callable[[list[Document], datetime], None]:
    """How events are said: one a line; echo flushes."""
    if form != "lines":
        return lambda items, _: click.echo("\n".join(map(encoded, items))) if items else None
    from ..event_text import EventText

    text = EventText()
    return lambda items, now: click.echo("\n".join(text.log_line(one, now) for one in items)) if items else None


def begin(log: JobLog, after: str, job_id: UUID | None) -> Cursor:
    """The place to begin behind.  A position of an older epoch may now be another event's."""
    from ...projections.feed.pages import Cursor

    state = log.store.state()
    if not after:
        first = state.head if job_id is None else (log.store.position_of(job_id, 1) or 1) - 1
        return Cursor(state.epoch, first)
    epoch, colon, position = after.rpartition(":")
    if not position.isdecimal() or (colon and not epoch.isdecimal()):
        raise InvalidFieldError("after", f"{after[:40]!r} is no position", "give a position, or epoch:position")
    if colon and int(epoch) != state.epoch:
        text = f"position {after} is of epoch {epoch}, the log is in epoch {state.epoch}"
        way_out = f"begin again with --after 0, or accept it with --after {state.epoch}:{position}"
        raise LogRewoundError(f"{text}: what followed may be other events now; {way_out}")
    return Cursor(state.epoch, int(position))


class Tail:
    """Pages of the log behind a cursor, as documents; waits at the end for more.

    Raises:
        LogRewoundError: the log is not the one any more that was followed.
    """

    def __init__(self, log: JobLog, cursor: Cursor, start: TailStart, *, job: UUID | None = None) -> None:
        from ...projections.feed.pages import Filter

        self._log, self.cursor = log, cursor
        self._only = Filter(tuple(start.topics), job, start.tenant)
        self._cloudevents = start.cloudevents
        self._wake = threading.Event()
        self._is_away = False

    def pages(self, *, follow: bool) -> Iterator[TailPage]:
        """Until the end of the log, or for ever."""
        ticket = self._log.waker.subscribe(self._wake.set)
        try:
            while True:
                self._wake.clear()
                page = self._patient() if follow else self._page()
                if page is not None:
                    yield TailPage(self._documents(page.events), str(page.cursor))
                if page is not None and not page.is_last:
                    continue
                if not follow:
                    return
                if not self._is_away:
                    self._wake.wait(_POLL_SECONDS)
        finally:
            self._log.waker.unsubscribe(ticket)

    def _page(self) -> Page:
        from ...projections.feed.pages import read_page

        page = read_page(self._log.store, self.cursor, only=self._only, limit=_PAGE)
        self.cursor = page.cursor
        return page

    def _patient(self) -> Page | None:
        """No process ends because the database restarts."""
        try:
            page = self._page()
        except (StoreBusyError, StoreUnavailableError) as error:
            if not self._is_away:
                say(f"the database does not answer: {clean(str(error))}; trying again")
            self._is_away = True
            threading.Event().wait(_AWAY_SECONDS)
            return None
        if self._is_away:
            say("the database answers again")
            self._is_away = False
        return page

    def _documents(self, events: Sequence[LoggedEvent]) -> list[Document]:
        epoch = self.cursor.epoch
        if self._cloudevents:
            from ...projections.feed.envelope import cloud_event

            store_id = self._log.store.state().store_id
            return [cloud_event(event, store_id, epoch) for event in events]
        from ..shapes import of_logged

        return [of_logged(event, epoch) for event in events]
