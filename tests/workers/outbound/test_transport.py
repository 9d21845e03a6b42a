"""reliability.md §0 (7): the socket is the choke point, also for what never meets the resolver."""

import socket
from typing import Any

import aiohttp
import pytest

from joblog.workers.outbound.guard import Approval, Guard
from joblog.workers.outbound.transport import CURRENT, GuardedConnector, SystemResolver, session
from tests.workers.outbound import servers
from tests.workers.outbound.servers import always, answer, serving


@pytest.mark.parametrize("host", ["127.0.0.1", "elsewhere.example.com", "localhost"])
def test_whatever_a_session_is_asked_for_no_socket_is_made_but_for_the_judged_address(host: str) -> None:
    """As if all checks before had been passed by: an approval for one place, a request for another."""
    dialled: list[Any] = []

    def dial(info: Any) -> socket.socket:
        dialled.append(info)
        raise ConnectionRefusedError

    async def scene() -> None:
        guard = Guard()
        approval: Approval = guard.check("https://hooks.example.com/")
        guard.answered(approval, ["93.184.215.14"])
        names = servers.Names(elsewhere_example_com=["93.184.215.15"], localhost=["93.184.215.15"])
        token = CURRENT.set(approval)
        async with serving(always(answer(200))) as server, session(GuardedConnector(guard, names, dial)) as made:
            approved = approval.addresses
            with pytest.raises(aiohttp.ClientError):
                await made.get(f"http://{host}:{server.port}/")
            assert server.connections == 0
            assert approval.refusal is not None
            assert approved
        CURRENT.reset(token)

    servers.run(scene())
    assert dialled == []


def test_the_systems_resolver_gives_each_address_once() -> None:
    async def scene() -> None:
        assert "127.0.0.1" in await SystemResolver()("localhost", 80)
        with pytest.raises(OSError, match="label"):
            await SystemResolver()("a" * 64 + ".example", 80)  # refused before anybody is asked

    servers.run(scene())
