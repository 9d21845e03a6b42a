"""What many ask at the same time is one question to the database, and no answer is older than its question."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from threading import Event

import pytest

from joblog.api import queue_list
from joblog.api.http import auth
from joblog.api.http.guard import Limits
from joblog.api.http.server import HttpServer
from joblog.api.http.together import Together, TogetherSoon
from joblog.domain.spec import JobSpec
from joblog.eventstore import tokens
from joblog.eventstore.store import Store
from joblog.workers.commands.log import JobLog
from tests.api.http.client import PATIENCE, Client, a_token, serving
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


async def a_turn() -> None:
    """One of a task's, for whoever awaits it as a task."""


class Looks:
    """A look that waits until it is let go; each answer says which look it was."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self, questions: list[str]) -> dict[str, str]:
        self.asked.append(questions)
        self.begun.set()
        await self.go_on.wait()
        if self.error is not None:
            raise self.error
        return {question: f"{question}{len(self.asked)}" for question in questions}


def test_tasks_that_come_while_a_look_is_under_way_share_the_next_one() -> None:
    async def main() -> None:
        looks = Looks()
        together = TogetherSoon(looks)
        first = asyncio.ensure_future(together.ask("a"))
        await looks.begun.wait()
        others = [asyncio.ensure_future(together.ask(question)) for question in "aaba"]
        gone = asyncio.ensure_future(together.ask("c"))
        await asyncio.ensure_future(a_turn())  # behind them: they have asked
        gone.cancel()
        looks.go_on.set()
        assert await asyncio.gather(first, *others) == ["a1", "a2", "a2", "b2", "a2"]
        assert gone.cancelled()
        assert looks.asked == [["a"], ["a", "b", "c"]]
        assert await together.ask("d") == "d3"  # and when all was quiet in between

    asyncio.run(main())


def test_a_look_for_tasks_that_fails_fails_those_who_shared_it_alone() -> None:
    async def main() -> None:
        looks = Looks()
        together = TogetherSoon(looks)
        looks.error = LookupError("away")
        looks.go_on.set()
        found = await asyncio.gather(together.ask("a"), together.ask("b"), return_exceptions=True)
        assert [type(one) for one in found] == [LookupError, LookupError]
        looks.error = None
        assert await together.ask("a") == "a2"

    asyncio.run(main())


def test_many_who_submit_at_once_cost_one_question_for_their_rights(
    log: JobLog, server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And whoever lost theirs before they asked is refused, beside others who have it still."""
    names = ["ada", "bob", "eve"]
    clients = {name: Client(server.port, a_token(log, "jobs:read", "jobs:write", name=name)) for name in names}
    for client in clients.values():
        assert client.get("/api/v1/jobs").status == 200  # who they are is remembered
    asked, begun, go_on = count(1), Event(), Event()
    may_all = tokens.may_all

    def look(store: Store, questions: Sequence[tuple[str, str]]) -> dict[tuple[str, str], bool]:
        if next(asked) == 1:
            begun.set()
            assert go_on.wait(PATIENCE)
        return may_all(store, questions)

    monkeypatch.setattr(tokens, "may_all", look)
    rights = server.service._rights
    with threads(7) as pool:
        first = pool.submit(clients["ada"].submit)
        assert begun.wait(PATIENCE)
        auth.revoke(log, "eve")
        others = [pool.submit(clients[name].post, "/api/v1/jobs", {"kind": "import"}) for name in [*names, *names]]
        until(lambda: sum(map(len, rights._waiting.values())) == 6)
        go_on.set()
        assert first.result(PATIENCE)
        replies = [one.result(PATIENCE) for one in others]
    answers = [201 if reply.status == 201 else reply.code for reply in replies]
    assert answers == [201, 201, "forbidden"] * 2
    assert next(asked) == 3


def test_commands_that_wait_for_their_right_are_counted_as_waiting_for_the_store(
    log: JobLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = Event()
    may_all = tokens.may_all

    def look(store: Store, questions: Sequence[tuple[str, str]]) -> dict[tuple[str, str], bool]:
        assert go_on.wait(PATIENCE)
        return may_all(store, questions)

    with serving(log, limits=replace(Limits(), pending=3)) as server, threads(9) as pool:
        client = Client(server.port, a_token(log, "admin"))
        assert client.get("/api/v1/jobs").status == 200  # who they are is remembered
        monkeypatch.setattr(tokens, "may_all", look)
        asked = [pool.submit(client.post, "/api/v1/jobs", {"kind": "import"}) for _ in range(9)]
        until(lambda: sum(one.done() for one in asked) == 6)
        assert {one.result().code for one in asked if one.done()} == {"overloaded"}
        go_on.set()
        statuses = sorted(one.result(PATIENCE).status for one in asked)
    assert statuses == [201] * 3 + [503] * 6
