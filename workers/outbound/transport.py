"""aiohttp, with the guard at every place where a connection is made, used again, or followed elsewhere."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from contextvars import ContextVar
from ipaddress import IPv4Address, ip_address
from typing import TYPE_CHECKING, Any, Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from .errors import DestinationRefusedError
from .limits import HEADERS_LIMIT, LINE_LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from .guard import Approval, Guard, Resolver

    AddrInfo = tuple[int, int, int, str, tuple[Any, ...]]
    Dial = Callable[[AddrInfo], socket.socket]

#: Of the request under way in this task; the tasks that aiohttp starts for it inherit it.
CURRENT: ContextVar[Approval] = ContextVar("joblog_outbound_approval")

_KEEPALIVE_SECONDS: Final = 4.0  # below the 5 s after which common servers hang up


class ConnectionLostError(aiohttp.ClientError):
    """The connection ended before an answer.

    Hides the error from aiohttp, which would send idempotent requests a second time that no gate and no attempt counts.
    """


class GuardedConnector(aiohttp.TCPConnector):
    """Connects to what was judged for the current request, and to nothing else."""

    def __init__(self, guard: Guard, resolver: Resolver, dial: Dial) -> None:
        super().__init__(
            resolver=_JudgedResolver(guard, resolver),
            use_dns_cache=False,
            socket_factory=self._open,
            limit=0,  # gates bound how many
            keepalive_timeout=_KEEPALIVE_SECONDS,
        )
        self._guard, self._dial = guard, dial

    def _open(self, info: AddrInfo) -> socket.socket:
        """The choke point: every socket is made here, also for a literal, which skips the resolver."""
        approval = CURRENT.get()
        try:
            self._guard.check_socket(approval, info[4])
        except DestinationRefusedError as refusal:
            raise PermissionError(str(refusal)) from refusal
        return self._dial(info)

    async def connect(self, req: Any, traces: Any, timeout: aiohttp.ClientTimeout) -> Any:  # noqa: ASYNC109 - overrides
        """A connection, new or used again, whose peer was judged before anything is sent."""
        connection = await super().connect(req, traces, timeout)
        while CURRENT.get().must_look_up and not CURRENT.get().addresses:
            connection.close()  # of an earlier request
            connection = await super().connect(req, traces, timeout)
        transport = connection.transport
        peer = transport.get_extra_info("peername") if transport else None
        local = transport.get_extra_info("sockname") if transport else None
        try:
            self._guard.check_peer(CURRENT.get(), peer, local)
        except BaseException:
            connection.close()
            raise
        return connection


class _JudgedResolver(AbstractResolver):
    def __init__(self, guard: Guard, resolver: Resolver) -> None:
        self._guard, self._resolver = guard, resolver

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002 - the port's
    ) -> list[ResolveResult]:
        answers = await self._resolver(host, port)
        if not answers:
            raise OSError(socket.EAI_NONAME, "no address")
        self._guard.answered(CURRENT.get(), answers)
        return [
            ResolveResult(
                hostname=host,
                host=str(address),
                port=port,
                family=socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in dict.fromkeys(map(ip_address, answers))
        ]

    async def close(self) -> None:
        """Nothing is held."""


class SystemResolver:
    """The system's resolver, in threads of its own: one that hangs delays neither the loop nor the end of the process."""

    def __init__(self, at_once: int = 16) -> None:
        self._slots = asyncio.Semaphore(at_once)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """The addresses, in the system's order; the slot of a look-up that hangs stays taken until it returns."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[str]] = loop.create_future()
        await self._slots.acquire()
        threading.Thread(target=self._look_up, args=(host, port, loop, answer), daemon=True).start()
        return await answer

    def _look_up(
        self, host: str, port: int, loop: asyncio.AbstractEventLoop, answer: asyncio.Future[list[str]]
    ) -> None:
        found: list[str] | OSError
        try:
            infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found = list(dict.fromkeys(str(info[4][0]) for info in infos))
        except (OSError, UnicodeError) as error:
            found = error if isinstance(error, OSError) else OSError(str(error))
        try:
            loop.call_soon_threadsafe(self._tell, answer, found)
        except RuntimeError:  # the loop is closed: nobody waits any more
            return

    def _tell(self, answer: asyncio.Future[list[str]], found: list[str] | OSError) -> None:
        self._slots.release()
        if answer.done():
            return
        if isinstance(found, OSError):
            answer.set_exception(found)
        else:
            answer.set_result(found)


def dial(info: AddrInfo) -> socket.socket:
    """A socket of the system."""
    return socket.socket(info[0], info[1], info[2])


def tls_context(ca_file: Path | None = None) -> ssl.SSLContext:
    """Verification is always on; *ca_file* adds a private authority to the system's."""
    context = ssl.create_default_context()
    if ca_file is not None:
        context.load_verify_locations(cafile=ca_file)
    return context


async def _once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as lost:
        raise ConnectionLostError from lost


def session(connector: GuardedConnector) -> aiohttp.ClientSession:
    """No cookies, no proxies or netrc of the environment, no unpacking, bounded headers."""
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        auto_decompress=False,
        timeout=aiohttp.ClientTimeout(total=None),
        max_line_size=LINE_LIMIT,
        max_field_size=LINE_LIMIT,
        max_headers=HEADERS_LIMIT,
        middlewares=(_once,),
        skip_auto_headers=("User-Agent", "Accept-Encoding", "Content-Type"),
    )
