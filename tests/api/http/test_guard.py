"""Slow and silent clients are closed in time, too many are turned away, and the others are served meanwhile."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from joblog.api.http.guard import Limits
from joblog.api.http.server import HttpServer
from joblog.domain.spec import JobSpec
from joblog.workers.commands.log import JobLog
from tests.api.http.client import PATIENCE, Client, a_token, serving

QUICK = Limits(header_seconds=1.0, idle_seconds=2.0, body_seconds=0.4)


@pytest.fixture
def hurried(sqlite_log: JobLog) -> Iterator[HttpServer]:
    """A service with deadlines that a test can see pass."""
    with serving(sqlite_log, limits=QUICK) as server:
        yield server


def connected(port: int) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def is_closed(one: socket.socket) -> bool:
    """Read until the other side has closed; fails by its time-out if it never does."""
    try:
        while one.recv(65536):
            pass
    except ConnectionError:
        return True
    return True


def drip(one: socket.socket, data: bytes, stop: threading.Event) -> None:
    """Send a byte now and then, so that the connection is never silent."""
    try:
        for byte in data * 1000:
            one.sendall(bytes([byte]))
            if stop.wait(0.05):
                return
    except OSError:
        return


def test_half_open_and_dripping_clients_are_closed_while_others_are_served(
    hurried: HttpServer, sqlite_log: JobLog
) -> None:
    client, stop = Client(hurried.port, a_token(sqlite_log, "admin")), threading.Event()
    with ExitStack() as stack:
        silent = [stack.enter_context(connected(hurried.port)) for _ in range(20)]
        half = [stack.enter_context(connected(hurried.port)) for _ in range(20)]
        dripping = [stack.enter_context(connected(hurried.port)) for _ in range(20)]
        for one in half:
            one.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Long: ")
        for number, one in enumerate(dripping):
            one.sendall(b"GET /" if number % 2 else b"POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nX-Long: ")
        threads = [threading.Thread(target=drip, args=(one, b"x", stop)) for one in dripping]
        for thread in threads:
            thread.start()
        for _ in range(5):
            assert client.submit()
        assert all(is_closed(one) for one in [*silent, *half, *dripping])
        stop.set()
        for thread in threads:
            thread.join()
    assert hurried.service.guard.closed_slow == 60


def test_a_body_that_drips_is_answered_and_closed(hurried: HttpServer, sqlite_log: JobLog) -> None:
    token, stop = a_token(sqlite_log, "admin"), threading.Event()
    with connected(hurried.port) as one:
        head = f"POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
        one.sendall(f"{head}Idempotency-Key: {'k' * 20}\r\nContent-Length: 5000\r\n\r\n".encode())
        thread = threading.Thread(target=drip, args=(one, b" ", stop))
        thread.start()
        answer = one.recv(65536)
        stop.set()
        thread.join()
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"body-too-slow" in answer
        assert is_closed(one)
    assert sqlite_log.store.head() == 0


def test_a_connection_between_two_requests_is_kept_for_a_while_only(hurried: HttpServer) -> None:
    with connected(hurried.port) as one:
        for _ in range(6):  # used all the time, it outlives the deadline of a first header
            one.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            assert one.recv(65536).startswith(b"HTTP/1.1 200")
            assert not threading.Event().wait(0.1)
        one.sendall(b"GET /livez HTTP/1.1\r\nHost")
        assert is_closed(one)


def test_a_client_that_reads_nothing_is_closed(sqlite_log: JobLog) -> None:
    limits = Limits(stall_seconds=0.4)
    sqlite_log.submit_many([_spec(n) for n in range(600)])
    with serving(sqlite_log, limits=limits) as server, socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.connect(("127.0.0.1", server.port))
        token = a_token(sqlite_log, "admin")
        head = f"Host: x\r\nAuthorization: Bearer {token}\r\nAccept: text/event-stream\r\n\r\n"
        one.sendall(f"GET /api/v1/feed?after=0 HTTP/1.1\r\n{head}".encode())
        bound = time.monotonic() + PATIENCE
        while not server.service.guard.closed_slow:
            assert time.monotonic() < bound
            threading.Event().wait(0.02)


def _spec(number: int) -> JobSpec:
    return JobSpec("import", {"n": number, "text": "x" * 20_000})


def test_too_many_connections_are_turned_away_with_an_answer(sqlite_log: JobLog) -> None:
    limits = Limits(connections=5, per_address=3)
    with serving(sqlite_log, limits=limits) as server, ExitStack() as stack:
        for _ in range(3):
            one = stack.enter_context(connected(server.port))
            one.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            assert one.recv(65536).startswith(b"HTTP/1.1 200")
        fourth = stack.enter_context(connected(server.port))
        answer = fourth.recv(65536)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"overloaded" in answer
        assert is_closed(fourth)
        one.close()
        bound = time.monotonic() + PATIENCE
        while len(server.service.guard.connections) == 3:
            assert time.monotonic() < bound
            threading.Event().wait(0.01)
        again = stack.enter_context(connected(server.port))
        again.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert again.recv(65536).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "raw",
    [
        b"nonsense\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 20_000 + b"\r\n\r\n",
        b"POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: x\r\nBad Header: 1\r\n\r\n",
    ],
)
def test_bytes_that_are_no_request_get_a_problem(hurried: HttpServer, raw: bytes) -> None:
    with connected(hurried.port) as one:
        one.sendall(raw)
        answer = one.recv(65536)
        assert b"400" in answer.split(b"\r\n")[0]
        assert b"application/problem+json" in answer
        assert is_closed(one)


def test_no_more_wait_for_the_store_than_it_takes(sqlite_log: JobLog) -> None:
    with serving(sqlite_log, limits=Limits(pending=0)) as server:
        reply = Client(server.port, a_token(sqlite_log, "admin")).get("/api/v1/jobs")

    assert (reply.status, reply.code, reply.headers["retry-after"]) == (503, "overloaded", "1")
