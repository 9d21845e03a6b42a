"""A receiver of webhooks on loopback, which keeps what it got and answers as it is told."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

import pytest

SECRETS = {f"HOOK_SECRET_{n}": "whsec_" + base64.b64encode(bytes([n]) * 32).decode() for n in (1, 2)}


class Got(NamedTuple):
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]


class Receiver(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.got: list[Got] = []
        self.answers: dict[str, list[tuple[int, dict[str, str]]]] = {}  #: by path, in order; 200 behind the last

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{path}"

    def at(self, path: str) -> list[Got]:
        return [one for one in self.got if one.path == f"/{path}"]

    @property
    def environment(self) -> dict[str, str]:
        """What a worker needs to know to send here."""
        return {**SECRETS, "JOBLOG_OUTBOUND_ALLOW": f"127.0.0.1 127.0.0.1 {self.server_port}"}


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.got.append(Got(self.path, headers, body))
        answers = self.server.answers.get(self.path.strip("/"))
        status, more = answers.pop(0) if answers else (200, {})
        self.send_response(status)
        for name, value in {"Content-Length": "0", **more}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def listening() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with listening() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server
