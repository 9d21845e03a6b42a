"""What the guard and the client cost: `python -m bench.outbound` (nothing leaves this machine)."""

from __future__ import annotations

import asyncio
import statistics
import time

import aiohttp
from aiohttp import web

from joblog.eventstore.clock import SystemClock
from joblog.workers.outbound.client import OutboundClient
from joblog.workers.outbound.guard import Guard
from joblog.workers.outbound.limits import Limits

ROUNDS, REQUESTS, TASKS = 5, 600, 8


def guard_micros() -> float:
    """One request's judgements without a look-up: URL, answers, socket, peer."""
    guard, best = Guard(), []
    peer = ("93.184.215.14", 443)
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(5_000):
            approval = guard.check("https://hooks.example.com/services/T000/B000?x=1")
            guard.answered(approval, ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"])
            guard.check_socket(approval, peer)
            guard.check_peer(approval, peer, ("192.168.7.7", 50_000))
        best.append((time.perf_counter() - began) / 5_000 * 1e6)
    return min(best)


async def served() -> tuple[web.AppRunner, int]:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=b"x" * 512)

    app = web.Application()
    app.router.add_route("*", "/", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    return runner, site._server.sockets[0].getsockname()[1]


async def timed(one) -> float:
    """Requests a second with some tasks side by side."""

    async def some() -> None:
        for _ in range(REQUESTS // TASKS):
            await one()

    began = time.perf_counter()
    await asyncio.gather(*(some() for _ in range(TASKS)))
    return REQUESTS / (time.perf_counter() - began)


async def main() -> None:
    runner, port = await served()
    url = f"http://127.0.0.1:{port}/"
    guard = Guard.made(allow=[f"127.0.0.1 127.0.0.1 {port}"])
    body = b'{"event": "x"}'
    ours, bare = [], []
    async with (
        OutboundClient(guard=guard, now=SystemClock().now, limits=Limits()) as client,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session,
    ):

        async def by_client() -> None:
            await client.request("POST", url, body=body, unit_id="u-1")

        async def by_aiohttp() -> None:
            async with session.post(url, data=body, headers={"Idempotency-Key": "u-1"}) as response:
                await response.read()

        for _ in range(ROUNDS):  # in turns, so that the machine's moods hit both
            bare.append(await timed(by_aiohttp))
            ours.append(await timed(by_client))
    await runner.cleanup()
    ratio = statistics.median(b / o for b, o in zip(bare, ours, strict=True))
    print(f"guard      {guard_micros():8.1f} µs a request, without look-up")
    print(f"aiohttp    {statistics.median(bare):8.0f} requests/s")
    print(f"client     {statistics.median(ours):8.0f} requests/s")
    print(f"overhead   {ratio:8.2f} times the time of bare aiohttp, server included")


if __name__ == "__main__":
    asyncio.run(main())
