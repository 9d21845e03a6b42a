"""Following the log over HTTP: in order, without gaps or repeats, from any place that is still the same log's."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from typing import Any
from uuid import UUID

import pytest

from joblog.api.http import auth
from joblog.api.http.errors import OverloadedError
from joblog.api.http.feed import Feed
from joblog.api.http.server import HttpServer
from joblog.api.http.service import Service
from joblog.api.shapes import of_logged
from joblog.domain.errors import StoreUnavailableError
from joblog.domain.job import Actor
from joblog.domain.spec import JobSpec
from joblog.workers.commands.log import JobLog
from joblog.workers.registry import Jobs
from tests.api.http.client import PATIENCE, Client, a_token
from tests.patience import until

FEED = "/api/v1/feed"


class Stream:
    """An open stream of server-sent events."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.answer = answer

    def events(self, count: int) -> list[tuple[str, str, dict[str, object]]]:
        """The next events: id, type, data."""
        found: list[tuple[str, str, dict[str, object]]] = []
        fields: dict[str, str] = {}
        deadline = time.monotonic() + PATIENCE  # pings alone are no events
        while len(found) < count:
            assert time.monotonic() < deadline, "nothing but pings"
            line = self.answer.readline().decode()
            assert line, "the stream ended"
            if line == "\n":
                if "data" in fields:
                    found.append((fields.get("id", ""), fields["event"], json.loads(fields["data"])))
                fields = {}
            else:
                name, _, value = line.rstrip("\n").partition(": ")
                fields[name] = value
        return found

    def is_ended(self) -> bool:
        """Read to the end; a stream that goes on runs into the time-out."""
        try:
            while self.answer.readline():
                pass
        except (http.client.HTTPException, ConnectionError):
            return True
        return True

    def next_id(self) -> str:
        """The next id, whether or not it has an event."""
        while not (line := self.answer.readline().decode()).startswith("id: "):
            assert line, "the stream ended"
        return line.removeprefix("id: ").strip()


@contextmanager
def streaming(client: Client, query: str = "", **headers: str) -> Iterator[Stream]:
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=PATIENCE)
    sent = {"Authorization": f"Bearer {client.token}", "Accept": "text/event-stream"}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("GET", f"{FEED}{query}", headers=sent)
    try:
        answer = connection.getresponse()
        assert (answer.status, answer.getheader("Content-Type")) == (200, "text/event-stream"), answer.read()
        yield Stream(answer)
    finally:
        connection.close()


def submit(log: JobLog, count: int = 1, **more: str) -> list[UUID]:
    return [log.submit(JobSpec("import", n, **more)).job_id for n in range(count)]  # type: ignore[arg-type]


def test_pages_cover_the_log_once_and_say_where_to_go_on(admin: Client, log: JobLog) -> None:
    submit(log, 5)
    log.claim("w", limit=2)
    seen: list[int] = []
    place = "0"
    while items := (page := admin.good(f"{FEED}?limit=3&after={place}"))["items"]:
        seen += [int(item["sequence"]) for item in items]
        place = page["next"]

    assert seen == list(range(1, 8))
    assert (place, page["high_water"]) == ("1:7", 7)
    first = admin.good(f"{FEED}?limit=1")["items"][0]
    assert (first["type"], first["epoch"], first["data"]["kind"]) == ("joblog.job.submitted", "1", "import")


def test_topics_are_chosen_and_the_place_moves_over_the_others(admin: Client, log: JobLog) -> None:
    submit(log, 3)
    log.claim("w", limit=1)

    page = admin.good(f"{FEED}?topics=joblog.job.claimed")

    assert [item["type"] for item in page["items"]] == ["joblog.job.claimed"]
    assert admin.good(f"{FEED}?topics=joblog.job.claimed&after={page['next']}")["next"] == "1:4"


def test_a_long_poll_is_answered_by_the_next_event(admin: Client, log: JobLog) -> None:
    submitting = threading.Timer(0.2, submit, [log])
    submitting.start()
    page = admin.good(f"{FEED}?after=0&wait=25")
    submitting.join()

    assert [int(item["sequence"]) for item in page["items"]] == [1]
    assert admin.good(f"{FEED}?after={page['next']}&wait=0.05")["items"] == []


def test_a_stream_tells_what_stands_and_what_comes(admin: Client, log: JobLog) -> None:
    submit(log, 2)
    with streaming(admin, "?after=0") as stream:
        assert [place for place, _, _ in stream.events(2)] == ["1:1", "1:2"]
        submit(log, 2)
        [third, fourth] = stream.events(2)
        assert (third[0], fourth[0], fourth[1]) == ("1:3", "1:4", "joblog.job.submitted")
        assert fourth[2]["version"] == "1"


def test_a_stream_goes_on_behind_the_last_id(admin: Client, log: JobLog) -> None:
    submit(log, 4)
    with streaming(admin, "?after=0", Last_Event_ID="1:2") as stream:
        assert [place for place, _, _ in stream.events(2)] == ["1:3", "1:4"]


def test_a_stream_without_a_place_begins_at_the_end(admin: Client, log: JobLog) -> None:
    submit(log, 3)
    with streaming(admin) as stream:
        submit(log, 1)
        [(place, _, _)] = stream.events(1)
        assert place == "1:4"


def test_a_bound_stream_passes_over_others_and_still_has_a_place(log: JobLog, server: HttpServer) -> None:
    red = Client(server.port, a_token(log, "feed:read", tenant="red"))
    submit(log, 2, tenant="blue")
    with streaming(red, "?after=0") as stream:
        assert stream.next_id() == "1:2"
        [mine] = submit(log, 1, tenant="red")
        [(place, _, data)] = stream.events(1)
        assert (place, data["subject"]) == ("1:3", str(mine))


def test_many_events_are_streamed_from_the_store_and_then_from_memory(admin: Client, log: JobLog) -> None:
    specs = [JobSpec("import", n) for n in range(1100)]
    log.submit_many(specs)
    with streaming(admin, "?after=0") as stream:
        places = [int(place.partition(":")[2]) for place, _, _ in stream.events(1100)]
        log.submit_many([JobSpec("import", -n) for n in range(1, 1101)])
        places += [int(place.partition(":")[2]) for place, _, _ in stream.events(1100)]

    assert places == list(range(1, 2201))


def test_lines_end_with_how_far_they_go(admin: Client, log: JobLog) -> None:
    submit(log, 3)

    reply = admin.get(f"{FEED}?after=1", Accept="application/x-ndjson")

    assert reply.headers["content-type"] == "application/x-ndjson"
    *events, last = [json.loads(line) for line in reply.body.splitlines()]
    assert ([int(event["sequence"]) for event in events], last) == ([2, 3], {"next": "1:3"})


@pytest.mark.parametrize("place", ["x", "1:", "-1", "1:2:3", "99999999999999999999", "\u0661"])
def test_what_is_no_place_is_refused(on_file: Client, place: str) -> None:
    from urllib.parse import quote

    assert on_file.get(f"{FEED}?after={quote(place)}").code == "bad-cursor"


def test_a_place_of_another_epoch_or_past_the_end_is_refused_loudly(admin: Client, log: JobLog) -> None:
    submit(log, 2)
    assert admin.get(f"{FEED}?after=1:3").code == "stale-cursor"
    log.raise_epoch(Actor("ada"), reason="restored")

    stale = admin.get(f"{FEED}?after=1:2", Accept="text/event-stream")

    assert (stale.status, stale.code) == (409, "stale-cursor")
    assert [item["epoch"] for item in admin.good(f"{FEED}?after=2:2")["items"]] == ["2"]


def test_an_open_stream_ends_when_the_epoch_is_raised(admin: Client, log: JobLog) -> None:
    submit(log, 1)
    with streaming(admin, "?after=0") as stream:
        stream.events(1)
        log.raise_epoch(Actor("ada"), reason="restored")
        [(_, kind, data)] = stream.events(1)
        assert (kind, data) == ("epoch", {"epoch": "2"})
        assert stream.answer.read() == b""


def test_an_open_stream_ends_when_its_token_is_revoked(
    log: JobLog, server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("joblog.api.http.service._STILL_SECONDS", 0.0)
    client = Client(server.port, a_token(log, "feed:read", name="soon-gone"))
    with streaming(client, "?after=0") as stream:
        submit(log, 1)
        stream.events(1)
        auth.revoke(log, "soon-gone")
        submit(log, 2)
        assert stream.is_ended()


def test_a_service_that_stops_ends_its_streams(log: JobLog, server: HttpServer) -> None:
    client = Client(server.port, a_token(log, "feed:read"))
    with streaming(client, "?after=0") as stream:
        submit(log, 1)
        stream.events(1)
        server.stop()
        assert stream.answer.read() == b""


def test_a_named_consumer_only_moves_forward(admin: Client, log: JobLog) -> None:
    submit(log, 3)
    consumers = "/api/v1/consumers"
    moved = admin.request("PUT", f"{consumers}/audit", {"cursor": "1:2"})
    assert (moved.status, moved.json["cursor"], moved.json["behind"]) == (200, "1:2", 1)
    assert admin.request("PUT", f"{consumers}/audit", {"cursor": "1:2"}).status == 200

    assert admin.request("PUT", f"{consumers}/audit", {"cursor": "1:1"}).code == "consumer-moved"
    assert admin.request("PUT", f"{consumers}/audit", {"cursor": "1:4"}).code == "stale-cursor"
    assert [(one["name"], one["cursor"]) for one in admin.good(consumers)["items"]] == [("audit", "1:2")]
    assert admin.request("DELETE", f"{consumers}/audit").status == 204
    assert admin.request("DELETE", f"{consumers}/audit").code == "consumer-not-found"


def test_an_open_stream_outlives_a_moment_without_the_store(
    log: JobLog, server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also that of a client at the end, which needs it for its right alone; and a moment with too much to do."""
    away: list[Exception] = [StoreUnavailableError("away"), OverloadedError("too much")]
    still = Service.still

    async def away_at_first(service: Service, *args: Any) -> bool:
        if away:
            raise away.pop()
        return await still(service, *args)

    monkeypatch.setattr("joblog.api.http.following._AWAY_SECONDS", 0.01)
    client = Client(server.port, a_token(log, "feed:read"))
    with streaming(client, "?after=0") as stream:
        submit(log, 1)
        stream.events(1)
        monkeypatch.setattr(Service, "still", away_at_first)
        submit(log, 2)
        assert len(stream.events(1)) == 1
        assert away == []


def test_the_reader_outlives_a_moment_with_too_much_to_do(log: JobLog, server: HttpServer) -> None:
    """Else all who wait at the end would wait for ever."""
    client = Client(server.port, a_token(log, "feed:read"))
    ask, refused = server.service.ask, threading.Event()

    async def overloaded(function: Any, *args: Any) -> Any:
        if function == server.service.feed._read and not refused.is_set():
            refused.set()
            raise OverloadedError("too much")
        return await ask(function, *args)

    with streaming(client, "?after=0") as stream:
        submit(log, 1)
        stream.events(1)
        server.service.ask = overloaded  # type: ignore[method-assign]
        submit(log, 2)
        assert refused.wait(30)
        assert len(stream.events(1)) == 1


@pytest.mark.parametrize("how", ["asks", "waits", "follows"])
def test_a_log_that_nobody_follows_is_not_read_and_nothing_is_missed_after(
    admin: Client, log: JobLog, server: HttpServer, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    feed, looks = server.service.feed, count()
    look = feed._look

    async def noted() -> bool:
        next(looks)
        return await look()

    monkeypatch.setattr("joblog.api.http.feed._WANTED_SECONDS", 0.0)
    monkeypatch.setattr(feed, "_look", noted)
    submit(log, 1)
    before = admin.get(f"{FEED}?after=0").json["next"]
    assert admin.get(f"{FEED}?after={before}&wait=1").json["items"] == []  # for a moment somebody wants it
    until(lambda: feed._store_id is None)
    seen = next(looks)
    submit(log, 2)
    until(lambda: not feed._wake.is_set())
    assert next(looks) == seen + 1
    if how == "follows":
        with streaming(admin, f"?after={before}") as stream:
            submit(log, 2)
            assert [place for place, _, _ in stream.events(4)] == [f"1:{position}" for position in range(2, 6)]
        return
    answer = admin.get(f"{FEED}?after={before}" + "&wait=9" * (how == "waits")).json
    assert (len(answer["items"]), answer["next"]) == (2, "1:3")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(admin.get, f"{FEED}?after={answer['next']}&wait=9")
        until(lambda: feed._waiting == 1)
        submit(log, 1)
        assert len(waiting.result(PATIENCE).json["items"]) == 1


def test_the_high_water_mark_is_that_of_the_log_whether_or_not_anybody_follows(admin: Client, log: JobLog) -> None:
    log.submit_many([JobSpec("import", n) for n in range(7)])
    assert admin.good(f"{FEED}?after=0&limit=3")["high_water"] == 7
    assert admin.good("/api/v1/log?after=0&limit=3")["high_water"] == 7
    assert admin.good(f"{FEED}?after=1:7&wait=1")["high_water"] == 7


def test_a_head_that_was_lost_is_not_believed(
    admin: Client, log: JobLog, server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failover that lost the end: who waits does not go round and round, and nothing lost is told."""
    monkeypatch.setattr("joblog.api.http.feed._WANTED_SECONDS", 0.0)
    feed, looks = server.service.feed, count()
    submit(log, 2)
    assert admin.good(f"{FEED}?after=1:2&wait=1")["items"] == []
    until(lambda: feed._store_id is None)
    feed.head += 100
    log.raise_epoch(Actor("ada"), reason="failed over")
    page = feed._stored_page

    def noted(*args: Any) -> Any:
        next(looks)
        return page(*args)

    monkeypatch.setattr(feed, "_stored_page", noted)
    answer = admin.good(f"{FEED}?after=2:3&wait=1")
    assert (answer["items"], answer["high_water"], feed.head) == ([], 3, 3)
    assert next(looks) < 10


def test_a_look_at_the_log_changes_nothing_for_those_who_page_meanwhile(log: JobLog) -> None:
    """It runs in a thread; what it found is put in place on the loop."""
    feed = Feed(Service(log, Jobs()))
    feed._take(*feed._read())
    submit(log, 2)
    feed._take(*feed._read())
    before = feed.epoch, feed.head, list(feed._tail)
    submit(log, 3)

    state, entries = feed._read()

    assert (feed.epoch, feed.head, list(feed._tail)) == before
    assert (feed.head, entries is not None and [entry.position for entry in entries]) == (2, [3, 4, 5])
    assert not feed._take(state, entries)
    assert [entry.position for entry in feed._tail] == [1, 2, 3, 4, 5]


def test_a_quiet_stream_says_now_and_then_that_somebody_is_here(
    admin: Client, log: JobLog, server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the stated interval: not with each look at the store."""
    waited: list[float] = []
    changed = Feed.changed

    async def noted(feed: Feed, seconds: float, *, behind: int | None = None) -> None:
        waited.append(seconds)
        await changed(feed, min(seconds, 0.05), behind=behind)

    tell = server.service.feed._tell
    told: list[int] = []

    def noted_tell() -> None:
        told.append(1)
        tell()

    monkeypatch.setattr(server.service.feed, "_tell", noted_tell)
    monkeypatch.setattr(Feed, "changed", noted)
    submit(log, 1)
    with streaming(admin, "?after=0") as stream:
        stream.events(1)
        until(lambda: bool(told))  # it follows the log now
        told.clear()
        while (line := stream.answer.readline()) != b": still here\n":
            assert line, "the stream ended"
        looked = threading.Event()
        read = server.service.feed._read

        def seen() -> Any:
            looked.set()
            return read()

        monkeypatch.setattr(server.service.feed, "_read", seen)
        assert looked.wait(PATIENCE)  # a look that finds nothing wakes nobody

    assert set(waited) == {15.0}
    assert told == []


def test_one_job_or_one_tenant_is_followed_and_stored_events_are_those_of_the_log(
    log: JobLog, server: HttpServer
) -> None:
    admin = Client(server.port, a_token(log, "admin"))
    red = Client(server.port, a_token(log, "feed:read", tenant="red"))
    [first] = submit(log, 1, tenant="red")
    [second] = submit(log, 1, tenant="blue")
    log.claim("w", limit=2)

    def positions(client: Client, query: str) -> list[int]:
        return [item["position"] for item in client.good(f"/api/v1/log?{query}")["items"]]

    by_job = admin.good(f"{FEED}?job={first}")
    assert int(by_job["items"][0]["sequence"]) == 1
    assert {item["subject"] for item in by_job["items"]} == {str(first)}
    assert by_job["next"] == "1:4"
    assert set(positions(admin, f"job={second}")) | set(positions(admin, f"job={first}")) == {1, 2, 3, 4}
    assert positions(admin, "tenant=red") == positions(red, "") == positions(red, "tenant=red")
    assert red.get("/api/v1/log?tenant=blue").code == "invalid-field"
    [event] = admin.good("/api/v1/log?after=1:1&limit=1")["items"]
    assert event == of_logged(log.store.log(1, 1)[0], 1)
