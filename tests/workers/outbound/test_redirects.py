"""SSR-04, SEC-06, SEC-07: where a redirect may lead, and what goes along."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from joblog.workers.errors import Fatal, NeedsOperator, OperationError, RetryLater
from joblog.workers.outbound.client import OutboundClient
from joblog.workers.outbound.credential import Credential
from joblog.workers.outbound.errors import DestinationRefusedError
from joblog.workers.outbound.limits import Limits
from joblog.workers.outbound.security import detail_of, log_refusal
from tests.workers.outbound import servers
from tests.workers.outbound.servers import Asked, Server, always, answer, client_for, in_turn, serving

FOLLOWING = Limits(total_ms=10_000, redirects=3)
A, B = "a.example.com", "b.example.com"


def to(location: str, status: int = 302) -> bytes:
    return answer(status, b"", ("Location", location))


@asynccontextmanager
async def two_sites(first: list[bytes], second: list[bytes]) -> AsyncIterator[tuple[Server, Server, OutboundClient]]:
    """Site A and site B; an answer names the other's port as PORT."""
    names = servers.Names(a_example_com=["127.0.0.1"], b_example_com=["127.0.0.1"])
    async with serving(in_turn(*second)) as other:
        mine = [data.replace(b"PORT", str(other.port).encode()) for data in first]
        options: dict[str, Any] = {"hosts": [A, B], "resolver": names, "limits": FOLLOWING}
        async with serving(in_turn(*mine)) as site, client_for(site, other, **options) as client:
            yield site, other, client


async def reveal(reference: str) -> str:
    assert reference == "env:TOKEN"
    return "c4n4ry"


TOKEN = Credential("env:TOKEN", (A,), reveal)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed_by_default(status: int) -> None:
    async def scene() -> None:
        async with serving(always(to("/next", status))) as server, client_for(server) as client:
            with pytest.raises(Fatal, match=f"http-{status}"):
                await client.request("GET", server.url)
            assert len(server.asked) == 1

    servers.run(scene())


@pytest.mark.parametrize(
    ("method", "status", "then"),
    [
        ("POST", 301, "GET"),
        ("POST", 302, "GET"),
        ("POST", 303, "GET"),
        ("PUT", 303, "GET"),
        ("HEAD", 303, "HEAD"),
        ("PUT", 302, "PUT"),
        ("POST", 307, "POST"),
        ("POST", 308, "POST"),
    ],
)
def test_a_followed_redirect_keeps_the_method_or_becomes_a_get(method: str, status: int, then: str) -> None:
    async def scene() -> None:
        async with serving(in_turn(to("/next", status), answer(200))) as server, client_for(server) as client:
            body = None if method == "HEAD" else b"{}"
            headers = {} if body is None else {"Content-Type": "application/json"}
            await client.request(method, server.url, body=body, headers=headers, limits=FOLLOWING, unit_id="u")
            last = server.asked[-1]
            assert last.line == f"{then} /next HTTP/1.1"
            assert last.body == (b"{}" if then in {"PUT", "POST"} else b"")
            assert bool(last.all("content-type")) == (then in {"PUT", "POST"})
            assert last.all("idempotency-key") == ["u"]

    servers.run(scene())


def test_to_another_origin_no_credential_goes_along_nor_anything_that_may_be_one() -> None:
    async def scene() -> None:
        async with two_sites([to(f"http://{B}:PORT/x", 307)], [answer(200)]) as (site, other, client):
            given = [
                ("Cookie", "s=1"),
                ("Cookie", "s=2"),
                ("webhook-signature", "v1,x"),
                ("X-Api-Key", "k"),
                ("Accept", "a/b"),
            ]
            url = f"http://{A}:{site.port}/"
            await client.request("POST", url, body=b"x", headers=given, unit_id="u", credential=TOKEN)
            [asked], [elsewhere] = site.asked, other.asked

        assert asked.all("authorization") == ["Bearer c4n4ry"]
        assert asked.all("cookie") == ["s=1", "s=2"]
        sent = {name.lower() for name, _ in elsewhere.headers}
        assert sent == {"host", "accept", "accept-encoding", "user-agent", "content-length"}
        assert (elsewhere.all("accept"), elsewhere.body) == (["a/b"], b"x")

    servers.run(scene())


def test_back_at_the_first_origin_the_credential_stays_dropped() -> None:
    async def scene() -> None:
        names = servers.Names(a_example_com=["127.0.0.1"], b_example_com=["127.0.0.1"])
        here: list[str] = []

        async def ping_pong(asked: servers.Asked, writer: asyncio.StreamWriter) -> None:
            host, _, port = asked.all("host")[0].partition(":")
            here.append(host)
            writer.write(answer(200) if len(here) == 3 else to(f"http://{B if host == A else A}:{port}/"))

        async with serving(ping_pong) as site:
            async with client_for(site, hosts=[A, B], resolver=names, limits=FOLLOWING) as client:
                await client.request("GET", f"http://{A}:{site.port}/", credential=TOKEN)
            assert here == [A, B, A]
            assert [asked.all("authorization") for asked in site.asked] == [["Bearer c4n4ry"], [], []]

    servers.run(scene())


def test_a_credential_is_only_for_its_providers_hosts() -> None:
    async def scene() -> None:
        async with two_sites([answer(200)], [answer(200)]) as (site, other, client):
            await client.request("GET", f"http://{A}:{site.port}/", credential=TOKEN)
            await client.request("GET", f"http://{B}:{other.port}/", credential=TOKEN)
            assert [asked.all("authorization") for asked in (*site.asked, *other.asked)] == [["Bearer c4n4ry"], []]

    servers.run(scene())


def test_a_rejected_credential_is_named_by_its_reference_alone() -> None:
    async def scene() -> None:
        async with two_sites([answer(401, b"bad c4n4ry")], [b""]) as (site, _, client):
            with pytest.raises(NeedsOperator) as caught:
                await client.request("GET", f"http://{A}:{site.port}/", credential=TOKEN)
        assert "env:TOKEN" in str(caught.value)
        assert "c4n4ry" not in str(caught.value)

    servers.run(scene())


def test_a_credential_is_not_sent_in_clear_to_the_outside() -> None:
    async def scene() -> None:
        names = servers.Names(hooks_example_com=["93.184.215.14"])
        async with client_for(Server(1), resolver=names) as client:
            credential = Credential("env:TOKEN", (".example.com",), reveal)
            with pytest.raises(Fatal, match="credential-in-clear"):
                await client.request("GET", "http://hooks.example.com/", credential=credential)
            assert names.asked == []

    servers.run(scene())


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.2:{port}/",
        "http://169.254.169.254/",
        "http://[::1]:{port}/",
        "file:///etc/passwd",
        "//user@a.example.com/",
    ],
)
def test_a_redirect_inside_is_refused_and_told_to_the_security_stream(location: str) -> None:
    told: list[DestinationRefusedError] = []

    async def scene() -> None:
        behaviour = always(to(location.format(port=8080)))
        async with serving(behaviour) as server, client_for(server, report=told.append, limits=FOLLOWING) as client:
            with pytest.raises(Fatal) as caught:
                await client.request("GET", server.url)
            assert caught.value.code == "destination-refused"
            assert len(server.asked) == 1

    servers.run(scene())
    assert len(told) == 1


def test_at_most_three_redirects_are_followed() -> None:
    async def scene() -> None:
        async with serving(always(to("/again"))) as server, client_for(server) as client:
            with pytest.raises(Fatal):
                await client.request("GET", server.url, limits=FOLLOWING)
            assert len(server.asked) == 4

    servers.run(scene())


def test_every_hop_passes_the_gate_and_tells_it_its_answer() -> None:
    """GAT-07."""
    told: list[int] = []

    class Turn:
        async def answered(self, status: int, _: object) -> None:
            told.append(status)

    @asynccontextmanager
    async def gate() -> AsyncIterator[Turn]:
        yield Turn()

    async def scene() -> None:
        behaviour = in_turn(to("/2"), to("/3"), answer(503))
        async with serving(behaviour) as server, client_for(server, limits=FOLLOWING) as client:
            with pytest.raises(OperationError):
                await client.request("GET", server.url, around=gate)

    servers.run(scene())
    assert told == [302, 302, 503]


@pytest.mark.parametrize("where", ["at the gate", "at the server"])
def test_waiting_at_the_gate_is_no_part_of_the_deadline(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the server it is."""
    ahead = [0.0]

    @asynccontextmanager
    async def gate() -> AsyncIterator[None]:
        ahead[0] += 30 * (where == "at the gate")
        yield
        ahead[0] += 30 * (where == "at the gate")

    async def late(asked: Asked, writer: asyncio.StreamWriter) -> None:
        ahead[0] += 30 * (where == "at the server")
        await always(answer(200))(asked, writer)

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        passing = loop.time
        monkeypatch.setattr(loop, "time", lambda: passing() + ahead[0])
        limits = Limits(total_ms=20_000)
        async with serving(late) as server, client_for(server) as client:
            request = client.request("GET", server.url, around=gate, limits=limits)
            if where == "at the gate":
                assert (await request).status == 200
            else:
                with pytest.raises(RetryLater, match="timeout"):
                    await request

    servers.run(scene())


def test_a_security_log_that_fails_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """SSR-12."""

    def broken(_: DestinationRefusedError) -> None:
        raise RuntimeError("disk full")

    async def scene() -> None:
        async with client_for(Server(1), report=broken) as client:
            with pytest.raises(Fatal, match="destination-refused: category=address"):
                await client.request("GET", "http://10.0.0.1/")

    servers.run(scene())
    assert "was not recorded" in caplog.text


def test_the_security_log_is_one_bounded_line(caplog: pytest.LogCaptureFixture) -> None:
    """SSR-11."""
    refusal = DestinationRefusedError("host", "a\r\nb\x1b[2J" + "x" * 1_000_000)
    log_refusal(refusal)

    assert len(detail_of(refusal)) == 500
    assert "\n" not in caplog.records[0].getMessage()
