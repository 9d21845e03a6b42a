"""``run.gate(…).request``: the bounded client behind the gate, at a real server on loopback, with a moved clock."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from joblog.domain.retry import RetryPolicy
from joblog.domain.status import Status
from joblog.eventstore.gates import GateAnswer, GateEntry
from joblog.workers.commands.log import JobLog
from joblog.workers.executor import Execution
from joblog.workers.outbound.sealing import new_key
from joblog.workers.outbound.secrets import Secrets
from joblog.workers.registry import Jobs, Operation
from joblog.workers.run import Run, SyncRun
from joblog.workers.testing import Lab
from tests.conformance.builders import armed


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list[tuple[int, dict[str, str]]] = []  #: in order; 200 behind the last
        self.seen: list[tuple[str, str, dict[str, str]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.seen.append((self.command, self.path, dict(self.headers)))
        status, headers = self.server.answers.pop(0) if self.server.answers else (200, {})
        self.send_response(status)
        for name, value in {"Content-Length": "0", **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server() as server:
        monkeypatch.setenv("JOBLOG_OUTBOUND_ALLOW", f"127.0.0.1 127.0.0.1 {server.server_port}")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def asking(server: Server, *, is_async: bool, method: str = "POST", **options: Any) -> Operation[Any, Any]:
    jobs = Jobs()
    if is_async:

        @jobs.job("ask", retry=RetryPolicy(retries=1))
        async def ask(run: Run, args: dict[str, Any]) -> int:
            async def request() -> int:
                return (await run.gate("crm").request(method, f"{server.url}/x", **options)).status

            return await run.step("request", request)

        return ask

    @jobs.job("ask", retry=RetryPolicy(retries=1))
    def ask_in_a_thread(run: SyncRun, args: dict[str, Any]) -> int:
        return run.step("request", lambda: run.gate("crm").request(method, f"{server.url}/x", **options).status)

    return ask_in_a_thread


BOTH = pytest.mark.parametrize("is_async", [True, False], ids=["async", "thread"])


@BOTH
def test_a_request_waits_exactly_as_long_as_it_is_told_and_bears_one_key(server: Server, *, is_async: bool) -> None:
    lab = Lab()
    began = lab.clock.now()
    server.answers.append((429, {"Retry-After": "300"}))

    job = lab.run(asking(server, is_async=is_async), {})

    assert (job.status, job.result, job.failures) == (Status.COMPLETED, 200, 1)
    assert (lab.clock.now() - began).total_seconds() == 300
    keys = {headers["Idempotency-Key"] for _, _, headers in server.seen}
    assert (len(server.seen), len(keys)) == (2, 1)
    [state] = lab.store.gates("crm")
    assert state.row.closed_by == str(job.id)


@BOTH
def test_a_closed_gate_lets_no_request_out(server: Server, *, is_async: bool) -> None:
    lab = Lab()
    lab.store.close_gate("crm", lab.store.now() + 60_000_000, by="a", reason="")
    operation = asking(server, is_async=is_async)
    job_id = operation.submit(lab.log, {}).job_id
    [held] = lab.log.claim("lab")
    lab.execute(operation, held)

    assert lab.log.job(job_id).reason == "gate"
    assert server.seen == []
    assert lab.finish(operation, job_id).status is Status.COMPLETED


def test_gat_07_a_redirect_passes_the_gate_again(server: Server) -> None:
    from joblog.workers.outbound.limits import Limits

    lab = Lab()
    entered: list[str] = []
    enter = lab.store.enter_gate

    def counted(entry: GateEntry) -> GateAnswer:
        entered.append(entry.gate)
        return enter(entry)

    lab.store.enter_gate = counted  # type: ignore[method-assign]
    lab.store.set_gate("crm", 1, 0)  # without limits there is nothing to enter
    server.answers.append((302, {"Location": f"{server.url}/y"}))

    job = lab.run(asking(server, is_async=True, method="GET", limits=Limits(redirects=1)), {})

    assert (job.result, entered) == (200, ["crm", "crm"])
    assert "Idempotency-Key" not in server.seen[0][2]


@pytest.mark.parametrize(("status", "ends"), [(400, "http-400"), (404, "http-404")])
def test_a_verdict_is_one_request(server: Server, status: int, ends: str) -> None:
    lab = Lab()
    server.answers.append((status, {"Retry-After": "5"}))

    job = lab.run(asking(server, is_async=True), {})

    assert (job.status, job.reason, len(server.seen)) == (Status.FAILED, ends, 1)


@BOTH
def test_a_missing_credential_pauses_the_job_and_nothing_is_sent(server: Server, *, is_async: bool) -> None:
    lab = Lab()
    jobs = Jobs()
    if is_async:

        @jobs.job("ask")
        async def ask(run: Run, args: dict[str, Any]) -> int:
            gate = run.gate("crm", credential="env:NO_SUCH_TOKEN", hosts=("127.0.0.1",))
            return (await gate.request("GET", server.url)).status

    else:

        @jobs.job("ask")
        def ask_in_a_thread(run: SyncRun, args: dict[str, Any]) -> int:
            gate = run.gate("crm", credential="env:NO_SUCH_TOKEN", hosts=("127.0.0.1",))
            return gate.request("GET", server.url).status

    job = lab.run(jobs.get("ask"), {})

    assert (job.status, job.reason, server.seen) == (Status.PAUSED, "credential-missing", [])
    assert "NO_SUCH_TOKEN" in job.reason_text


@pytest.mark.parametrize("saved", [True, False])
def test_sec_05_after_a_restart_the_owners_saved_credential_is_used_or_the_job_pauses(
    server: Server, sqlite_url: str, monkeypatch: pytest.MonkeyPatch, *, saved: bool
) -> None:
    monkeypatch.setenv("JOBLOG_SECRET_KEY", new_key())
    monkeypatch.setenv("SESSION_TOKEN", "of-the-session-0001")
    jobs = Jobs()

    @jobs.job("ask")
    async def ask(run: Run, args: dict[str, Any]) -> list[int]:
        gate = run.gate("crm", credential=("env:SESSION_TOKEN", f"cred:crm/{run.owner}"), hosts=("127.0.0.1",))

        async def request() -> int:
            return (await gate.request("GET", server.url)).status

        return [await run.step(name, request) for name in ("first", "second")]

    with JobLog.open(sqlite_url) as log:
        if saved:
            Secrets(os.environ, log.store).keep("crm/ada", "of-ada-and-kept-0001")
        job_id = ask.submit(log, {}, owner="ada").job_id
        with armed("unit.recorded", stopping := Stopping()):
            executed(log, jobs, stopping)
        monkeypatch.delenv("SESSION_TOKEN")  # the next worker is started without it
        executed(log, jobs, Stopping(never=True))
        job = log.job(job_id)
        gates = [state.row.gate for state in log.store.gates()]

    sent = [headers["Authorization"] for _, _, headers in server.seen]
    if saved:
        assert (job.status, job.result) == (Status.COMPLETED, [200, 200])
        assert sent == ["Bearer of-the-session-0001", "Bearer of-ada-and-kept-0001"]
    else:
        assert (job.status, job.reason, job.done) == (Status.PAUSED, "credential-missing", 1)
        assert "cred:crm/ada" in job.reason_text
        assert sent == ["Bearer of-the-session-0001"]
    assert gates == []  # it has no limits: nothing is written


class Stopping:
    """Asks the running job to stop at its next boundary."""

    def __init__(self, *, never: bool = False) -> None:
        self._never = never
        self.execution: Execution | None = None

    def __call__(self) -> None:
        if self.execution is not None and not self._never:
            self.execution.control.ask("shutdown")


def executed(log: JobLog, jobs: Jobs, stopping: Stopping) -> None:
    """One claim of each job that is due."""
    for held in log.claim("w"):
        with ThreadPoolExecutor(2) as pool:
            stopping.execution = Execution(log, held, jobs, pool, pool)
            asyncio.run(stopping.execution.run())


def test_several_credentials_that_are_sent_nowhere_are_refused() -> None:
    lab = Lab()
    jobs = Jobs()

    @jobs.job("ask")
    async def ask(run: Run, args: dict[str, Any]) -> None:
        run.gate("crm", credential=("env:A", "env:B"))

    assert lab.run(ask, {}).reason == "invalid-field"
