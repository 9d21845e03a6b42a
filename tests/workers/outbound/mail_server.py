"""A real SMTP server on loopback that answers as told, and keeps what it accepted."""

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.workers.outbound.servers import drip

USUAL = {
    "greeting": "220 mail.example.com ESMTP",
    "EHLO": "250-mail.example.com\n250-AUTH PLAIN LOGIN\n250 STARTTLS",
    "STARTTLS": "220 go ahead",
    "AUTH": "235 welcome",
    "MAIL": "250 ok",
    "RCPT": "250 ok",
    "DATA": "354 end with a dot",
    ".": "250 queued",
    "QUIT": "221 bye",
    "RSET": "250 ok",
}


@dataclass
class Mailbox:
    """What the server saw.  A reply of ``drop``, ``reset`` or ``silence`` is that."""

    port: int
    replies: dict[str, str]
    by_recipient: Mapping[str, str]
    commands: list[str] = field(default_factory=list)
    accepted: list[tuple[str, bytes]] = field(default_factory=list)
    connections: int = 0
    was_encrypted: bool = False


class _HangupError(Exception):
    pass


@asynccontextmanager
async def mail_server(
    replies: Mapping[str, str] | None = None,
    *,
    tls: ssl.SSLContext | None = None,
    by_recipient: Mapping[str, str] | None = None,
) -> AsyncIterator[Mailbox]:
    """Serve; *replies* by verb (``.`` for the end of the data), *by_recipient* for ``RCPT`` of an address."""
    told = USUAL | dict(replies or {})
    tasks: set[asyncio.Task[None]] = set()

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        box.connections += 1
        with contextlib.suppress(
            _HangupError, OSError, asyncio.IncompleteReadError, asyncio.CancelledError, ssl.SSLError
        ):
            await _conversation(box, reader, writer, tls)
        writer.transport.abort()

    server = await asyncio.start_server(converse, "127.0.0.1", 0)
    box = Mailbox(server.sockets[0].getsockname()[1], told, by_recipient or {})
    try:
        yield box
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _conversation(
    box: Mailbox, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tls: ssl.SSLContext | None
) -> None:
    recipient = ""
    await _say(box.replies["greeting"], writer)
    while line := (await reader.readline()).decode():
        verb = line.split()[0].upper().split(":")[0]
        box.commands.append(line.strip())
        if verb == "RCPT":
            recipient = line.partition("<")[2].partition(">")[0]
        reply = (
            box.by_recipient.get(recipient, box.replies[verb]) if verb == "RCPT" else box.replies.get(verb, "502 no")
        )
        await _say(reply, writer)
        if verb == "STARTTLS" and reply.startswith("220") and tls is not None:
            await writer.start_tls(tls)
            box.was_encrypted = True
        if verb == "DATA" and reply.startswith("354"):
            data = await reader.readuntil(b"\r\n.\r\n")
            if box.replies["."].startswith("250"):
                box.accepted.append((recipient, data[:-5]))
            await _say(box.replies["."], writer)
        if verb == "QUIT":
            return


async def _say(reply: str, writer: asyncio.StreamWriter) -> None:
    if reply == "silence":
        await asyncio.Event().wait()
    if reply == "reset":
        raw: socket.socket = writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
    if reply in {"drop", "reset"}:
        writer.close()
        raise _HangupError
    if reply == "drip":
        await drip(writer, b"250-x\r\n", 0.005)
    writer.write("".join(f"{line}\r\n" for line in reply.split("\n")).encode("utf-8", "surrogateescape"))
    await writer.drain()
