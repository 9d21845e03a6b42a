"""`--server`: every command says the same through a service as through the database, and the token is seen by nobody."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import click
import pytest

from joblog.api.cli import local_only, watching
from joblog.api.cli.main import cli as cli_group
from joblog.api.cli.remote import Remote
from joblog.api.http.feed import PAGE
from joblog.api.http.server import HttpServer
from joblog.domain.errors import StoreUnavailableError
from joblog.domain.spec import JobSpec
from joblog.projections.feed.consumers import Consumer
from joblog.projections.feed.pages import Cursor
from joblog.projections.proof import tree
from joblog.projections.runner import Runner
from joblog.workers.commands.log import JobLog
from tests.api.cli.terminal import Answer, claimed, joblog, submit, work
from tests.api.http.client import a_token, serving

Cli = Callable[..., Answer]


@pytest.fixture
def server(log: JobLog) -> Iterator[HttpServer]:
    with serving(log) as server:
        yield server


@pytest.fixture
def afar(log: JobLog, server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The command line on the service of ``server``."""
    monkeypatch.setenv("JOBLOG_TOKEN", a_token(log, "admin", name="ada"))
    return lambda *args, **more: joblog("--server", server.url, *args, **more)


@pytest.fixture
def story(log: JobLog) -> list[str]:
    """Jobs in many states; the ids, that of the richest first."""
    first = submit(log, "1", tags=("a", "b"))
    held = claimed(log)
    work(held, 1, 2)
    held.attempt_unit("rows:3")
    others = [submit(log, str(number), queue="later") for number in range(2, 6)]
    log.control_queue("later", "limit", _ada(), slots=3)
    log.command("pause", _id(others[0]), _ada())
    log.command("cancel", _id(others[1]), _ada())
    Consumer.open(log.store, "billing").commit(Cursor(1, 2))
    Runner(log.store, log.mapper, "me").run()
    tree.build(log.store)
    return [first, *others]


def _ada() -> Any:
    from joblog.domain.job import Actor

    return Actor("ada", text="because")


def test_a_tail_that_does_not_follow_gives_all_there_is(log: JobLog, afar: Cli) -> None:
    """More than a page of it, from a service that nobody follows."""
    log.submit_many([JobSpec("import", n) for n in range(PAGE + 20)])
    for more in ((), ("--json",), ("--cloudevents",)):
        assert len(afar("tail", "--after", "0", "--no-follow", *more).lines) == PAGE + 20


def _id(text: str) -> Any:
    from uuid import UUID

    return UUID(text)


def steady(answer: Answer) -> Any:
    """Its JSON, but for what only time changes."""
    assert answer.code == 0, answer.err
    return [
        json.loads(re.sub(r'"seconds_left": [0-9.]+', '"seconds_left": 1', line)) for line in answer.out.splitlines()
    ]


READING = {
    "list": ("list",),
    "list of a queue": ("list", "--queue", "later", "--status", "queued", "--limit", "1"),
    "list behind a job": ("list", "--after", "{id}"),
    "list as of": ("list", "--at", "3"),
    "show": ("show", "{id}"),
    "show by its beginning": ("show", "{short}"),
    "show with events": ("show", "{id}", "--events"),
    "show as of": ("show", "{id}", "--at", "2"),
    "why": ("why", "{id}"),
    "why paused": ("why", "{other}"),
    "queues": ("queues",),
    "workers": ("workers",),
    "gates": ("gates",),
    "recovery": ("recovery", "--filter", "done", "--search", "PAUSE"),
    "recovery list": ("recovery", "list", "--page", "9"),
    "archives": ("archives",),
    "archives list": ("archives", "list"),
    "consumers": ("consumers",),
    "consumers list": ("consumers", "list"),
    "queues list": ("queues", "list"),
    "gates list": ("gates", "list"),
    "projections": ("projections",),
    "projections list": ("projections", "list"),
    "projections diff": ("projections", "diff", "versions"),
    "projections verify": ("projections", "verify", "counters"),
    "verify": ("verify",),
    "verify a range": ("verify", "--from", "2", "--to", "4"),
    "verify a job": ("verify", "--job", "{short}"),
    "tail": ("tail", "--after", "0", "--no-follow"),
    "tail of a job": ("tail", "--job", "{id}", "--no-follow"),
    "tail of topics": ("tail", "--after", "2", "--topic", "joblog.job.submitted", "--no-follow"),
    "tail as CloudEvents": ("tail", "--after", "0", "--no-follow", "--cloudevents", "--tenant", "default"),
}


@pytest.mark.parametrize("name", READING)
def test_reading_says_the_same(cli: Cli, afar: Cli, story: list[str], name: str) -> None:
    words = {"id": story[0], "short": story[0][:9], "other": story[1]}
    args = [part.format(**words) for part in READING[name]]

    assert steady(cli(*args, "--json")) == steady(afar(*args, "--json"))
    here, there = cli(*args), afar(*args)
    blurred = [re.sub(r"\d+(\.\d)? s\b", "n s", one.out) for one in (here, there)]
    assert blurred[0] == blurred[1]
    assert (here.code, here.err) == (there.code, there.err)


def test_commanding_says_the_same(log: JobLog, cli: Cli, afar: Cli) -> None:
    for number, way in enumerate((cli, afar)):
        key = f"a-key-of-this-test-{number:04d}"
        made = way("submit", "import.file", "--key", key, "--args", _ARGS, "--at", "+1h", "--json").document
        assert (made["created"], made["key"], made["queue"], made["kind"]) == (True, key, "default", "import.file")
        again = way("submit", "import.file", "--key", key, "--args", _ARGS, "--at", "+1h", "--json").document
        assert again == made | {"created": False}
        for action, status in (("pause", "paused"), ("resume", "queued"), ("pause", "paused"), ("retry", "queued")):
            done = way(action, made["id"], "--json", "--reason", "because").document
            assert (done["id"], done["action"], done["status"], done["repeated"]) == (made["id"], action, status, False)
        stale = way("cancel", made["id"], "--if-version", "1")
        assert (stale.code, stale.refusal) == (4, "version-conflict")
        twice = [way("cancel", made["id"], "--request-id", f"cancel-of-this-test-{number}", "--json") for _ in range(2)]
        assert [one.document["repeated"] for one in twice] == [False, True]
        refused = way("resume", made["id"])
        assert (refused.code, refused.refusal) == (4, "wrong-state")
        event = way("tail", "--job", made["id"], "--no-follow", "--json").lines[1]
        assert json.loads(event)["data"]["text"] == "because"
    assert (
        cli("queues", "limit", "q", "3", "--json").document.keys()
        == afar("queues", "limit", "q", "4", "--json").document.keys()
    )
    assert afar("queues", "pause", "a/b", "--json").document == cli("queues", "pause", "a/b", "--json").document | {
        "generation": 1
    }


def test_a_whole_queue_is_commanded_the_same(log: JobLog, cli: Cli, afar: Cli) -> None:
    """Over a service by a job, which only its own jobs' queue can't be told to command."""
    made: dict[str, Any] = {}
    for way, queue in ((cli, "here"), (afar, "there")):
        ids = [submit(log, f"{queue}-{n}", queue=queue) for n in range(3)]
        submit(log, f"{queue}-other", queue="other")
        done = way("pause", "--queue", queue, "--all", "--reason", "because", "--json")
        again = way(
            "pause", "--queue", queue, "--all", "--request-id", f"pause-{queue}-of-this-test", "--json"
        ).document
        resumed = way("resume", "--queue", queue, "--all", "--request-id", f"resume-{queue}-of-this-test")
        repeated = way("resume", "--queue", queue, "--all", "--request-id", f"resume-{queue}-of-this-test")
        made[queue] = [done.code, done.document, again, resumed.code, resumed.out, repeated.out]
        assert {str(log.row(_id(one))["status"]) for one in ids} == {"queued"}
        assert [event.topic for event in log.store.read(_id(ids[0]))].count("joblog.job.paused") == 1
        assert way("cancel", "--queue", queue, "--all", "--if-version", "1").code == 2
    assert json.loads(json.dumps(made["there"]).replace("there", "here")) == made["here"]
    assert made["here"][1]["done"] == 3
    assert made["here"][4] == made["here"][5] == "3 jobs of queue here resumed, 0 had moved on\n"
    assert afar("cancel", "--queue", "joblog", "--all").refusal == "invalid-field"


def test_what_a_job_passed_over_is_retried_the_same(log: JobLog, cli: Cli, afar: Cli) -> None:
    made: list[Any] = []
    for way in (cli, afar):
        job_id = submit(log, f"skips-{len(made)}")
        held = claimed(log)
        held.skip_unit("rows:7", code="bad-row", text="no number")
        refused = way("retry", job_id, "--skipped")
        held.complete()
        first, again = (way("retry", job_id[:9], "--skipped", "--json").document for _ in range(2))
        [one] = first["items"]
        assert again == first | {"items": [{"id": one["id"], "created": False}]}
        assert log.job(_id(one["id"])).parent_id == job_id
        said = way("retry", job_id, "--unit", "rows:7")
        assert said.out == f"job {one['id']} retries it already\n"
        none = way("retry", job_id, "--unit", "rows:8")
        log.claim("w")  # the retry, so that the next claim is the next job's
        made.append([first.keys(), one["created"], refused.code, refused.refusal, none.code, none.refusal, said.code])
    assert made[0] == made[1]


def test_care_says_the_same(log: JobLog, cli: Cli, afar: Cli, story: list[str]) -> None:
    for number, way in enumerate((cli, afar)):
        rebuilt = way("projections", "rebuild", "counters", "--json").document
        assert (rebuilt["name"], rebuilt["generation"]) == ("counters", number + 1)
        assert way("projections", "rebuild", "jobs").code == 0
        args = (
            "recovery",
            "note",
            "restore-finished",
            "--detail",
            "by hand",
            "--request-id",
            f"a-note-{number}-of-this-test",
        )
        noted = [way(*args, "--json").document for _ in range(2)]
        assert noted[0] == noted[1]
        assert noted[0]["position"] > 0
        assert way("consumers", "drop", "nobody").refusal == "consumer-not-found"
        name = f"reader-{number}"
        read = way("tail", "--consumer", name, "--no-follow", "--json")
        assert len(read.lines) == log.store.head()
        assert way("tail", "--consumer", name, "--no-follow").out == ""
        assert way("consumers", "drop", name, "--json").document == {"name": name}
    assert story


@pytest.mark.parametrize("more", [[], ["jobs"], ["jobs", "--units"]])
def test_the_job_table_is_verified_the_same(cli: Cli, afar: Cli, story: list[str], more: list[str]) -> None:
    """But for the job that does it, which is in the table."""
    here, there = (way("projections", "verify", *more, "--json") for way in (cli, afar))
    assert (here.code, there.code) == (0, 0)
    documents = [[one.document] if more else one.document["items"] for one in (here, there)]
    assert [(one["name"], one.keys()) for one in documents[0]] == [(one["name"], one.keys()) for one in documents[1]]
    assert {one["differences"] for found in documents for one in found} == {0}
    assert story


def test_rows_that_are_not_what_the_log_says_are_told_the_same(
    log: JobLog, cli: Cli, afar: Cli, story: list[str]
) -> None:
    with log.store.engine.begin() as connection:  # type: ignore[attr-defined]  # a database's
        connection.exec_driver_sql("UPDATE job_versions SET worker = 'nobody'")
    here, there = (way("projections", "diff", "versions", "--json") for way in (cli, afar))
    assert (here.code, here.document) == (there.code, there.document)
    assert here.code == 5
    assert story


_ARGS = '{"source": "x.csv", "target": "sqlite:///x.db", "table": "t"}'


def test_gates_say_the_same(cli: Cli, afar: Cli) -> None:
    for way in (cli, afar):
        limited = way("gates", "set", "crm/env:TOKEN", "--slots", "3", "--spacing", "0.5s", "--json").document
        assert (limited["slots"], limited["spacing_seconds"], limited["set_by"]) == (3, 0.5, "operator")
        closed = way("gates", "close", "crm/env:TOKEN", "--for", "1h", "--json").document
        assert closed["closed"]
        opened = way("gates", "open", "crm/env:TOKEN", "--resume", "--json").document
        assert (opened["closed"], opened["resumed"]) == (False, 0)
        assert way("gates", "open", "none").refusal == "gate-not-found"


def test_a_job_is_seen_through(log: JobLog, afar: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = iter(["complete", "fail"])

    def meanwhile(seconds: float) -> None:
        del seconds
        [held] = log.claim("w")
        held.complete({"rows": 1}) if next(ends) == "complete" else held.fail(reason="bad-row", text="")

    monkeypatch.setattr(watching, "pause", meanwhile)
    good = afar("submit", "import.file", "--args", _ARGS, "--wait", "--json")
    assert (good.code, good.document["job"]["status"], good.document["created"]) == (0, "completed", True)
    assert good.document["job"].keys() == afar("list", "--json").document["items"][0].keys()
    bad = afar("submit", "import.file", "--args", _ARGS, "--wait")
    assert bad.code == 10
    assert "✕ failed" in bad.lines[-1]


def test_the_token_comes_from_a_file_or_the_environment(
    log: JobLog, server: HttpServer, afar: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert afar("list").code == 0
    monkeypatch.setenv("JOBLOG_TOKEN", "jl_wrong")
    assert afar("list").refusal == "unauthorized"
    monkeypatch.delenv("JOBLOG_TOKEN")
    assert afar("list").refusal == "invalid-field"
    file = tmp_path / "token"
    file.write_text(a_token(log, "jobs:read") + "\n")
    assert afar("list", "--token-file", str(file)).code == 0
    assert afar("pause", "0" * 32, "--token-file", str(file)).refusal == "scope-missing"
    monkeypatch.setenv("JOBLOG_TOKEN_FILE", str(file))
    monkeypatch.setenv("JOBLOG_SERVER", server.url)
    assert joblog("list").code == 0


#: Commands that are run both ways by the tests above, beside those of READING.
COMMANDED = {
    "submit", "pause", "resume", "cancel", "retry", "queues pause", "queues resume", "queues limit", "gates open", "gates close",
    "gates set", "projections rebuild", "recovery note", "consumers drop",
}  # fmt: skip


def leaves(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command with its path; a group that does something by itself is one, too."""
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield f"{path}{name}", command
        if isinstance(command, click.Group):
            yield from leaves(command, f"{path}{name} ")


def test_every_command_asks_either_or_says_in_its_help_why_not() -> None:
    read = {" ".join(part for part in args[:2] if part.isalpha()) for args in READING.values()}
    known = dict(leaves(cli_group))
    local = {path for path in known if local_only.why(path)}
    assert local | read | COMMANDED == known.keys()
    assert not local & (read | COMMANDED)
    for path in local:
        assert f"It takes no --server: {local_only.why(path)}." in str(known[path].epilog), path
    assert {
        path
        for path in local_only.WHY
        if path not in known and path not in {"webhooks", "heads", "tokens", "credentials", "epoch"}
    } == set()


def test_what_only_the_database_can_answer_says_so(afar: Cli, sqlite_url: str) -> None:
    assert afar("doctor").code == 2
    assert "give --db" in afar("init").err
    assert afar("list", "--db", sqlite_url).code == 2
    for url in ("localhost:1", "ftp://x", "http://user@x"):
        assert joblog("--server", url, "list").refusal == "invalid-field"


def test_a_service_that_stays_away_is_waited_for_no_longer_than_said(
    afar: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> NoReturn:
        raise StoreUnavailableError("gone")

    monkeypatch.setattr(Remote, "job", away)
    monkeypatch.setattr(watching, "pause", lambda _: None)

    answer = afar("submit", "import.file", "--args", _ARGS, "--wait", "--timeout", "0.01s")

    assert (answer.code, answer.refusal) == (75, "store-unavailable")


def test_a_service_that_is_away_ends_with_75(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBLOG_TOKEN", "jl_x")

    answer = joblog("--server", "http://127.0.0.1:1", "list")

    assert (answer.code, answer.refusal) == (75, "store-unavailable")
