"""500 half-open and 500 dripping clients against the default deadlines: when all are closed, and what others feel.

PYTHONPATH=src python bench/slow_clients.py
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import tempfile
import time

from joblog.api.http import auth
from joblog.api.http.guard import Limits
from joblog.api.http.server import Bind, HttpServer
from joblog.api.http.service import ServiceSettings
from joblog.domain.spec import JobSpec
from joblog.eventstore import tokens
from joblog.workers.commands.log import JobLog
from joblog.workers.registry import Jobs

EACH = 500


def serve(url: str, pipe) -> None:
    with JobLog.open(url) as log:
        settings = ServiceSettings(limits=Limits(per_address=1500))  # all of them have one address
        server = HttpServer(log, Jobs(), Bind(port=0), settings)
        asyncio.run(server.serve(lambda: pipe.send(server.port)))


async def closed(port: int, *, drips: bool) -> float:
    """Be slow; the seconds until the service closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    began = time.monotonic()
    writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Long: ")

    async def drip() -> None:
        while drips:
            writer.write(b"x")
            await asyncio.sleep(0.5)

    task = asyncio.create_task(drip())
    try:
        await reader.read()
    except ConnectionError:
        pass
    task.cancel()
    writer.close()
    return time.monotonic() - began


async def polled(port: int, raw: bytes, seconds: float) -> list[float]:
    """One honest client: 20 requests a second."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    spent, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.perf_counter()
        writer.write(raw)
        await reader.readuntil(b"\r\n\r\n")
        spent.append(time.perf_counter() - began)
        await asyncio.sleep(0.05)
    writer.close()
    return spent


def p99(spent: list[list[float]]) -> float:
    whole = sorted(one for part in spent for one in part)
    return whole[int(len(whole) * 0.99)] * 1000


def unchanged(token: str, job_id: str) -> bytes:
    """A request for a job that its client has already, as bytes."""
    lines = (
        f"GET /api/v1/jobs/{job_id} HTTP/1.1",
        "Host: x",
        f"Authorization: Bearer {token}",
        'If-None-Match: "v1"',
        "",
        "",
    )
    return "\r\n".join(lines).encode()


async def main(port: int, token: str, job_id: str) -> None:
    raw = unchanged(token, job_id)
    before = p99(await asyncio.gather(*(polled(port, raw, 8) for _ in range(10))))
    slow = [closed(port, drips=bool(number % 2)) for number in range(2 * EACH)]
    *spent, gone = await asyncio.gather(*(polled(port, raw, 12) for _ in range(10)), asyncio.gather(*slow))
    print(f"{2 * EACH} slow clients closed after {min(gone):.1f} to {max(gone):.1f} s")
    print(
        f"p99 of others {before:.1f} ms before, {p99(spent):.1f} ms meanwhile; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    url = f"sqlite:///{tempfile.mkdtemp()}/bench.db"
    with JobLog.open(url) as log:
        token, row = auth.minted(name="bench", scopes=["admin"], now=log.store.now())
        tokens.add(log.store, row)
        job_id = str(log.submit(JobSpec("bench")).job_id)
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(url, theirs))
    process.start()
    try:
        asyncio.run(main(ours.recv(), token, job_id))
    finally:
        process.kill()
        process.join()
