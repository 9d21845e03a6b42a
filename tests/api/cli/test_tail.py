"""`tail`: the log as it grows, also by other processes."""

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from joblog.api.cli import tail as tailing
from joblog.api.cli.door import TailStart
from joblog.domain.errors import LogRewoundError, StoreUnavailableError
from joblog.projections.feed import pages
from joblog.workers.commands.log import JobLog
from tests.api.cli.terminal import ADA, Answer, claimed, started, submit, work


def read(process: Any) -> dict[str, Any]:
    """The next line, or a failure instead of waiting for ever."""
    stopper = threading.Timer(20, process.kill)
    stopper.start()
    try:
        line = process.stdout.readline()
    finally:
        stopper.cancel()
    assert line, process.stderr.read()
    found: dict[str, Any] = json.loads(line)
    return found


def test_events_of_another_process_are_seen_as_they_come(log: JobLog, database_url: str) -> None:
    submit(log, "before")
    with started("--db", database_url, "tail", "--json", "--after", "0") as process:
        seen = [read(process)]
        for number in range(3):
            submit(log, str(number))
            seen.append(read(process))

    assert [event["position"] for event in seen] == [1, 2, 3, 4]
    assert [event["data"]["key"] for event in seen] == ["before", "0", "1", "2"]


def test_by_default_it_begins_at_the_end(log: JobLog, cli: Callable[..., Answer]) -> None:
    submit(log)

    assert cli("tail", "--no-follow").out == ""
    assert cli("tail", "--no-follow", "--replica", "--after", "0").out != ""


def test_one_job_from_its_beginning(log: JobLog, cli: Callable[..., Answer]) -> None:
    submit(log, "1", queue="other")
    job_id = submit(log, "2")
    work(claimed(log), 1)

    lines = cli("tail", "--job", job_id, "--no-follow", "--json").lines

    assert [json.loads(line)["version"] for line in lines] == [1, 2, 3, 4]


def test_some_topics_only(log: JobLog, cli: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tailing, "_PAGE", 2)
    for number in range(5):
        submit(log, str(number))
        log.control_queue("q", "pause", ADA)

    topic = ["--topic", "joblog.queue.paused"]
    lines = [json.loads(line) for line in cli("tail", "--after", "0", "--no-follow", "--json", *topic).lines]

    assert [line["topic"] for line in lines] == ["joblog.queue.paused"] * 5
    positions = [line["position"] for line in lines]
    assert positions == sorted(set(positions))
    following = cli("tail", "--after", lines[2]["cursor"], "--no-follow", "--json", *topic).lines
    assert [json.loads(line) for line in following] == lines[3:]


@pytest.mark.parametrize("after", ["x", "1:x", ":5", "-1", "x:1"])
def test_what_is_no_position(log: JobLog, cli: Callable[..., Answer], after: str) -> None:
    submit(log)

    assert cli("tail", "--no-follow", f"--after={after}").refusal == "invalid-field"


@pytest.mark.parametrize("after", ["5", "2:1"])
def test_a_position_that_the_log_does_not_have_any_more(log: JobLog, cli: Callable[..., Answer], after: str) -> None:
    submit(log)

    answer = cli("tail", "--no-follow", "--after", after)

    assert (answer.code, answer.refusal) == (5, "log-rewound")


def test_a_database_that_restarts_ends_nothing(
    sqlite_log: JobLog, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []
    monkeypatch.setattr(tailing, "say", said.append)
    monkeypatch.setattr(tailing, "_AWAY_SECONDS", 0.01)
    submit(sqlite_log)
    read, away = pages.read_page, [True, True, False]

    def flaky(*args: Any, **more: Any) -> Any:
        if away and away.pop(0):
            raise StoreUnavailableError("gone")
        return read(*args, **more)

    monkeypatch.setattr(pages, "read_page", flaky)
    following = tailing.Tail(sqlite_log, pages.Cursor(1, 0), TailStart()).pages(follow=True)
    page = next(following)
    following.close()  # type: ignore[attr-defined]

    assert [event["position"] for event in page.items] == [1]
    assert said == ["the database does not answer: gone; trying again", "the database answers again"]
    assert capsys.readouterr().err == ""


def test_a_log_that_is_put_back_meanwhile_is_told(sqlite_log: JobLog) -> None:
    """What follows a position of the older epoch may be other events now."""
    submit(sqlite_log)
    following = tailing.Tail(sqlite_log, pages.Cursor(1, 0), TailStart()).pages(follow=True)
    next(following)
    sqlite_log.raise_epoch(ADA, reason="restored")

    with pytest.raises(LogRewoundError, match="older"):
        next(following)


# -- consumers ---------------------------------------------------------------------------------------------------------


def positions(answer: Answer) -> list[int]:
    assert answer.code == 0, answer.err
    return [json.loads(line)["position"] for line in answer.lines]


def test_a_consumer_goes_on_where_it_has_stopped(log: JobLog, cli: Callable[..., Answer]) -> None:
    command = ("tail", "--consumer", "audit", "--no-follow", "--json")
    submit(log, "1")
    submit(log, "2")
    assert positions(cli(*command)) == [1, 2]
    assert positions(cli(*command)) == []
    submit(log, "3")
    assert positions(cli(*command, "--topic", "joblog.job.completed")) == []
    submit(log, "4")
    assert positions(cli(*command)) == [4]  # what was filtered away counts as read

    [consumer] = cli("consumers", "--json").document["items"]
    assert (consumer["name"], consumer["cursor"], consumer["behind"], consumer["rewound"]) == ("audit", "1:4", 0, False)
    assert "audit" in cli("consumers", "list").out
    assert cli("consumers", "drop", "audit").code == 0
    assert cli("consumers", "drop", "audit").refusal == "consumer-not-found"
    assert cli("consumers", "rejoin", "audit").refusal == "consumer-not-found"


def test_a_consumer_of_an_older_epoch_is_told_how_to_go_on(log: JobLog, cli: Callable[..., Answer]) -> None:
    command = ("tail", "--consumer", "audit", "--no-follow", "--json")
    submit(log)
    cli(*command)
    log.raise_epoch(ADA, reason="restored")

    refused = cli(*command)
    assert (refused.code, refused.refusal) == (5, "log-rewound")
    assert "joblog consumers rejoin audit" in refused.err
    assert "rewound" in cli("consumers").out
    assert cli("consumers", "rejoin", "audit").out == "audit was at 1:1, and goes on behind 2:1\n"
    assert positions(cli(*command)) == [2]


def test_a_consumer_knows_its_own_place(log: JobLog, cli: Callable[..., Answer]) -> None:
    submit(log)

    assert cli("tail", "--consumer", "audit", "--after", "0", "--no-follow").refusal == "invalid-field"
    assert cli("tail", "--consumer", "audit", "--replica", "--no-follow").refusal == "invalid-field"
    assert cli("tail", "--consumer", "x" * 300, "--no-follow").code == 2


def test_one_tenant_only_and_as_cloud_events(log: JobLog, cli: Callable[..., Answer]) -> None:
    submit(log, "1", tenant="acme")
    submit(log, "2", tenant="other")

    lines = cli("tail", "--after", "0", "--no-follow", "--tenant", "acme", "--cloudevents").lines

    [event] = map(json.loads, lines)
    assert (event["specversion"], event["type"], event["data"]["key"]) == ("1.0", "joblog.job.submitted", "1")
