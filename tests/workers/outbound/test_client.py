"""BND-01 to BND-09, RTY-01, TST-08 to TST-12: a request against real servers that misbehave; always one request."""

import asyncio
import gzip
import json
import socket
import tracemalloc
import zlib
from datetime import UTC, datetime, timedelta

import pytest

from joblog.domain.errors import InvalidFieldError
from joblog.workers.errors import Fatal, NeedsOperator, OperationError, ProviderWaits, RetryLater
from joblog.workers.outbound.client import Response
from joblog.workers.outbound.limits import Limits
from joblog.workers.outbound.retry_after import parse
from tests.workers.outbound import corpora, servers
from tests.workers.outbound.servers import Behaviour, always, answer, client_for, serving
from tests.workers.outbound.test_retry_after import fields

SHORT = Limits(total_ms=100)


async def outcome(behaviour: Behaviour, **options: object) -> tuple[Response | OperationError, servers.Server]:
    """What one request ends in; the server must have been asked exactly once."""
    async with serving(behaviour) as server, client_for(server) as client:
        try:
            result: Response | OperationError = await client.request("GET", server.url, **options)  # type: ignore[arg-type]
        except OperationError as error:
            result = error
        assert len(server.asked) == 1
        return result, server


def ended(behaviour: Behaviour, **options: object) -> OperationError:
    result, _ = servers.run(outcome(behaviour, **options))
    assert isinstance(result, OperationError)
    return result


def given(behaviour: Behaviour, **options: object) -> Response:
    result, _ = servers.run(outcome(behaviour, **options))
    assert isinstance(result, Response), result
    return result


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (503, b"550 5.1.1 permanent failure: never try again", RetryLater),
        (408, b"403 Forbidden: your account is closed", RetryLater),
        (400, b"429 Too Many Requests, please try again later", Fatal),
        (422, b"503 Service Unavailable; retry-after: 10", Fatal),
    ],
)
def test_the_text_of_an_answer_changes_nothing(status: int, text: bytes, kind: type[OperationError]) -> None:
    """RTY-11: neither into a verdict nor out of one."""
    assert type(ended(always(answer(status, text)))) is kind


# -- answers as they should be ---------------------------------------------------------------------------------------


def test_an_answer_comes_whole() -> None:
    response = given(always(answer(201, b'{"a": 1}', ("X-Twice", "1"), ("X-Twice", "2"))))

    assert (response.status, response.json(), response.header("x-twice")) == (201, {"a": 1}, "1")


def test_what_is_sent_is_what_was_asked_for() -> None:
    async def scene() -> None:
        async with serving(always(answer())) as server, client_for(server) as client:
            await client.request(
                "post", server.url + "a%2Fb?x=1#frag", json={"ü": 1}, headers={"X-A": "b"}, unit_id="u-1"
            )
            [asked] = server.asked

        assert asked.line == "POST /a%2Fb?x=1 HTTP/1.1"
        assert json.loads(asked.body) == {"ü": 1}
        assert asked.all("idempotency-key") == ["u-1"]
        assert asked.all("content-type") == ["application/json"]
        assert asked.all("x-a") == ["b"]
        assert asked.all("host") == [f"127.0.0.1:{server.port}"]
        assert asked.all("accept-encoding") == ["gzip, deflate"]
        assert asked.all("cookie") == []

    servers.run(scene())


def test_a_connection_is_used_again_and_a_cookie_is_not() -> None:
    async def scene() -> None:
        behaviour = always(answer(200, b"ok", ("Set-Cookie", "a=b")))
        async with serving(behaviour) as server, client_for(server) as client:
            for _ in range(3):
                await client.request("GET", server.url)
            assert server.connections == 1
            assert [asked.all("cookie") for asked in server.asked] == [[], [], []]

    servers.run(scene())


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_a_lost_connection_is_never_tried_again_in_silence(method: str) -> None:
    """Also where aiohttp would: the second try is the job's, with an attempt and a turn of its own."""
    ends = [always(answer(200, b"ok")), servers.then_reset(b""), always(answer(200, b"ok"))]

    async def behave(asked: servers.Asked, writer: asyncio.StreamWriter) -> None:
        await ends.pop(0)(asked, writer)

    async def scene() -> None:
        async with serving(behave) as server, client_for(server) as client:
            await client.request(method, server.url)
            with pytest.raises(RetryLater):
                await client.request(method, server.url)  # on the same connection
            assert (server.connections, len(server.asked)) == (1, 2)

    servers.run(scene())


def test_after_a_failed_answer_the_name_is_looked_up_anew() -> None:
    async def scene() -> None:
        names = servers.Names(api_example_com=["127.0.0.1"])
        async with serving(always(answer(503))) as server:
            async with client_for(server, hosts=["api.example.com"], resolver=names) as client:
                for _ in range(2):
                    with pytest.raises(RetryLater):
                        await client.request("GET", f"http://api.example.com:{server.port}/")
            assert (server.connections, len(names.asked)) == (2, 2)

    servers.run(scene())


def test_the_environment_has_no_say(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    monkeypatch.setenv("no_proxy", "")

    assert given(always(answer(200))).status == 200


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(b"text" * 100)),
        ("gzip", gzip.compress(b"text" * 50) + gzip.compress(b"text" * 50)),
        ("deflate", zlib.compress(b"text" * 100)),
        ("deflate", zlib.compress(b"text" * 100)[2:-4]),
        ("identity", b"text" * 100),
    ],
    ids=["gzip", "two-members", "deflate", "raw-deflate", "identity"],  # else the ids hold the time
)
def test_a_packed_body_is_unpacked(encoding: str, body: bytes) -> None:
    assert given(always(answer(200, body, ("Content-Encoding", encoding)))).body == b"text" * 100


# -- time ------------------------------------------------------------------------------------------------------------

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"


@pytest.mark.parametrize(
    "behaviour",
    [
        servers.silent,
        servers.for_ever(HEAD, b"x", every=0.005),
        servers.for_ever(b"HTTP/1.1 200 OK\r\nX: ", b"y", every=0.005),
        servers.for_ever(b"", b"HTTP/1.1 100 Continue\r\n\r\n", every=0.005),
        servers.for_ever(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n", every=0.005),
        servers.for_ever(b"HTTP/1.1 503 No\r\nContent-Length: 100000\r\n\r\n", b"x", every=0.005),
    ],
    ids=["silence", "drip-body", "drip-head", "drip-interim", "drip-chunks", "drip-error"],
)
def test_the_total_deadline_ends_what_does_not_end(behaviour: Behaviour) -> None:
    async def scene() -> RetryLater:
        async with serving(behaviour) as server, client_for(server) as client:
            loop = asyncio.get_running_loop()
            began = loop.time()
            with pytest.raises(RetryLater) as caught:
                await client.request("GET", server.url, limits=SHORT)
            assert loop.time() - began < 5
            assert len(server.asked) <= 1
            return caught.value

    error = servers.run(scene())
    assert error.code in {"timeout", "http-503"}  # a status that has come counts, also if its body drips


def test_a_hanging_look_up_is_under_the_deadline_too() -> None:
    async def hang(host: str, port: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    async def scene() -> None:
        async with client_for(servers.Server(443), resolver=hang) as client:
            with pytest.raises(RetryLater) as caught:
                await client.request("GET", "https://hooks.example.com/", limits=Limits(total_ms=50, connect_ms=5_000))
            assert (caught.value.code, caught.value.category) == ("timeout", "network")
            with pytest.raises(RetryLater) as caught:
                await client.request("GET", "https://hooks.example.com/", limits=Limits(total_ms=5_000, connect_ms=50))
            assert caught.value.code == "connect-timeout"

    servers.run(scene())


def test_a_connection_that_is_not_accepted_ends_at_the_connect_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, socket.socket() as first, socket.socket() as second:
        for filler in (first, second):  # the queue is full: the next SYN is dropped
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())

        async def scene() -> RetryLater:
            server = servers.Server(full.getsockname()[1])
            async with client_for(server) as client:
                with pytest.raises(RetryLater) as caught:
                    await client.request("GET", server.url, limits=Limits(total_ms=15_000, connect_ms=60))
                return caught.value

        assert servers.run(scene()).code == "connect-timeout"


@pytest.mark.parametrize(
    "bad",
    [{"total_ms": 0}, {"total_ms": 300_001}, {"total_ms": 1.5}, {"connect_ms": True}, {"body": -1}, {"redirects": 4}],
)
def test_a_bound_that_is_none_is_refused(bad: dict[str, int]) -> None:
    with pytest.raises(InvalidFieldError):
        Limits(**bad)


def test_the_widest_bounds_are_taken() -> None:
    assert Limits(total_ms=300_000, connect_ms=1, redirects=3).total_ms == 300_000


# -- the network -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "behaviour",
    [
        servers.then_reset(b""),
        servers.then_reset(b"HTTP/1.1 200 OK\r\nContent-Le"),
        servers.then_reset(HEAD + b"x" * 100),
        servers.then_close(b""),
        servers.then_close(b"HTTP/1.1 200 OK\r\nContent-Le"),
        servers.then_close(answer(200, b"short", length=1_000)),
        servers.then_close(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"),
        servers.then_close(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nhello"),
        always(answer(200, gzip.compress(b"text" * 100)[:-6], ("Content-Encoding", "gzip"))),
        always(answer(200, b"no gzip at all", ("Content-Encoding", "gzip"))),
    ],
)
def test_a_cut_answer_is_tried_again(behaviour: Behaviour) -> None:
    error = ended(behaviour)

    assert isinstance(error, RetryLater)
    assert (error.code, error.category) == ("interrupted", "network")


def test_a_port_that_nobody_listens_on_is_tried_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]

    async def scene() -> None:
        async with client_for(servers.Server(port)) as client:
            with pytest.raises(RetryLater) as caught:
                await client.request("GET", f"http://127.0.0.1:{port}/")
            assert (caught.value.code, caught.value.category) == ("connect-failed", "network")
            assert str(port) not in str(caught.value)

    servers.run(scene())


@pytest.mark.parametrize("answers", [OSError("no such name"), []])
def test_a_name_without_an_address_is_tried_again_and_no_security_event(answers: OSError | list[str]) -> None:
    """SSR-06."""
    told: list[Exception] = []

    async def scene() -> None:
        names = servers.Names(hooks_example_com=answers)
        async with client_for(servers.Server(1), resolver=names, report=told.append) as client:
            with pytest.raises(RetryLater) as caught:
                await client.request("GET", "https://hooks.example.com/")
            assert (caught.value.code, caught.value.category) == ("dns-failed", "network")

    servers.run(scene())
    assert told == []


# -- bytes -----------------------------------------------------------------------------------------------------------

SMALL = Limits(body=10_000)


@pytest.mark.parametrize(
    "behaviour",
    [
        servers.for_ever(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"400\r\n" + b"x" * 1024 + b"\r\n"),
        servers.for_ever(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", b"x" * 1024),
        always(answer(200, b"x" * 10_001)),
        always(answer(200, "ü".encode() * 5_001)),
        always(answer(200, gzip.compress(b"0" * 50_000_000), ("Content-Encoding", "gzip"))),
        always(answer(200, zlib.compress(b"0" * 10_001), ("Content-Encoding", "deflate"))),
        always(answer(200, gzip.compress(b"0" * 6_000) * 2, ("Content-Encoding", "gzip"))),
    ],
    ids=["endless-chunks", "endless", "one-byte-over", "two-byte-characters", "bomb", "one-over-packed", "members"],
)
def test_a_body_over_its_bound_is_a_verdict(behaviour: Behaviour) -> None:
    error = ended(behaviour, limits=SMALL)

    assert isinstance(error, Fatal)
    assert error.code == "response-too-large"


def test_a_bomb_costs_no_more_memory_than_its_bound() -> None:
    bomb = gzip.compress(b"0" * 100_000_000)

    async def scene() -> int:
        async with (
            serving(always(answer(200, bomb, ("Content-Encoding", "gzip")))) as server,
            client_for(server) as client,
        ):
            tracemalloc.start()
            try:
                with pytest.raises(Fatal):
                    await client.request("GET", server.url, limits=Limits(body=1_000_000))
                return tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()

    assert servers.run(scene()) < 20_000_000


def test_a_body_at_its_bound_is_taken() -> None:
    assert len(given(always(answer(200, b"x" * 10_000)), limits=SMALL).body) == 10_000
    packed = answer(200, gzip.compress(b"0" * 10_000), ("Content-Encoding", "gzip"))
    assert len(given(always(packed), limits=SMALL).body) == 10_000


def test_what_follows_a_length_that_lies_is_no_part_of_the_next_answer() -> None:
    async def scene() -> None:
        behaviour = servers.in_turn(answer(200, b"first" + answer(200, b"forged"), length=5), answer(200, b"second"))
        async with serving(behaviour) as server, client_for(server) as client:
            assert (await client.request("GET", server.url)).body == b"first"
            try:
                body = (await client.request("GET", server.url)).body
            except OperationError:
                return
            assert body == b"second"

    servers.run(scene())


@pytest.mark.parametrize(
    ("behaviour", "code"),
    [
        (always(answer(200, b"", ("X-Long", "y" * 1_000_000))), "protocol-error"),
        (always(answer(200, b"", *[("X-Many", "y")] * 300)), "protocol-error"),
        (always(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"), "protocol-error"),
        (always(b"HTTP/1.1 abc\r\n\r\n"), "protocol-error"),
        (always(b"HTTP/1.1 099 No\r\nContent-Length: 0\r\n\r\n"), "protocol-error"),
        (always(b"HTTP/1.1 700 No\r\nContent-Length: 0\r\n\r\n"), "protocol-error"),
        (always(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), "protocol-error"),
        (always(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx"), "protocol-error"),
        (always(answer(200, b"x", ("Content-Encoding", "br"))), "protocol-error"),
        (always(answer(200, b"x", ("Content-Encoding", "gzip, gzip"))), "protocol-error"),
    ],
)
def test_what_is_no_http_within_its_bounds_is_a_verdict(behaviour: Behaviour, code: str) -> None:
    error = ended(behaviour, limits=Limits(total_ms=5_000))

    assert isinstance(error, Fatal)
    assert error.code == code


# -- statuses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599])
def test_a_retryable_status_is_one_request_and_a_retry(status: int) -> None:
    error = ended(always(answer(status, b"busy")))

    assert isinstance(error, RetryLater)
    assert (error.code, error.category) == (f"http-{status}", "provider")


@pytest.mark.parametrize("status", [300, 304, 400, 403, 404, 409, 410, 413, 415, 422, 501, 505, 511])
def test_any_other_status_is_one_request_and_a_verdict(status: int) -> None:
    error = ended(always(answer(status, b"" if status == 304 else b"no")))

    assert isinstance(error, Fatal)
    assert error.code == f"http-{status}"


def test_a_refused_login_waits_for_an_operator() -> None:
    assert isinstance(ended(always(answer(401))), NeedsOperator)


def test_an_expected_status_is_an_answer() -> None:
    assert given(always(answer(404, b"none")), expect=[200, 404]).body == b"none"


def test_json_that_is_none_is_a_verdict() -> None:
    response = given(always(answer(200, b"{")))

    with pytest.raises(Fatal, match="bad-json"):
        response.json()


# -- Retry-After, over the wire --------------------------------------------------------------------------------------


def test_each_row_of_the_corpus_over_the_wire() -> None:
    """What a server can send at all reaches the parser as it was sent."""

    async def scene() -> None:
        rows = [
            row for row in corpora.rows("retry-after-corpus.tsv") if not set("\0\v\f") & set(corpora.unescaped(row[0]))
        ]
        rows = [row for row in rows if len(corpora.unescaped(row[0])) < 5_000 and corpora.unescaped(row[0]).isascii()]
        now = datetime.fromtimestamp(0, UTC)
        heads = [fields(row[0]) for row in rows]
        wire = [answer(status, b"", *pairs) for pairs, status in heads]
        async with serving(servers.in_turn(*wire)) as server, client_for(server, now=lambda: now) as client:
            for (pairs, status), row in zip(heads, rows, strict=True):
                now = datetime.fromtimestamp(int(row[1]), UTC)
                ended: OperationError | None = None
                try:
                    await client.request("GET", server.url)
                except OperationError as error:
                    ended = error
                wait = parse(pairs, status, now)
                if isinstance(ended, RetryLater):
                    assert ended.at == (wait and wait.until(now)), row[3]
                else:
                    assert status in {200, 202, 403, 404, 413}, row[3]
            assert len(server.asked) == len(rows) > 120

    servers.run(scene())


def test_a_wait_counts_from_when_the_answer_came() -> None:
    async def scene() -> None:
        came = datetime(2030, 1, 1, tzinfo=UTC)
        busy = always(answer(429, b"", ("Retry-After", "90")))
        async with serving(busy) as server, client_for(server, now=lambda: came) as client:
            with pytest.raises(ProviderWaits) as caught:
                await client.request("GET", server.url)
        assert caught.value.at == came + timedelta(seconds=90)

    servers.run(scene())


# -- what an error tells ---------------------------------------------------------------------------------------------


def test_an_error_keeps_at_most_200_scrubbed_characters() -> None:
    body = b"refused\x00\x1b[31m:\r\n" + "é".encode() * 300 + b" " * 50_000_000
    error = ended(always(answer(400, body)))
    text = str(error).removeprefix("http-400: ")

    assert len(text) == 200
    assert text.startswith("refused [31m: éé")
    assert text.isprintable()


def test_a_token_that_the_provider_echoes_is_not_repeated() -> None:
    async def scene() -> None:
        echo = b"x" * 190 + b"tok-c4n4ry-9911 is bad"
        scrub = lambda text: text.replace("tok-c4n4ry-9911", "[secret]")  # noqa: E731
        async with serving(always(answer(400, echo))) as server, client_for(server, scrub=scrub) as client:
            with pytest.raises(Fatal) as caught:
                await client.request("GET", server.url)
        assert "tok-" not in str(caught.value)
        assert len(str(caught.value)) <= 200 + len("http-400: ")

    servers.run(scene())


def test_no_error_names_the_url() -> None:
    for behaviour in (always(answer(500)), servers.then_reset(b""), servers.silent, always(b"x\r\n\r\n")):

        async def scene(behaviour: Behaviour = behaviour) -> str:
            async with serving(behaviour) as server, client_for(server) as client:
                with pytest.raises(OperationError) as caught:
                    await client.request("GET", server.url + "?key=c4n4ry", limits=SHORT)
                return str(caught.value)

        assert "c4n4ry" not in servers.run(scene())


@pytest.mark.parametrize(
    "headers",
    [{"A": "b\r\nC: d"}, {"A\r\n": "b"}, {"A": "\x00"}, {"": "b"}, {"A": "ü"}, {"Host": "x"}, {"content-length": "3"},
     {"Transfer-Encoding": "chunked"}, {"Proxy-Authorization": "x"}, {"A": "b" * 9_000}],
)  # fmt: skip
def test_a_header_that_could_end_a_line_or_reframe_the_message_is_refused(headers: dict[str, str]) -> None:
    async def scene() -> None:
        async with client_for(servers.Server(1)) as client:
            with pytest.raises(InvalidFieldError) as caught:
                await client.request("GET", "http://127.0.0.1:1/", headers=headers)
            assert "b" * 9_000 not in str(caught.value)

    servers.run(scene())
