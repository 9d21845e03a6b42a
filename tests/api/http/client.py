"""A real service on loopback for tests, and a small client for it."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from joblog.api.http import auth
from joblog.api.http.server import Bind, HttpServer
from joblog.api.http.service import ServiceSettings
from joblog.eventstore import tokens
from joblog.workers.commands.log import JobLog
from joblog.workers.registry import Jobs

_KEYS = count(1)
PATIENCE = 30.0


def a_key() -> str:
    """An Idempotency-Key that no other request of this process has."""
    return f"key-of-a-test-{next(_KEYS):08d}"


@dataclass
class Reply:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """Of the problem."""
        assert self.headers["content-type"] == "application/problem+json", self
        return str(self.json["code"])


@dataclass
class Client:
    """One who asks, with a token or without."""

    port: int
    token: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    def request(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        sent = {**self.headers, **(headers or {})}
        if self.token:
            sent.setdefault("Authorization", f"Bearer {self.token}")
        raw = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        if raw is not None:
            sent.setdefault("Content-Type", "application/json")
        try:
            connection.request(method, path, raw, sent)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(answer.status, found, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Reply:
        return self.request("GET", path, headers=named(headers))

    def post(self, path: str, body: Any = None, **headers: str) -> Reply:
        return self.request("POST", path, {} if body is None else body, {"Idempotency-Key": a_key()} | named(headers))

    def good(self, path: str, **headers: str) -> Any:
        reply = self.get(path, **headers)
        assert reply.status == 200, reply
        return reply.json

    def submit(self, kind: str = "import", args: Any = None, **more: Any) -> str:
        reply = self.post("/api/v1/jobs", {"kind": kind, "args": args, **more})
        assert reply.status == 201, reply
        return str(reply.json["id"])


def named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def a_token(log: JobLog, *scopes: str, **more: Any) -> str:
    """Mint a token as the command line does."""
    name = more.pop("name", None) or f"test-{next(_KEYS)}"
    token, row = auth.minted(name=name, scopes=scopes, now=log.store.now(), **more)
    tokens.add(log.store, row)
    return token


@contextmanager
def serving(log: JobLog, jobs: Jobs | None = None, **settings: Any) -> Iterator[HttpServer]:
    server = HttpServer(log, jobs or Jobs(), Bind(port=0), ServiceSettings(**settings))
    server.start()
    try:
        yield server
    finally:
        server.stop()
