"""SSR-06 to SSR-12: refusals are events of a stream of their own; a thousand of a kind are one row."""

from collections.abc import Iterator

import pytest

from joblog.domain import withheld
from joblog.domain.security import EgressRefused
from joblog.projections import queries
from joblog.projections.runner import Runner
from joblog.workers.commands.log import JobLog
from joblog.workers.errors import Fatal, RetryLater
from joblog.workers.outbound.errors import DestinationRefusedError
from joblog.workers.outbound.security import SecurityStream
from joblog.workers.outbound.settings import client_for
from tests.workers.outbound import servers


@pytest.fixture
def log(database_url: str) -> Iterator[JobLog]:
    with JobLog.open(database_url) as log:
        yield log
    withheld.forget()


def told(log: JobLog) -> list[EgressRefused]:
    rows = log.store.log(0, 1000, topics=[EgressRefused.TOPIC])
    return [log.mapper.decode(row.stream_id, row.version, row.topic, row.state) for row in rows]


def test_a_refusal_is_an_event_with_the_detail_that_the_job_does_not_get(log: JobLog) -> None:
    async def scene() -> None:
        stream = SecurityStream(log, "job-7")
        async with client_for(log, {}, report=stream) as client:
            with pytest.raises(Fatal) as caught:
                await client.request("GET", "https://10.77.0.1:8443/secret-path")
            assert "10.77" not in str(caught.value)
        await stream.settled()
        [event] = told(log)
        assert (event.category, event.refusal, event.actor, event.severity) == ("ssrf", "address", "job-7", "warning")
        assert "10.77.0.1" in event.detail
        assert "secret-path" not in event.detail

    servers.run(scene())


def test_many_of_a_kind_are_one_row(log: JobLog) -> None:
    async def scene() -> None:
        stream = SecurityStream(log)
        async with client_for(log, {}, report=stream) as client:
            for number in range(20):
                with pytest.raises(Fatal):
                    await client.request("GET", f"https://10.77.0.{number}/")
            with pytest.raises(Fatal):
                await client.request("GET", "ftp://hooks.example.com/")
        await stream.settled()

    servers.run(scene())
    Runner(log.store, log.mapper, "me").run()
    rows = {row["refusal"]: row["count"] for row in queries.security(log.store)}

    assert rows == {"address": 20, "scheme": 1}


def test_a_name_that_does_not_resolve_is_no_security_event(log: JobLog) -> None:
    async def scene() -> None:
        async with client_for(log, {}, resolver=servers.Names()) as client:
            with pytest.raises(RetryLater):
                await client.request("GET", "https://hooks.example.com/")

    servers.run(scene())
    assert told(log) == []


def test_what_comes_too_fast_is_counted(log: JobLog) -> None:
    async def scene() -> None:
        stream = SecurityStream(log)
        for _ in range(300):  # no turn of the loop between them: none of the answers can have come
            stream(DestinationRefusedError("address", "10.0.0.1 is private"))
        await stream.settled()
        stream(DestinationRefusedError("address", "10.0.0.1 is private"))
        await stream.settled()
        events = told(log)
        assert len(events) == 257
        assert sum(event.missed for event in events) == 300 - 256

    servers.run(scene())


def test_a_log_that_is_closed_changes_nothing(log: JobLog, caplog: pytest.LogCaptureFixture) -> None:
    """SSR-12."""
    log.writer.close()

    async def scene() -> None:
        async with client_for(log, {}) as client:
            with pytest.raises(Fatal, match="destination-refused"):
                await client.request("GET", "https://10.77.0.1/")

    servers.run(scene())
    assert "was not recorded" in caplog.text


def test_a_known_secret_in_a_detail_is_replaced(log: JobLog) -> None:
    withheld.withhold("env:TOKEN", "c4n4ry-value")

    async def scene() -> None:
        stream = SecurityStream(log)
        stream(DestinationRefusedError("host", "c4n4ry-value.example.com"))
        await stream.settled()
        [event] = told(log)
        assert event.detail == "[env:TOKEN].example.com"

    servers.run(scene())
