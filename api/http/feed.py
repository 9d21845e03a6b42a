"""Following the log over HTTP: long-poll, NDJSON and server-sent events, from one reader for all who are up to date."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from ...domain.errors import JobLogError
from ...eventstore.proof_rows import proof_rows
from ...eventstore.store import Reading
from ...projections.feed.envelope import cloud_event
from ..shapes import of_logged

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from ...eventstore.store import LoggedEvent, LogState
    from .auth import Principal
    from .service import Service

logger = logging.getLogger(__name__)

KEPT: Final = 4096  #: newest events in memory
PAGE: Final = 500
_POLL_SECONDS: Final = 1.0
_WANTED_SECONDS: Final = 10.0  #: for so long after the last wait the log is followed for nobody: a poller comes back
_KNOWN_JOBS: Final = 20_000


@dataclass(slots=True)
class Entry:
    """One event of the log, encoded once for everybody."""

    event: LoggedEvent
    position: int
    epoch: int
    json: bytes  #: as a CloudEvent

    @property
    def stored(self) -> bytes:
        """As `joblog tail --json` has it."""
        return orjson.dumps(of_logged(self.event, self.epoch))


class Wanted(NamedTuple):
    """Which events of those that somebody may see."""

    principal: Principal
    topics: Sequence[str] = ()
    job: UUID | None = None

    def fits(self, entry: Entry) -> bool:
        """Whether an event is of these topics and this job."""
        event = entry.event
        return (not self.topics or event.topic in self.topics) and self.job in {None, event.stream_id}


def _encoded(events: Sequence[LoggedEvent], state: LogState) -> list[Entry]:
    """As they go out."""
    store_id, epoch = state.store_id, state.epoch
    return [Entry(event, event.position, epoch, orjson.dumps(cloud_event(event, store_id, epoch))) for event in events]


class Feed:
    """The end of the log in memory, and a wake-up for all who wait there."""

    def __init__(self, service: Service) -> None:
        self._service, self._log = service, service.log
        self._tail: deque[Entry] = deque(maxlen=KEPT)
        self.head = 0
        self.epoch = 0
        self.followers = 0
        self.stopped = asyncio.Event()
        self._wake = asyncio.Event()
        self._next: asyncio.Future[None] | None = None
        self._waiting = 0
        self._asked_at: float | None = None  #: when somebody last began to wait
        self._store_id: UUID | None = None  #: None: nothing is followed; begin anew at the end of the log
        self._owners: dict[UUID, tuple[str, str] | None] = {}

    # -- reading the log ---------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Read what is appended until cancelled, if anybody wants it; the database may be away for a while."""
        loop = asyncio.get_running_loop()

        def wake() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._wake.set)

        ticket = self._log.waker.subscribe(wake)
        try:
            while True:
                self._wake.clear()
                if not (self._is_wanted() and await self._look()):
                    await _within(self._wake.wait(), _POLL_SECONDS)
        finally:
            self._log.waker.unsubscribe(ticket)

    def _is_wanted(self) -> bool:
        """Whether anybody follows or comes back soon; what is appended while nobody does is passed over."""
        if self.followers or self._waiting:
            return True
        now = self._log.clock.monotonic()
        if self._asked_at is not None and now - self._asked_at < _WANTED_SECONDS:
            return True
        self._store_id = None
        return False

    async def _look(self) -> bool:
        """Read on and tell of it; whether there is more."""
        try:
            state, entries = await self._service.ask(self._read)
        except JobLogError as error:  # also our own "too busy": whoever waits at the end lives on this reader
            logger.warning("the log can't be followed for now: %s", error)
            return False
        return self._take(state, entries)

    def _read(self) -> tuple[LogState, list[Entry] | None]:
        """What came since the last look; None if this can't go on from there.  In a thread: it changes nothing here."""
        state = self._log.store.state()
        if state.epoch != self.epoch or state.head < self.head or self._store_id is None:
            return state, None
        if state.head == self.head:
            return state, []
        return state, _encoded(self._log.store.log(self.head, PAGE, reading=Reading.TOLD), state)

    def _take(self, state: LogState, entries: list[Entry] | None) -> bool:
        """Put it at the end of the log in memory, on the loop: whoever pages there never meets half of it."""
        if entries is None:
            self._store_id = state.store_id
            self._tail.clear()
            self.epoch, self.head = state.epoch, state.head
            self._tell()  # those who came before this look ask the store for what it passed over
            return False
        if entries:
            self._tail.extend(entries)
            self.head = entries[-1].position
            self._tell()
        return len(entries) == PAGE

    # -- waiting -----------------------------------------------------------------------------------------------------

    def _tell(self) -> None:
        if self._next is not None and not self._next.done():
            self._next.set_result(None)
        self._next = None

    async def changed(self, seconds: float, *, behind: int | None = None) -> bool:
        """Wait until something was appended or the service stops (true), or *seconds* are over; *behind*: if not already."""
        is_followed = self._store_id is not None  # else our head is an old one
        if self.stopped.is_set() or (behind is not None and is_followed and self.head > behind):
            return True
        self._asked_at = self._log.clock.monotonic()
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        if not is_followed:
            self._wake.set()  # what came while nobody waited is seen at once
        self._waiting += 1
        try:
            told, _ = await asyncio.wait({self._next}, timeout=max(seconds, 0))
        finally:
            self._waiting -= 1
        return bool(told)

    def stop(self) -> None:
        """Let all who wait go."""
        self.stopped.set()
        self._tell()

    # -- pages -------------------------------------------------------------------------------------------------------

    async def page(
        self, after: int, limit: int, wanted: Wanted, known: tuple[int, int]
    ) -> tuple[list[Entry], int, int]:
        """What stands behind *after* that is wanted; how far was looked, and the epoch of it.

        From memory if that is kept, it is all there and no older than what the caller knows (epoch, head), else from the store.
        """
        is_followed = self._store_id is not None and bool(self._tail)
        epoch, in_reach = self.epoch, is_followed and self._tail[0].position <= after + 1
        if in_reach and after <= self.head and known <= (epoch, self.head):
            found = list(self._newer(after, limit))
            upto = found[-1].position if found else after
            found = [entry for entry in found if wanted.fits(entry)]
            if not found or not wanted.principal.is_bound:
                return found, upto, epoch
            return await self._service.ask(self._seen, found, wanted.principal), upto, epoch
        return await self._service.ask(self._stored_page, after, limit, wanted)

    def _newer(self, after: int, limit: int) -> list[Entry]:
        start = after + 1 - self._tail[0].position
        return [self._tail[index] for index in range(start, min(start + limit, len(self._tail)))]

    def _stored_page(self, after: int, limit: int, wanted: Wanted) -> tuple[list[Entry], int, int]:
        store = self._log.store
        state = store.state()  # read first: all up to its head is in the page, or is not wanted
        if wanted.job is not None:
            events = proof_rows(store).stream_log(wanted.job, after, state.head, limit, Reading.TOLD)
        else:
            events = store.log(after, limit, upto=state.head, topics=wanted.topics, reading=Reading.TOLD)
        upto = events[-1].position if len(events) == limit else state.head
        entries = [entry for entry in _encoded(events, state) if wanted.fits(entry)]
        entries = self._seen(entries, wanted.principal) if wanted.principal.is_bound else entries
        return entries, max(upto, after), state.epoch

    def _seen(self, entries: list[Entry], principal: Principal) -> list[Entry]:
        """Those of jobs that a bound principal sees; tenant and owner of a job never change."""
        unknown = [entry.event.stream_id for entry in entries if entry.event.stream_id not in self._owners]
        if unknown:
            rows = self._log.store.jobs(list(dict.fromkeys(unknown)))
            if len(self._owners) > _KNOWN_JOBS:
                self._owners.clear()
            for stream in unknown:
                row = rows.get(stream)
                self._owners[stream] = None if row is None else (row["tenant"], row["owner"])
        return [entry for entry in entries if self._is_theirs(entry.event.stream_id, principal)]

    def _is_theirs(self, stream: UUID, principal: Principal) -> bool:
        whose = self._owners.get(stream)
        return whose is not None and principal.sees({"tenant": whose[0], "owner": whose[1]})


async def _within(wanted: Any, seconds: float) -> None:
    """Await, but no longer than that."""
    try:
        async with asyncio.timeout(seconds):
            await wanted
    except TimeoutError:
        return
