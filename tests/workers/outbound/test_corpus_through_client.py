"""SSR-01 to SSR-05 through the public door: each row of the corpus as a request of the real client.

The resolver gives the row's answers.  The socket that the guard lets be made notes where it was meant to go, and goes to a
server on loopback instead, so nothing else is ever contacted.
"""

import socket
from collections import Counter
from functools import cache
from typing import Any

import pytest

from joblog.eventstore.clock import SystemClock
from joblog.workers.errors import Fatal, OperationError, RetryLater
from joblog.workers.outbound.client import OutboundClient, Response
from joblog.workers.outbound.guard import Guard
from joblog.workers.outbound.limits import Limits
from joblog.workers.outbound.transport import tls_context
from tests.workers.outbound import corpora, servers
from tests.workers.outbound.authority import Authority
from tests.workers.outbound.servers import Asked, answer, serving
from tests.workers.outbound.test_guard import FAILED_LOOKUPS, OWN, ROWS

CERTIFIED = [f"{name}.example.com" for name in ("hooks", "other", "b", "c", "d", "e")]


tls_of_the_system = cache(tls_context)  # it takes long to read, and no handshake ever begins


class Elsewhere(socket.socket):
    """A socket that says it is connected to one place, and is connected to another."""

    def __init__(self, place: tuple[str, int], peer: str) -> None:
        super().__init__(socket.AF_INET, socket.SOCK_STREAM)
        self._place, self._peer, self._meant = place, peer, 0

    def connect(self, address: Any) -> None:
        self._meant = address[1]
        super().connect(self._place)

    def getpeername(self) -> Any:
        return (self._peer, self._meant)


class World:
    """The row's resolver and sockets."""

    def __init__(self, resolved: str, port: int | None) -> None:
        self.hops = [part for part in resolved.split(" => ") if part != "-"]
        self.contacted: list[str] = []
        self.lookups: Counter[str] = Counter()
        self._stand_in = port
        self._peer = ""

    async def resolve(self, host: str, port: int) -> list[str]:
        assert port
        self.lookups[host] += 1
        first, _, second = self.hops.pop(0).partition("; ")
        if first in FAILED_LOOKUPS:
            raise socket.gaierror(first)
        self._peer = second.removeprefix("peer:") if second.startswith("peer:") else ""
        return [] if first == "EMPTY" else first.split(",")

    def dial(self, info: Any) -> socket.socket:
        address = str(info[4][0])
        self.contacted.append(address)
        if self._stand_in is None:
            raise ConnectionRefusedError
        return Elsewhere(("127.0.0.1", self._stand_in), self._peer or address)


async def request(url: str, world: World, **options: Any) -> Response | OperationError:
    client = OutboundClient(
        guard=Guard.made(own=[OWN]),
        now=SystemClock().now,
        resolver=world.resolve,
        open_socket=world.dial,
        limits=Limits(redirects=3),
        **options,
    )
    if not options:
        client._tls = tls_of_the_system()
    async with client:
        try:
            return await client.request("GET", url)
        except OperationError as error:
            return error


ONE_HOP = [row for row in ROWS if " => " not in row[0] and "; " not in row[1]]
MORE = [row for row in ROWS if row not in ONE_HOP]


def test_no_row_of_one_hop_is_connected_to_where_it_must_not_be() -> None:
    async def scene() -> None:
        for url, resolved, verdict, reason in ONE_HOP:
            world = World(resolved, None)
            made = await request(corpora.unescaped(url), world)
            if verdict == "allow":
                literal = {str(each) for each in Guard().check(url).addresses}
                addresses = literal if resolved == "-" else set(resolved.split(","))
                assert world.contacted, reason
                assert set(world.contacted) <= addresses, reason
                assert isinstance(made, RetryLater), reason  # nobody listens there
            elif resolved in FAILED_LOOKUPS | {"EMPTY"}:
                assert isinstance(made, RetryLater), reason
                assert made.code == "dns-failed", reason
            else:
                assert world.contacted == [], reason
                assert isinstance(made, Fatal), reason
                assert made.code == "destination-refused", reason
            assert max(world.lookups.values(), default=0) <= 1, reason

    servers.run(scene())


@pytest.mark.parametrize(("url", "resolved", "verdict", "reason"), MORE, ids=[row[3] for row in MORE])
def test_a_row_of_more_hops_or_another_peer(
    url: str, resolved: str, verdict: str, reason: str, authority: Authority
) -> None:
    async def scene() -> None:
        locations = corpora.unescaped(url).split(" => ")
        start, *later = locations

        async def redirect(_: Asked, writer: Any) -> None:
            writer.write(answer(302, b"", ("Location", later.pop(0))) if later else answer(200))
            await writer.drain()

        async with serving(redirect, tls=authority.server(*CERTIFIED)) as server:
            world = World(resolved, server.port)
            made = await request(start, world, ca_file=authority.file)

        assert isinstance(made, Response) == (verdict == "allow"), made
        hops = [hop.partition("; ")[0] for hop in resolved.split(" => ")]
        assert world.contacted == hops[: len(world.contacted)]
        if verdict == "deny":
            assert isinstance(made, Fatal)
            assert len(server.asked) < len(locations)  # what the row is about was never sent a byte
        else:
            assert len(server.asked) == len(locations)

    servers.run(scene())
