"""`serve`, `up` and `tokens`: real processes, asked over HTTP."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from joblog.workers.commands.log import JobLog
from tests.api.cli.terminal import Answer, joblog, run, started
from tests.api.http.client import Client


def served_on(process: subprocess.Popen[str]) -> int:
    """The port that a process says it serves on."""
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(r"http://127\.0\.0\.1:(\d+)", line):
            return int(found[1])
    raise AssertionError("it never served")


def test_serve_answers_a_token_of_the_command_line_until_it_is_told_to_stop(log: JobLog, database_url: str) -> None:
    made = joblog("--db", database_url, "--json", "tokens", "create", "ci", "--scope", "jobs:read,jobs:write")
    with started("--db", database_url, "--json", "serve", "--port", "0") as process:
        client = Client(served_on(process), made.document["token"])
        assert client.get("/readyz").status == 200
        job_id = client.submit("demo.kind")
        assert client.good(f"/api/v1/jobs/{job_id}")["owner"] == "ci"
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 143
        assert process.stdout is not None
        assert json.loads(process.stdout.read())["stopped_by"] == "SIGTERM"


def test_up_serves_beside_its_worker(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'up.db'}"
    with started("--db", url, "up", "--port", "0") as process:
        client = Client(served_on(process))
        assert client.get("/livez").status == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130


def test_a_port_that_is_taken_is_told(on_file: Callable[..., Answer], sqlite_log: JobLog) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        answer = on_file("serve", "--port", str(other.getsockname()[1]))

    assert (answer.code, answer.refusal) == (75, "store-unavailable")


def test_a_public_address_without_a_guard_is_refused(on_file: Callable[..., Answer], sqlite_log: JobLog) -> None:
    answer = on_file("serve", "--host", "0.0.0.0", "--port", "0")  # noqa: S104 - it must be refused

    assert (answer.code, answer.refusal) == (2, "unsafe-bind")


def test_serve_makes_no_log(tmp_path: Path) -> None:
    assert run("serve", cwd=tmp_path).refusal == "schema-missing"


def test_tokens_are_made_listed_and_revoked(log: JobLog, cli: Callable[..., Answer]) -> None:
    made = cli("tokens", "create", "auditor", "--scope", "feed:read", "--tenant", "red", "--expires", "30d")
    secret = made.out.strip()
    assert re.fullmatch(r"jl_[0-9a-f]{16}_[A-Za-z0-9_-]{43}", secret)
    assert "not shown again" in made.err

    [token] = cli("--json", "tokens").document["items"]
    assert (token["name"], token["scopes"], token["tenant"], token["live"]) == ("auditor", ["feed:read"], "red", True)
    assert secret.split("_")[2] not in cli("tokens", "list").out

    assert cli("tokens", "revoke", "auditor").code == 0
    assert cli("tokens", "revoke", token["id"]).refusal == "token-not-found"
    assert "revoked" in cli("tokens", "list").out


@pytest.mark.parametrize(
    "args", [["x", "--scope", "nonsense"], ["x", "--scope", "workers", "--tenant", "red"], ["", "--scope", "admin"]]
)
def test_a_token_that_makes_no_sense_is_refused(
    on_file: Callable[..., Answer], sqlite_log: JobLog, args: list[str]
) -> None:
    assert on_file("tokens", "create", *args).code == 2


def test_no_tokens_yet_is_said_with_a_way_on(on_file: Callable[..., Answer], sqlite_log: JobLog) -> None:
    answer = on_file("tokens")

    assert answer.lines[0].split()[:2] == ["ID", "NAME"]
    assert "joblog tokens create" in answer.err


def test_a_sign_in_link_of_the_command_line_opens_the_page_once(log: JobLog, database_url: str) -> None:
    with started("--db", database_url, "serve", "--port", "0") as process:
        port = served_on(process)
        link = joblog("--db", database_url, "tokens", "sign-in", "--url", "").out.strip()
        first, second = (Client(port).get(link) for _ in range(2))

    assert (first.status, first.headers["location"]) == (303, "/")
    assert second.code == "unauthorized"
    assert joblog("--db", database_url, "--json", "tokens").document["items"] == []
