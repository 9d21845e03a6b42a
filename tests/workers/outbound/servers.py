"""Real servers on loopback that answer as told, byte by byte, and remember what they were asked."""

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from joblog.eventstore.clock import SystemClock
from joblog.workers.outbound.client import OutboundClient
from joblog.workers.outbound.guard import Guard
from joblog.workers.outbound.limits import Limits

T = TypeVar("T")
Behaviour = Callable[["Asked", asyncio.StreamWriter], Awaitable[None]]
BOUND = 90.0  # seconds in which any test of this folder is over, also on a busy machine


def run(test: Coroutine[Any, Any, T]) -> T:
    """Run a test on a loop of its own, within a bound."""

    async def bounded() -> T:
        async with asyncio.timeout(BOUND):
            return await test

    return asyncio.run(bounded())


@dataclass
class Asked:
    """One request as it came."""

    line: str
    headers: list[tuple[str, str]]
    body: bytes

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]


@dataclass
class Server:
    """A running server."""

    port: int
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"


async def read_request(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in head[1:] if line)]
    length = next((int(value) for name, value in headers if name.lower() == "content-length"), 0)
    return Asked(head[0], headers, await reader.readexactly(length))


@asynccontextmanager
async def serving(behaviour: Behaviour, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """Serve until the block ends; connections that are left are cut."""
    writers: list[asyncio.StreamWriter] = []
    tasks: set[asyncio.Task[None]] = set()

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.connections += 1
        writers.append(writer)
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while not writer.is_closing():
                asked = await read_request(reader)
                served.asked.append(asked)
                await behaviour(asked, writer)

    server = await asyncio.start_server(converse, "127.0.0.1", 0, ssl=tls)
    served = Server(server.sockets[0].getsockname()[1])
    try:
        yield served
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        for writer in writers:
            writer.transport.abort()
        await asyncio.gather(*tasks, return_exceptions=True)


def answer(status: int = 200, body: bytes = b"", *headers: tuple[str, str], length: int | None = None) -> bytes:
    """An answer as bytes; *length* may lie."""
    lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {value}" for name, value in headers)]
    lines.append(f"Content-Length: {len(body) if length is None else length}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + body


def always(data: bytes) -> Behaviour:
    async def behave(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()

    return behave


def in_turn(*answers: bytes) -> Behaviour:
    """Each request the next of *answers*; the last for all that follow."""
    left = list(answers)

    async def behave(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(left.pop(0) if len(left) > 1 else left[0])
        await writer.drain()

    return behave


def then_reset(data: bytes) -> Behaviour:
    """Send *data*, then reset the connection."""

    async def behave(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        raw: socket.socket = writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    return behave


def then_close(data: bytes) -> Behaviour:
    async def behave(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        writer.close()

    return behave


def for_ever(first: bytes, again: bytes, *, every: float = 0.0) -> Behaviour:
    """Send *first*, then *again* and again until the peer hangs up."""

    async def behave(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        await drip(writer, again, every)

    return behave


async def drip(writer: asyncio.StreamWriter, piece: bytes, every: float) -> None:
    """Send *piece* now and each *every* seconds, until the peer hangs up."""
    gone = asyncio.ensure_future(writer.wait_closed())
    try:
        while not gone.done():
            writer.write(piece)
            await writer.drain()
            await asyncio.wait({gone}, timeout=every)
        await gone
    finally:
        gone.cancel()


async def silent(_: Asked, writer: asyncio.StreamWriter) -> None:
    """Say nothing until the peer hangs up."""
    await writer.wait_closed()


class Names:
    """A resolver that knows what it was told, and counts."""

    def __init__(self, **names: Sequence[str] | OSError) -> None:
        self.names = {name.replace("_", "."): answers for name, answers in names.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, _: int) -> Sequence[str]:
        self.asked.append(host)
        answers = self.names.get(host, OSError("no such name"))
        if isinstance(answers, OSError):
            raise answers
        return answers


def client_for(*servers: Server, hosts: Sequence[str] = (), **options: Any) -> OutboundClient:
    """A client that may reach *servers* by their address, and by *hosts*."""
    ports = ",".join(str(server.port) for server in servers)
    allow = [f"{host} 127.0.0.1 {ports}" for host in ("127.0.0.1", *hosts)]
    options.setdefault("limits", Limits(total_ms=10_000))
    options.setdefault("now", SystemClock().now)
    return OutboundClient(guard=Guard.made(allow=allow), **options)
