"""The kinds of job that go out, as rows of the matrix: how each is handed in, and what its peer may do to it."""

from __future__ import annotations

import asyncio
import gzip
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar

import pytest

from joblog.domain.job import Job
from joblog.domain.retry import RetryPolicy
from joblog.workers.commands.log import JobLog
from joblog.workers.operations import mail_send, webhook_courier, webhooks
from joblog.workers.outbound import smtp
from joblog.workers.outbound.letter import Letter
from joblog.workers.outbound.limits import Limits
from joblog.workers.registry import Jobs
from joblog.workers.run import Run
from tests.workers.operations.receiver import SECRETS
from tests.workers.outbound import servers
from tests.workers.outbound.mail_server import USUAL, Mailbox, mail_server
from tests.workers.outbound.servers import Asked, always, answer

RETRY = RetryPolicy(first_seconds=10, factor=2, ceiling_seconds=1000, retries=2)
SHORT, LONG = Limits(total_ms=700, connect_ms=700, body=1_000_000), Limits(total_ms=60_000, body=1_000_000)
CANARY = "c4n4ry-of-the-matrix-77"
BEYOND = b" " * 5_000 + b"r3sp0nse-marker"  #: behind whatever an excerpt may hold
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"
REFUSED = (400, 401, 403, 404, 409, 410, 413, 415, 422)
RETRYABLE = (408, 425, 429, 500, 502, 503, 504)
WAITS: dict[str, float | None] = {"120": 120, "0": 0, "1.5": None, "-5": None, "soon": None, "": None}

Cells = dict[str, dict[str, Any]]  #: by column: what the peer does, by name


async def _echo(asked: Asked, writer: asyncio.StreamWriter) -> None:
    """A provider that repeats all that it was sent."""
    writer.write(answer(400, "\n".join(": ".join(pair) for pair in asked.headers).encode() + asked.body))
    await writer.drain()


HTTP: Cells = {
    "TST-08": {
        "silence": servers.silent,
        "drip": servers.for_ever(HEAD, b"x", every=0.005),
        "drip-head": servers.for_ever(b"HTTP/1.1 200 OK\r\nX: ", b"y", every=0.005),
    },
    "TST-09": {
        "before": servers.then_reset(b""),
        "in-headers": servers.then_reset(b"HTTP/1.1 200 OK\r\nContent-Le"),
        "in-body": servers.then_reset(HEAD + b"x" * 100),
    },
    "TST-10": {str(status): always(answer(status, b"busy")) for status in RETRYABLE},
    "TST-11": {str(status): always(answer(status, b"no")) for status in REFUSED}
    | {"too-large": always(answer(200, gzip.compress(b"0" * 5_000_000), ("Content-Encoding", "gzip")))},
    "TST-12": {value: always(answer(429, b"", ("Retry-After", value))) for value in WAITS},
    "TST-13": {"503": always(answer(503))},
    "TST-14": {"reset": servers.then_reset(b""), "503": always(answer(503)), "429": always(answer(429))},
    "TST-15": {"503": always(answer(503))},
    "TST-16": {"echo": _echo},
    "TST-17": {
        "success": servers.for_ever(b"HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n" + BEYOND, b"x" * 65_536),
        "error": servers.for_ever(b"HTTP/1.1 400 No\r\nContent-Length: 50000000\r\n\r\n" + BEYOND, b"x" * 65_536),
    },
}
SMTP: Cells = {
    "TST-08": {"greeting": {"greeting": "silence"}, "drip": {"EHLO": "drip"}, "data": {".": "silence"}},
    "TST-09": {"greeting": {"greeting": "reset"}, "MAIL": {"MAIL": "reset"}, "data": {".": "reset"}},
    "TST-10": {str(code): {"RCPT": f"{code} later"} for code in (421, 450, 451, 452)},
    "TST-11": {str(code): {"RCPT": f"{code} no"} for code in (550, 551, 552, 553, 554)}
    | {"530": {"MAIL": "530 log in"}},
    "TST-12": {"text": {"RCPT": "450 Retry-After: 300"}},  # there is no such thing: a text is never read
    "TST-13": {"450": {"RCPT": "450 later"}},
    "TST-14": {"reset": {"MAIL": "reset"}, "450": {"RCPT": "450 later"}, "451": {".": "451 later"}},
    "TST-15": {"450": {"RCPT": "450 later"}},
    "TST-16": {"echo": {"RCPT": f"550 {CANARY} is no token"}},
    "TST-17": {"reply": {"RCPT": "550-" + "\n550-".join(["x" * 400] * 500) + f"\n550 {BEYOND.decode()}"}},
}


class Peer(ABC):
    """A server in a thread of its own that behaves as it is told, until it is told otherwise."""

    now: Any
    good: ClassVar[Any]

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.ready, self.end = threading.Event(), asyncio.Event()
        self.server: Any = None

    @abstractmethod
    def opened(self) -> AbstractAsyncContextManager[Any]:
        """The server, for as long as it is to be there."""

    @property
    @abstractmethod
    def asked(self) -> int:
        """How many requests came."""

    @contextmanager
    def serving(self) -> Iterator[Peer]:
        async def serve() -> None:
            async with self.opened() as self.server:
                self.ready.set()
                await self.end.wait()

        thread = threading.Thread(target=lambda: self.loop.run_until_complete(serve()))
        thread.start()
        assert self.ready.wait(servers.BOUND)
        try:
            yield self
        finally:
            self.loop.call_soon_threadsafe(self.end.set)
            thread.join()
            self.loop.close()


class HttpPeer(Peer):
    good: ClassVar[Any] = staticmethod(always(answer(200, b"ok")))

    def opened(self) -> AbstractAsyncContextManager[Any]:
        async def behave(asked: Asked, writer: asyncio.StreamWriter) -> None:
            await self.now(asked, writer)

        return servers.serving(behave)

    @property
    def asked(self) -> int:
        return len(self.server.asked)


class MailPeer(Peer):
    good: ClassVar[dict[str, str]] = {}

    def opened(self) -> AbstractAsyncContextManager[Mailbox]:
        return mail_server()

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if name == "now":
            self.server.replies = USUAL | value

    @property
    def asked(self) -> int:
        return int(self.server.connections)


class Row(ABC):
    """One kind of job."""

    kind: str
    cells = HTTP
    peer: Callable[[], Peer] = HttpPeer

    def __init__(self, peer: Peer, patch: pytest.MonkeyPatch) -> None:
        self.at, self.jobs, self.limits = peer, Jobs(), LONG
        patch.setenv("JOBLOG_OUTBOUND_ALLOW", f"127.0.0.1 127.0.0.1 {peer.server.port}")
        self.prepare(patch)

    @abstractmethod
    def prepare(self, patch: pytest.MonkeyPatch) -> None:
        """Let a worker run it."""

    @abstractmethod
    def submit(self, log: JobLog, name: str) -> None:
        """Hand one in."""

    def hurry(self, limits: Limits) -> None:
        """Give a request so much time."""
        self.limits = limits
        webhook_courier._LIMITS = limits  # type: ignore[misc]

    def job(self, log: JobLog, name: str) -> Job:
        """The job that was handed in as *name*."""
        found = [log.job(row["id"]) for row in log.store.find_jobs(kind=self.kind, limit=100)]
        return next(job for job in found if name in (job.key.split(":")[-1], job.key))


class Webhook(Row):
    kind = webhooks.DELIVER

    def prepare(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(webhooks, "RETRY", RETRY)
        patch.setattr(webhook_courier, "_LIMITS", LONG)
        patch.setenv("HOOK", SECRETS["HOOK_SECRET_1"])
        webhooks.register(self.jobs)

    def submit(self, log: JobLog, name: str) -> None:
        webhooks.set_destination(log, name, f"{self.at.server.url}{name}", ["env:HOOK"])
        webhooks.announce(log, name, "matrix", {}, destinations=(name,))
        log.drain_outbox()


class Mail(Row):
    kind = mail_send.KIND
    cells, peer = SMTP, MailPeer

    def prepare(self, patch: pytest.MonkeyPatch) -> None:
        of = smtp.Server.of
        patch.setattr(smtp.Server, "of", lambda environ: replace(of(environ), seconds=self.limits.total_ms / 1000))
        url = f"smtp://127.0.0.1:{self.at.server.port}"
        mail_send.register(self.jobs, {"JOBLOG_SMTP_URL": url, "JOBLOG_SMTP_FROM": "log@example.com"})

    def submit(self, log: JobLog, name: str) -> None:
        mail_send.submit(log, Letter(("ada@example.org",), "s", "t"), key=name, retry=RETRY)


class Call(Row):
    """An operation of a user, through ``run.gate(…).request``."""

    kind = "call"

    def prepare(self, patch: pytest.MonkeyPatch) -> None:
        patch.setenv("TOKEN", CANARY)

        @self.jobs.job(self.kind, retry=RETRY)
        async def call(run: Run, name: str) -> int:
            gate = run.gate(name, credential="env:TOKEN", hosts=("127.0.0.1",))

            async def once() -> int:
                return (await gate.request("POST", self.at.server.url, json={}, limits=self.limits)).status

            return await run.step("once", once)

    def submit(self, log: JobLog, name: str) -> None:
        log.submit(self.jobs.spec(self.kind, name, key=name))


ROWS: dict[str, type[Row]] = {row.kind: row for row in (Webhook, Mail, Call)}
COLUMNS = tuple(f"TST-{number:02}" for number in range(8, 18))
#: Built-in kinds that send nothing.
_CARE = {f"joblog.{what}" for what in ("bulk", "queue-bulk", "diff", "rebuild", "verify")}
STAYING = frozenset({"import.file", webhooks.ANNOUNCE, webhooks.PRUNE, *_CARE})
LATEST = timedelta(seconds=RETRY.first_seconds * 1.25)
