"""What many ask at the same time is one question to the database, and no answer is older than its question."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from threading import Event

import pytest

from joblog.api import queue_list
from joblog.api.http.server import HttpServer
from joblog.api.http.together import Together
from joblog.domain.spec import JobSpec
from joblog.workers.commands.log import JobLog
from tests.api.http.client import PATIENCE, Client
from tests.patience import until


@contextmanager
def threads(number: int) -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(number) as pool:
        yield pool


def test_who_comes_while_a_look_is_under_way_shares_the_next_one() -> None:
    together, looks, begun, go_on = Together(), count(1), Event(), Event()

    def look() -> int:
        number = next(looks)
        if number == 1:
            begun.set()
            assert go_on.wait(PATIENCE)
        return number

    with threads(6) as pool:
        first = pool.submit(together.ask, "x", look)
        assert begun.wait(PATIENCE)
        others = [pool.submit(together.ask, "x", look) for _ in range(5)]
        until(lambda: together.asked("x") == 6)
        assert together.ask("another", lambda: "at once") == "at once"
        go_on.set()
        assert [first.result(PATIENCE), *(one.result(PATIENCE) for one in others)] == [1, 2, 2, 2, 2, 2]
    assert together.ask("x", look) == 3


def test_a_look_that_fails_fails_those_who_shared_it_alone() -> None:
    together = Together()

    def fails() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        together.ask("x", fails)
    assert together.ask("x", lambda: 1) == 1


@pytest.mark.parametrize("path", ["/api/v1/queues", "/metrics", "/"])
def test_many_who_poll_cost_what_one_does(
    admin: Client, log: JobLog, server: HttpServer, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    asked, begun, go_on = count(1), Event(), Event()
    items = queue_list.items

    def look(of: JobLog) -> list[dict[str, object]]:
        if next(asked) == 1:
            begun.set()
            assert go_on.wait(PATIENCE)
        return items(of)

    monkeypatch.setattr(queue_list, "items", look)
    name = {"/api/v1/queues": "queues", "/metrics": "metrics", "/": "overview ('', '')"}[path]
    with threads(4) as pool:
        first = pool.submit(admin.get, path)
        assert begun.wait(PATIENCE)
        log.submit(JobSpec("import", queue="zebra"))  # who asks from here on is told of it
        others = [pool.submit(admin.get, path) for _ in range(3)]
        until(lambda: server.service.together.asked(name) == 4)
        go_on.set()
        assert first.result(PATIENCE).status == 200
        assert all(b"zebra" in one.result(PATIENCE).body for one in others)
    assert next(asked) == 3
