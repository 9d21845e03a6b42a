"""Requests and submits a second: the service, and beside it a bare aiohttp handler with the same store call."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import aiohttp
import orjson
from aiohttp import web

from bench.slow_clients import unchanged
from joblog.api import documents
from joblog.api.http.server import Bind, HttpServer
from joblog.domain.spec import JobSpec
from joblog.workers.commands.log import JobLog
from joblog.workers.registry import Jobs

ROUNDS = 3

CLIENTS = 32


def bare(log: JobLog) -> web.Application:
    """The same store calls and nothing else."""
    pool = ThreadPoolExecutor(8)

    def read(job_id: UUID) -> dict[str, Any]:
        return documents.job(log, log.row(job_id))

    async def job(request: web.Request) -> web.Response:
        loop = asyncio.get_running_loop()
        made = await loop.run_in_executor(pool, read, UUID(request.match_info["id"]))
        return web.json_response(made, dumps=lambda made: orjson.dumps(made).decode())

    async def submit(request: web.Request) -> web.Response:
        body = orjson.loads(await request.read())
        [made] = await log.submit_soon(
            [JobSpec(body["kind"], body["args"], key=request.headers["Idempotency-Key"])], None
        )
        return web.json_response({"id": str(made.job_id)}, status=201)

    app = web.Application()
    app.router.add_get("/api/v1/jobs/{id}", job)
    app.router.add_post("/api/v1/jobs", submit)
    return app


def serve(url: str, pipe, kind: str) -> None:
    with JobLog.open(url) as log:
        if kind == "joblog":
            server = HttpServer(log, Jobs(), Bind(port=0))
            asyncio.run(server.serve(lambda: pipe.send(server.port)))
        else:

            async def main() -> None:
                runner = web.AppRunner(bare(log), access_log=None)
                await runner.setup()
                site = web.TCPSite(runner, "127.0.0.1", 0)
                await site.start()
                pipe.send(site._server.sockets[0].getsockname()[1])
                await asyncio.Event().wait()

            asyncio.run(main())


async def load(seconds: float, one) -> tuple[float, float]:
    """Requests a second and the 99th percentile in milliseconds."""
    until, spent = time.monotonic() + seconds, []

    async def client(number: int) -> None:
        while time.monotonic() < until:
            began = time.perf_counter()
            await one(number)
            spent.append(time.perf_counter() - began)

    began = time.monotonic()
    await asyncio.gather(*(client(number) for number in range(CLIENTS)))
    spent.sort()
    return len(spent) / (time.monotonic() - began), spent[int(len(spent) * 0.99)] * 1000


async def poller(port: int, token: str, job_id: str):
    """Polls of a job that has not changed, on plain connections: aiohttp's client gives one up after each 304."""
    raw = unchanged(token, job_id)
    ends = [await asyncio.open_connection("127.0.0.1", port) for _ in range(CLIENTS)]

    async def poll(number: int) -> None:
        reader, writer = ends[number]
        writer.write(raw)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 304")

    return poll


async def measure(port: int, token: str, job_id: str, seconds: float, kind: str) -> dict[str, float]:
    base, headers, count = f"http://127.0.0.1:{port}", {"Authorization": f"Bearer {token}"}, iter(range(10**9))
    figures: dict[str, float] = {}
    begun = time.time_ns()  # keys of their own in each round
    async with aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(limit=CLIENTS)) as session:

        async def get(_: int, extra=None, want=200) -> None:
            async with session.get(f"{base}/api/v1/jobs/{job_id}", headers=extra) as answer:
                await answer.read()
                assert answer.status == want, answer.status

        async def submit(_: int) -> None:
            key = f"bench-{kind}-{begun}-{next(count):08d}"
            async with session.post(
                f"{base}/api/v1/jobs", json={"kind": "bench", "args": 1}, headers={"Idempotency-Key": key}
            ) as answer:
                await answer.read()
                assert answer.status == 201, await answer.text()

        figures["get/s"], figures["get p99 ms"] = await load(seconds, get)
        figures["submit/s"], figures["submit p99 ms"] = await load(seconds, submit)
        if kind == "joblog":
            figures["304/s"], _ = await load(seconds, await poller(port, token, job_id))

            async def batch(_: int) -> None:
                jobs = [
                    {"kind": "bench", "args": 1, "key": f"bench-batch-{begun}-{next(count):08d}"} for _ in range(200)
                ]
                async with session.post(f"{base}/api/v1/batches", json={"jobs": jobs}) as answer:
                    made = await answer.json()
                    assert made["created"] == 200, made

            rate, _ = await load(seconds, batch)
            figures["jobs/s in batches of 200"] = rate * 200
    return figures


def compare(url: str, token: str, seconds: float) -> dict[str, Any]:
    """Both in turns, so that a busy moment of the machine meets both; ratios of the sums."""
    with JobLog.open(url) as log:
        job_id = str(log.submit(JobSpec("bench")).job_id)
    rounds: dict[str, list[dict[str, float]]] = {"bare": [], "joblog": []}
    for _ in range(ROUNDS):
        for kind, found in rounds.items():
            ours, theirs = multiprocessing.Pipe()
            process = multiprocessing.get_context("spawn").Process(target=serve, args=(url, theirs, kind))
            process.start()
            try:
                found.append(asyncio.run(measure(ours.recv(), token, job_id, seconds / ROUNDS, kind)))
            finally:
                process.kill()
                process.join()
    made: dict[str, Any] = {}
    for name in rounds["joblog"][0]:
        mine = sum(one[name] for one in rounds["joblog"]) / ROUNDS
        made[name] = round(mine)
        if name in rounds["bare"][0] and name.endswith("/s"):
            bare_one = sum(one[name] for one in rounds["bare"]) / ROUNDS
            made |= {f"bare {name}": round(bare_one), f"ratio {name}": round(mine / bare_one, 2)}
    return made
