"""Many followers by server-sent events, while jobs are handed in: how late each message is, and whether any is missing."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import time
from contextlib import suppress
from typing import Any

from joblog.api.http.server import Bind, HttpServer
from joblog.domain.spec import JobSpec
from joblog.workers.commands.log import JobLog
from joblog.workers.registry import Jobs


def _serve(url: str, pipe: Any) -> None:
    with JobLog.open(url) as log:
        server = HttpServer(log, Jobs(), Bind(port=0))
        asyncio.run(server.serve(lambda: pipe.send(server.port)))


def _write(url: str, rate: int, seconds: float, pipe: Any) -> None:
    """So many jobs a second, each with the instant of its submit."""
    with JobLog.open(url) as log:
        pipe.recv()
        began = time.monotonic()
        for number in range(int(rate * seconds)):
            time.sleep(max(began + number / rate - time.monotonic(), 0))
            log.submit(JobSpec("bench", {"at": time.time()}))
        pipe.send(log.store.head())


class Follower:
    """One stream; keeps how late each message was."""

    def __init__(self) -> None:
        self.late: list[float] = []
        self.position = 0
        self.faults = 0

    async def run(self, port: int, token: str) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        lines = (
            "GET /api/v1/feed?after=0 HTTP/1.1",
            "Host: x",
            f"Authorization: Bearer {token}",
            "Accept: text/event-stream",
        )
        writer.write("\r\n".join((*lines, "", "")).encode())
        while line := await reader.readline():
            if line.startswith(b"data: "):
                made = json.loads(line[6:])
                position = int(made["sequence"])
                self.faults += position != self.position + 1
                self.position = position
                self.late.append(time.time() - made["data"]["args"]["at"])


async def _follow(port: int, token: str, followers: int, begin: Any, ended: Any) -> list[Follower]:
    made = [Follower() for _ in range(followers)]
    tasks = [asyncio.create_task(one.run(port, token)) for one in made]
    await asyncio.sleep(2)
    begin()
    head = await asyncio.get_running_loop().run_in_executor(None, ended)
    until = time.monotonic() + 30
    while any(one.position < head for one in made) and time.monotonic() < until:
        await asyncio.sleep(0.05)
    for task in tasks:
        task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks, return_exceptions=True)
    for one in made:
        one.faults += one.position != head
    return made


def follow(url: str, token: str, followers: int, rate: int, seconds: float) -> dict[str, Any]:
    """What the followers saw."""
    context = multiprocessing.get_context("spawn")
    (serving, served), (writing, written) = context.Pipe(), context.Pipe()
    server = context.Process(target=_serve, args=(url, served))
    writer = context.Process(target=_write, args=(url, rate, seconds, written))
    for process in (server, writer):
        process.start()
    try:
        port = serving.recv()
        made = asyncio.run(_follow(port, token, followers, lambda: writing.send("go"), writing.recv))
    finally:
        for process in (server, writer):
            process.kill()
            process.join()
    late = sorted(value * 1000 for one in made for value in one.late)
    return {
        "followers": followers,
        "messages": len(late),
        "messages_per_second": round(len(late) / seconds),
        "p50_ms": round(late[len(late) // 2], 1),
        "p99_ms": round(late[int(len(late) * 0.99)], 1),
        "gaps_or_repeats": sum(one.faults for one in made),
    }
