"""Running the service: in this thread until a signal comes, or in a thread beside a worker."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import signal
import socket
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ...domain.errors import StoreUnavailableError
from ...eventstore import tokens
from .app import make_app
from .errors import UnsafeBindError
from .guard import GuardedRunner
from .routes import ROUTES
from .service import Service, ServiceSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...workers.commands.log import JobLog
    from ...workers.registry import Jobs

DEFAULT_PORT: Final = 8765
_SHUTDOWN_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Bind:
    """Where it listens; port 0 lets the system choose."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def check_bind(bind: Bind, log: JobLog, settings: ServiceSettings) -> None:
    """Refuse an address that others can reach while nobody is told to guard it.

    Raises:
        UnsafeBindError: there is neither a token nor a trusted proxy.
    """
    if bind.is_loopback or settings.proxies.networks:
        return
    now = log.store.now()
    if not any(row.is_live(now) for row in tokens.listed(log.store, "token")):
        raise UnsafeBindError(
            "bind",
            f"{bind.host} can be reached by others, and there is no token",
            "make one with `joblog tokens create`, or name a --trust-proxy",
        )


def listening(bind: Bind) -> socket.socket:
    """The socket, so that a port that is taken is told before anything starts."""
    try:
        family = socket.getaddrinfo(bind.host, bind.port, type=socket.SOCK_STREAM)[0][0]
        made = socket.socket(family, socket.SOCK_STREAM)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((bind.host, bind.port))
        except BaseException:
            made.close()
            raise
    except OSError as error:
        raise StoreUnavailableError(f"{bind.host}:{bind.port} can't be listened on: {error.strerror}") from error
    return made


class HttpServer:
    """One service on one socket."""

    def __init__(self, log: JobLog, jobs: Jobs, bind: Bind, settings: ServiceSettings | None = None) -> None:
        settings = settings or ServiceSettings()
        check_bind(bind, log, settings)
        self.log, self.bind, self._jobs, self._settings = log, bind, jobs, settings
        self._socket = listening(bind)
        self.port: int = self._socket.getsockname()[1]
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._ready = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self.service: Service

    @property
    def url(self) -> str:
        """Where it is reached from this machine."""
        host = f"[{self.bind.host}]" if ":" in self.bind.host else self.bind.host
        return f"http://{host}:{self.port}"

    async def serve(self, started: Callable[[], None] = lambda: None) -> None:
        """Serve until ``stop``; then let answers end, and close."""
        self._loop = asyncio.get_running_loop()
        self.service = Service(self.log, self._jobs, self._settings)
        app = make_app(self.service, ROUTES)
        runner = GuardedRunner(
            app, self.service.guard, access_log=None, auto_decompress=False, shutdown_timeout=_SHUTDOWN_SECONDS
        )
        await runner.setup()
        try:
            from aiohttp import web

            await web.SockSite(runner, self._socket, backlog=1024).start()
            started()
            self._ready.set()
            await self._stop.wait()
            await self.service.drain()
        finally:
            await runner.cleanup()
            self._socket.close()

    def run(self, started: Callable[[], None] = lambda: None) -> signal.Signals | None:
        """Serve in this thread until a signal comes; answers which."""
        received: list[signal.Signals] = []

        def stop(one: signal.Signals) -> None:
            received.append(one)
            self._stop.set()

        async def main() -> None:
            loop = asyncio.get_running_loop()
            for one in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(one, stop, one)
            await self.serve(started)

        gc.collect()
        gc.freeze()  # what is loaded stays: a collection that goes through all of it is an answer that is 50 ms late
        asyncio.run(main())
        return received[0] if received else None

    def start(self) -> None:
        """Serve in a thread of its own; returns once it answers."""

        def main() -> None:
            try:
                asyncio.run(self.serve())
            except BaseException as error:  # noqa: BLE001 - raised again where somebody reads it
                self._error = error
            finally:
                self._ready.set()

        self._thread = threading.Thread(target=main, name="joblog-http", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """End it, from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread is not None:
            self._thread.join()
