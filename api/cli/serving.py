"""`serve`: the HTTP service beside any number of workers."""

from __future__ import annotations

import logging
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from .exits import Exit
from .logs import start_logging
from .output import answer, say
from .session import database, open_log, shown, user, user_jobs
from .settings import shared_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...workers.commands.log import JobLog
    from ...workers.registry import Jobs
    from ..http.server import HttpServer

DEFAULT_PORT: Final = 8765  #: as of ``http.server``, which is not imported for a help text
_ENDS: Final = {signal.SIGTERM: Exit.TERMINATED, signal.SIGINT: Exit.INTERRUPTED}


@click.command(name="serve")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=DEFAULT_PORT, show_default=True, help="0: any that is free."
)
@click.option("--read-only", is_flag=True, help="Refuse every command; also on a standby.")
@click.option(
    "--trust-proxy",
    "proxies",
    multiple=True,
    metavar="NET",
    help="An address or network that may name the user in X-Forwarded-User.",
)
@shared_options()
def serve_command(*, host: str, port: int, read_only: bool, proxies: tuple[str, ...]) -> Exit:
    """Serve the HTTP API and its page, beside any number of workers."""
    start_logging(logging.INFO)
    with open_log(reading=read_only) as log:
        server = make_server(log, user_jobs(), host, port, read_only=read_only, proxies=proxies)
        link = sign_in_text(server, log) if server.bind.is_loopback and not read_only else ""
        text = f"serving {shown(database())} on {server.url}; stop it with Ctrl-C"
        received = server.run(lambda: say("\n".join(line for line in (text, link) if line)))
    answer({"url": server.url, "stopped_by": None if received is None else received.name})
    return _ENDS.get(received, Exit.DONE) if received is not None else Exit.DONE


def make_server(log: JobLog, jobs: Jobs, host: str, port: int, **settings: Any) -> HttpServer:
    """The service, its socket open already."""
    from ..http.auth import Proxies
    from ..http.server import Bind, HttpServer
    from ..http.service import ServiceSettings

    proxies = Proxies.of(settings.get("proxies", ()))
    made = ServiceSettings(read_only=settings.get("read_only", False), proxies=proxies)
    return HttpServer(log, jobs, Bind(host, port), made)


@contextmanager
def serving_beside(log: JobLog, jobs: Jobs, port: int | None) -> Iterator[None]:
    """The service beside a worker, on loopback; a port that is taken leaves the next free one, and None no service."""
    if port is None:
        yield
        return
    from ...domain.errors import StoreUnavailableError

    try:
        server = make_server(log, jobs, "127.0.0.1", port)
    except StoreUnavailableError:
        server = make_server(log, jobs, "127.0.0.1", 0)
    server.start()
    say(f"serving on {server.url}\n{sign_in_text(server, log)}")
    try:
        yield
    finally:
        server.stop()


def sign_in_text(server: HttpServer, log: JobLog) -> str:
    """A link for whoever reads this terminal; it works once, for ten minutes."""
    from ..http.auth import Auth

    return f"sign in (once, within ten minutes): {server.url}/sign-in?code={Auth(log).sign_in_link(user())}"
