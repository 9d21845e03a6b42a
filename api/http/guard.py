"""Connections under our own deadlines and caps: slow, idle and stalled ones are closed, too many are turned away."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler
from aiohttp.web_server import Server

from . import problems
from .errors import BadRequestError, OverloadedError

if TYPE_CHECKING:
    from collections.abc import Callable

_BODY: Final = problems.encode(problems.document(OverloadedError("too many connections; try again"), 503, ""))
_TURNED_AWAY: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\nRetry-After: 1\r\n"
    b"Connection: close\r\nContent-Length: " + str(len(_BODY)).encode() + b"\r\n\r\n" + _BODY
)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one process takes; spans in seconds."""

    header_seconds: float = 10.0  #: from a connection's first moment to the end of its first header
    idle_seconds: float = 75.0  #: between two requests, and until the end of the next header
    body_seconds: float = 30.0
    stall_seconds: float = 30.0  #: a client that reads nothing of what waits for it
    connections: int = 2000
    per_address: int = 1000
    body_bytes: int = 1024 * 1024
    pending: int = 500  #: requests that wait for the store
    threads: int = 8  #: that ask the store
    wait_seconds: float = 60.0  #: the longest a client may ask to wait


class Connection(RequestHandler):
    """One client's connection."""

    __slots__ = ("_guard", "address", "counted", "served", "since", "stalled_at", "unsent")

    def __init__(self, guard: Guard, server: Any, **more: Any) -> None:
        super().__init__(server, keepalive_timeout=guard.limits.idle_seconds, **more)
        self._guard = guard
        self.address, self.counted = "", False
        self.since = 0.0  #: it has no whole request since then
        self.served = 0  #: requests, when the guard last looked
        self.unsent, self.stalled_at = 0, 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count it, or turn it away."""
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if isinstance(peer, tuple) else ""
        self.since = self._guard.time()
        if not self._guard.admit(self):
            assert isinstance(transport, asyncio.Transport)  # noqa: S101 - a server's
            transport.write(_TURNED_AWAY)
            transport.close()
            self._manager = None  # what comes is not for us
            return
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Uncount it."""
        self._guard.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes of one that was turned away are dropped."""
        if self._manager is not None:
            super().data_received(data)

    @property
    def is_waiting(self) -> bool:
        """Whether no request of it is under way: its next header is not whole yet."""
        return not self._request_in_progress and not self._messages

    @property
    def requests(self) -> int:
        """Whole requests that it had so far."""
        return self._request_count

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """What aiohttp itself refuses, in our form."""
        del request, exc
        error = BadRequestError((message or "this is no HTTP request").splitlines()[0][:200])
        body = problems.encode(problems.document(error, status, ""))
        answer = web.Response(status=status, body=body, content_type=problems.MEDIA)
        answer.force_close()
        return answer


class Guard:
    """Counts connections and closes those that are over a deadline."""

    def __init__(self, limits: Limits, time: Callable[[], float], *, exempt: Callable[[str], bool]) -> None:
        self.limits, self.time, self._exempt = limits, time, exempt
        self.connections: set[Connection] = set()
        self._by_address: Counter[str] = Counter()
        self.turned_away = self.closed_slow = 0

    def admit(self, one: Connection) -> bool:
        """Take one more, if there is room; a trusted proxy brings many clients on one address."""
        full = len(self.connections) >= self.limits.connections
        crowded = self._by_address[one.address] >= self.limits.per_address and not self._exempt(one.address)
        if full or crowded:
            self.turned_away += 1
            return False
        self.connections.add(one)
        self._by_address[one.address] += 1
        one.counted = True
        return True

    def leave(self, one: Connection) -> None:
        """One is gone."""
        if one.counted:
            one.counted = False
            self.connections.discard(one)
            self._by_address[one.address] -= 1
            if not self._by_address[one.address]:
                del self._by_address[one.address]

    def sweep(self) -> None:
        """Close what is over its deadline."""
        now = self.time()
        for one in list(self.connections):
            if self._is_over(one, now) and one.transport is not None:
                self.closed_slow += 1
                one.transport.abort()

    def _is_over(self, one: Connection, now: float) -> bool:
        if one.is_waiting and one.requests == one.served:
            limits = self.limits
            return now - one.since > (limits.idle_seconds if one.requests else limits.header_seconds)
        one.since, one.served = now, one.requests
        unsent = one.transport.get_write_buffer_size() if one.transport is not None else 0
        if not unsent or unsent < one.unsent or not one.unsent:
            one.stalled_at = now
        one.unsent = unsent
        return bool(unsent) and now - one.stalled_at > self.limits.stall_seconds

    async def watch(self) -> None:
        """Sweep until cancelled."""
        tick = asyncio.Event()
        shortest = min(self.limits.header_seconds, self.limits.idle_seconds, self.limits.stall_seconds)
        while True:
            try:
                async with asyncio.timeout(min(1.0, shortest / 4)):
                    await tick.wait()
            except TimeoutError:
                self.sweep()


class GuardedServer(Server):
    """aiohttp's server with our connections."""

    def __init__(self, guard: Guard, server: Server) -> None:
        self.__dict__.update(vars(server))
        self._guard = guard

    def __call__(self) -> Connection:
        """One for each client."""
        return Connection(self._guard, self, loop=self._loop, **self._kwargs)


class GuardedRunner(web.AppRunner):
    """aiohttp's runner with our server."""

    def __init__(self, app: web.Application, guard: Guard, **more: Any) -> None:
        super().__init__(app, **more)
        self._guard = guard

    async def _make_server(self) -> Server:
        return GuardedServer(self._guard, await super()._make_server())
