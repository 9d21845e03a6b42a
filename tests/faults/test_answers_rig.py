"""A commit whose answer is lost is found again or made once, on both databases."""

import socket
import threading
from contextlib import suppress

import pytest

from tests import postgres_server as servers
from tests.faults import proxy
from tests.faults.campaign import start_shard

pytestmark = pytest.mark.faults


def test_lost_answers_make_no_second_copy_on_sqlite() -> None:
    report = start_shard("sqlite-answers", seed=1, count=25)

    assert report.violations == []
    assert report.fired["append.after_commit-raised"]
    assert report.fired["append.before_commit-raised"]
    assert report.counts["retried"] > 5


@pytest.mark.postgres
def test_lost_answers_make_no_second_copy_on_postgresql() -> None:
    servers.share()
    report = start_shard("postgres-answers", seed=1, count=16)

    assert report.violations == []
    assert report.fired["answer-lost"]
    assert report.fired["append.after_commit-raised"]


def hears_nothing(client: socket.socket) -> bool:
    try:
        return client.recv(100) == b""
    except ConnectionResetError:
        return True


def test_the_proxy_lets_the_request_through_whose_answer_it_loses() -> None:
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):  # the test has ended
                while True:
                    answer(server.accept()[0])

        def answer(connection: socket.socket) -> None:
            with connection, suppress(ConnectionResetError):
                while request := connection.recv(100):
                    heard.append(request)
                    connection.sendall(b"answer")

        threading.Thread(target=serve, daemon=True).start()
        with proxy.Proxy(*server.getsockname()) as between:
            with socket.create_connection(("127.0.0.1", between.port), 5) as client:
                client.sendall(b"first")
                assert client.recv(100) == b"answer"
                between.lose(proxy.ANSWER)
                client.sendall(b"second")
                assert hears_nothing(client)
            with socket.create_connection(("127.0.0.1", between.port), 5) as client:
                between.lose(proxy.REQUEST)
                client.sendall(b"third")
                assert hears_nothing(client)

    assert heard == [b"first", b"second"]
    assert between.fired == {"answer-lost": 1, "request-lost": 1}
