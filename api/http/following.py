"""The feed's route: one page, a long-poll, a stream of NDJSON, or server-sent events, by what the client accepts."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import orjson
from aiohttp import web

from ...domain.errors import InvalidFieldError, StoreError
from .. import cursors
from .errors import OverloadedError
from .feed import PAGE, Wanted
from .route import Answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...eventstore.store import LogState
    from .feed import Entry, Feed
    from .route import Call

_PING_SECONDS: Final = 15.0
_AWAY_SECONDS: Final = 2.0
NDJSON: Final = "application/x-ndjson"
EVENTS: Final = "text/event-stream"


async def follow_log(call: Call) -> Answer | web.StreamResponse:
    """Events behind a place, in order, without gaps; `wait` holds the answer until there is one."""
    accept = call.request.headers.get("Accept", "")
    wanted = _wanted(call)
    state = await call.service.ask(call.log.store.state)
    given = call.request.headers.get("Last-Event-ID", "") or call.query.after
    after = cursors.log_place(given, state) if given else state.head if EVENTS in accept else 0
    if call.request.method == "HEAD":
        return Answer(b"")
    if EVENTS in accept:
        return await _stream(call, _Sse(), after, wanted, state)
    if NDJSON in accept:
        return await _stream(call, _Lines(), after, wanted, state)
    return await _page(call, after, wanted, (state.epoch, state.head), attrgetter("json"))


async def read_log(call: Call) -> Answer:
    """The same as stored: what `joblog tail --json` prints."""
    state = await call.service.ask(call.log.store.state)
    after = cursors.log_place(call.query.after, state) if call.query.after else 0
    return await _page(call, after, _wanted(call), (state.epoch, state.head), attrgetter("stored"))


def _wanted(call: Call) -> Wanted:
    query, who = call.query, call.principal
    if query.tenant is not None:
        if who.tenant not in {"", query.tenant}:
            raise InvalidFieldError("tenant", "not the token's own", "leave it out")
        who = replace(who, tenant=query.tenant)
    return Wanted(who, tuple(topic for topic in query.topics.split(",") if topic), query.job)


async def _page(
    call: Call, after: int, wanted: Wanted, known: tuple[int, int], form: Callable[[Entry], bytes]
) -> Answer:
    feed, clock = call.service.feed, call.log.clock
    until = clock.monotonic() + min(call.query.wait, call.service.limits.wait_seconds)
    while True:
        found, upto, epoch = await feed.page(after, call.query.limit, wanted, known)
        left = until - clock.monotonic()
        if found or left <= 0 or feed.stopped.is_set():
            break
        if upto == after:
            await feed.changed(left, behind=after)
        after = upto
    body = b'{"items":[' + b",".join(map(form, found))
    place = orjson.dumps({"next": f"{epoch}:{upto}", "high_water": max(known[1], upto)})
    return Answer(body + b"]," + place[1:])


class _Sse:
    """Server-sent events: the id is the place to come back with."""

    media = EVENTS
    beginning = b"retry: 3000\n\n"
    ping = b": still here\n\n"
    is_endless = True

    def write(self, entry: Entry, epoch: int) -> bytes:
        """One event."""
        head = f"id: {epoch}:{entry.position}\nevent: {entry.event.topic}\ndata: ".encode()
        return head + entry.json + b"\n\n"

    def passed(self, epoch: int, position: int) -> bytes:
        """Nothing up to there: an id of its own, so that the client comes back behind it."""
        return f"id: {epoch}:{position}\n: nothing else up to here\n\n".encode()

    def ended(self, epoch: int) -> bytes:
        """The places of this stream mean something else from now on."""
        return f'event: epoch\ndata: {{"epoch":"{epoch}"}}\n\n'.encode()


class _Lines:
    """NDJSON to the end of the log; the last line says how far that was."""

    media = NDJSON
    beginning = b""
    ping = b""
    is_endless = False

    def write(self, entry: Entry, epoch: int) -> bytes:
        """One event."""
        del epoch
        return entry.json + b"\n"

    def passed(self, epoch: int, position: int) -> bytes:
        """The last line."""
        return orjson.dumps({"next": f"{epoch}:{position}"}) + b"\n"

    def ended(self, epoch: int) -> bytes:
        """The log is another one from now on: no last line, so that the client sees it."""
        del epoch
        return b""


async def _stream(call: Call, form: _Sse | _Lines, after: int, wanted: Wanted, state: LogState) -> web.StreamResponse:
    answer = web.StreamResponse(
        headers={"Content-Type": form.media, "X-Accel-Buffering": "no", "Cache-Control": "no-store"}
    )
    answer.headers["X-Request-Id"] = call.request_id
    await answer.prepare(call.request)
    feed = call.service.feed
    feed.followers += 1
    try:
        await answer.write(form.beginning)
        await _send(call, form, answer, after, wanted, state)
        await answer.write_eof()
    except ConnectionError:
        pass  # the client went away, as clients do
    finally:
        feed.followers -= 1
    return answer


async def _send(
    call: Call, form: _Sse | _Lines, answer: web.StreamResponse, after: int, wanted: Wanted, state: LogState
) -> None:
    """Pages until the end of the log, or for ever.  A client that reads slowly is waited for, and reads from the store."""
    feed, told = call.service.feed, after
    epoch, known = state.epoch, (state.epoch, state.head)
    while not feed.stopped.is_set():
        try:
            may = await call.service.still(call.principal, call.route.scope)
            found, upto, now = await feed.page(after, PAGE, wanted, known)
        except (StoreError, OverloadedError):  # the database is away: the stream goes on where it is, once it is back
            if not await feed.changed(_AWAY_SECONDS):
                await answer.write(form.ping)
            continue
        if not may:
            raise ConnectionResetError("the token was revoked")
        if now != epoch:
            await answer.write(form.ended(now))
            return
        if found:
            await answer.write(b"".join(form.write(entry, epoch) for entry in found))
            told = found[-1].position
        if upto > after:
            after = upto
            continue
        if not form.is_endless:
            await answer.write(form.passed(epoch, after))
            return
        if after > told:
            await answer.write(form.passed(epoch, after))
            told = after
        await _rest(feed, form, answer, after)


async def _rest(feed: Feed, form: _Sse | _Lines, answer: web.StreamResponse, after: int) -> None:
    """Wait for more; say now and then that somebody is here."""
    if not await feed.changed(_PING_SECONDS, behind=after):
        await answer.write(form.ping)
