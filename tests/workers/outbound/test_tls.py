"""SSR-13: certificates are always verified; an operator may add an authority."""

import asyncio
import ssl
from typing import Any

import pytest

from joblog.workers.errors import Fatal, OperationError, RetryLater
from joblog.workers.outbound.client import Response
from tests.workers.outbound import servers
from tests.workers.outbound.authority import Authority
from tests.workers.outbound.servers import always, answer, client_for, serving

NAME = "hooks.example.com"


def outcome(context: ssl.SSLContext, **options: Any) -> Response | OperationError:
    async def scene() -> Response | OperationError:
        names = servers.Names(hooks_example_com=["127.0.0.1"])
        options.update(hosts=[NAME], resolver=names)
        async with serving(always(answer(200, b"ok")), tls=context) as server, client_for(server, **options) as client:
            try:
                return await client.request("GET", f"https://{NAME}:{server.port}/")
            except OperationError as error:
                refused = error
            assert server.asked == []
            return refused

    return servers.run(scene())


def test_a_private_authority_is_trusted_once_it_is_named(authority: Authority) -> None:
    made = outcome(authority.server(NAME), ca_file=authority.file)

    assert isinstance(made, Response)


@pytest.mark.parametrize(
    ("hosts", "expired", "trusted"),
    [([NAME], False, False), ([NAME], True, True), (["other.example.com"], False, True), (["127.0.0.1"], False, True)],
    ids=["unknown authority", "expired", "another name", "its address only"],
)
def test_a_certificate_that_is_not_valid_is_a_verdict_and_nothing_is_sent(
    authority: Authority, hosts: list[str], expired: bool, trusted: bool
) -> None:
    options = {"ca_file": authority.file} if trusted else {}

    error = outcome(authority.server(*hosts, expired=expired), **options)

    assert isinstance(error, Fatal)
    assert error.code == "tls-refused"


async def refused_by(greeting: bytes) -> OperationError:
    """What becomes of a request to a peer that says *greeting* and hangs up."""

    async def converse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        writer.close()

    server = await asyncio.start_server(converse, "127.0.0.1", 0)
    peer = servers.Server(server.sockets[0].getsockname()[1])
    async with server, client_for(peer) as client:
        with pytest.raises(OperationError) as caught:
            await client.request("GET", peer.url.replace("http:", "https:"))
        return caught.value


def test_a_peer_that_speaks_no_tls_is_a_verdict() -> None:
    assert str(servers.run(refused_by(b"220 mail.example.com ESMTP\r\n" * 10))).startswith("tls-refused")


def test_a_connection_that_is_cut_in_the_handshake_is_tried_again() -> None:
    assert isinstance(servers.run(refused_by(b"")), RetryLater)
