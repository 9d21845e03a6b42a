"""SEC-01, TST-16, TST-17: a secret goes through everything that can go wrong, then everything written is searched for it."""

import asyncio
import base64
import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import sqlalchemy as sa

from joblog.domain import withheld
from joblog.domain.retry import RetryPolicy
from joblog.workers.commands.log import JobLog
from joblog.workers.errors import Fatal, NeedsOperator, RetryLater
from joblog.workers.outbound.secrets import Secrets
from joblog.workers.outbound.settings import client_for, credential_for
from joblog.workers.process_unit import in_process
from joblog.workers.registry import Jobs
from joblog.workers.run import Run, SyncRun
from tests.api.cli.terminal import joblog
from tests.workers.outbound import servers
from tests.workers.outbound.servers import answer, serving
from tests.workers.outbound.working import run_all

CANARY = 'c4n4ry-"v/77+\\x'
OTHER = "an0ther-secret-77"
MARKER = b"r3sp0nse-body-marker"


@pytest.fixture(autouse=True)
def _nothing_is_known_afterwards() -> Iterator[None]:
    yield
    withheld.forget()


def forms(secret: str) -> dict[str, bytes]:
    """Every form that is looked for, made without the code under test."""
    raw = secret.encode()
    found = {"raw": raw, "json": json.dumps(secret)[1:-1].encode(), "percent": quote(secret, safe="").encode()}
    found |= {"json in UTF-8": json.dumps(secret, ensure_ascii=False)[1:-1].encode()}
    found |= {"hex": raw.hex().encode(), "HEX": raw.hex().upper().encode()}
    found |= {"UTF-16LE": secret.encode("utf-16-le"), "UTF-16BE": secret.encode("utf-16-be")}
    for offset in range(3):
        # What is the same whatever stands around it: without the characters that neighbours have a part in.
        whole = base64.b64encode(b"\0" * offset + raw + b"\0" * 3).decode()
        found[f"base64 at {offset}"] = whole[(0, 2, 3)[offset] : (offset + len(raw)) * 8 // 6].encode()
    return found


def leaked(environ: dict[str, str]) -> dict[str, str]:
    """A unit in a process of its own: only there the value is known."""
    return {"token": Secrets(environ).resolve("env:OTHER").reveal()}


def raised(environ: dict[str, str]) -> None:
    raise Fatal("bad", leaked(environ)["token"])


def operations(environ: dict[str, str], url: str) -> Jobs:  # noqa: C901 - a list of functions
    """One kind for each way in which a secret gets out by mistake."""
    jobs = Jobs()
    once = RetryPolicy(first_seconds=0, retries=1)

    def secret(run: SyncRun) -> str:
        return Secrets(environ, run._book.log.store).resolve("env:TOKEN").reveal()

    @jobs.job("result", retry=once)
    def result(run: SyncRun, args: dict[str, Any]) -> dict[str, str]:
        return {"token": secret(run)}

    @jobs.job("evidence", retry=once)
    def evidence(run: SyncRun, args: dict[str, Any]) -> None:
        run.step("fetch", lambda: base64.b64encode(f"user:{secret(run)}".encode()).decode())

    @jobs.job("items", retry=once)
    def items(run: SyncRun, args: dict[str, Any]) -> None:
        for item in run.items("files", [secret(run).encode().hex()]):
            item.once("x", str)

    @jobs.job("tally", retry=once)
    def tally(run: SyncRun, args: dict[str, Any]) -> None:
        run.tally(secret(run))
        run.step("a", int)

    @jobs.job("bare-error", retry=once)
    def bare_error(run: SyncRun, args: dict[str, Any]) -> None:
        raise ValueError(f"bad login {secret(run)!r} at https://u:{quote(secret(run), safe='')}@host/")

    @jobs.job("later", retry=once)
    def later(run: SyncRun, args: dict[str, Any]) -> None:
        raise RetryLater("busy", secret(run))

    @jobs.job("fatal", retry=once)
    def fatal(run: SyncRun, args: dict[str, Any]) -> None:
        raise Fatal("bad", "x" * 490 + secret(run), token=secret(run))

    @jobs.job("process-result", retry=once)
    def process_result(run: SyncRun, args: dict[str, Any]) -> None:
        run.step("fetch", in_process(leaked), environ)

    @jobs.job("process-error", retry=once)
    def process_error(run: SyncRun, args: dict[str, Any]) -> None:
        run.step("fetch", in_process(raised), environ)

    @jobs.job("unit", retry=once)
    def unit(run: SyncRun, args: dict[str, Any]) -> None:
        run.step(secret(run), int)

    @jobs.job("code", retry=once)
    def code(run: SyncRun, args: dict[str, Any]) -> None:
        raise Fatal(secret(run))

    @jobs.job("operator", retry=once)
    def operator(run: SyncRun, args: dict[str, Any]) -> None:
        raise NeedsOperator("missing", secret(run).encode().hex().upper())

    @jobs.job("request", retry=once)
    async def request(run: Run, args: dict[str, Any]) -> None:
        log = run._book.log
        credential = credential_for(log, environ, "env:TOKEN", "127.0.0.1", header="X-Token", prefix="")
        async with client_for(log, environ) as client:
            await client.request("POST", url, json={"a": 1}, credential=credential, unit_id=run.unit_id)

    return jobs


async def echo(asked: servers.Asked, writer: Any) -> None:
    """A provider that repeats the token in its error, and says more than anybody wants to keep."""
    [token] = asked.all("x-token")
    body = f"your token {token} is bad: ".encode("latin-1") + MARKER * 100
    writer.write(answer(400, body, ("X-Echo", token)))
    await writer.drain()


def test_no_form_of_a_secret_is_anywhere_in_what_is_written(database_url: str, tmp_path: Path) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logging.getLogger("joblog").addHandler(handler)
    try:
        with JobLog.open(database_url) as log:
            statuses, asked = work(log)
            said = shown(database_url)
            stored = contents(log, database_url)
    finally:
        logging.getLogger("joblog").removeHandler(handler)
    on_disk = b"".join(path.read_bytes() for path in sorted(tmp_path.iterdir()) if path.is_file())
    everything = {
        "log": stream.getvalue().encode("utf-8", "surrogateescape"),
        "cli": said,
        "rows": stored,
        "files": on_disk,
    }

    assert len(asked) == 1  # the request itself did carry it
    assert asked[0].all("x-token") == [CANARY]
    assert statuses.keys() == set(KINDS)
    assert statuses["later"] == statuses["operator"] == "paused"
    assert {
        statuses[kind] for kind in ("result", "evidence", "items", "tally", "unit", "code", "fatal", "request")
    } == {"failed"}
    for place, data in everything.items():
        for secret in (CANARY, OTHER):
            for form, needle in forms(secret).items():
                assert needle not in data, f"{form} of {secret[:7]} in {place}"
        assert data.count(MARKER) <= 10 * 20, place  # an excerpt may hold its begin, never the body
    assert b"env:TOKEN" in stored


KINDS = (
    "result",
    "evidence",
    "items",
    "tally",
    "unit",
    "code",
    "process-result",
    "process-error",
    "bare-error",
    "later",
    "fatal",
    "operator",
    "request",
)


def work(log: JobLog) -> tuple[dict[str, str], list[servers.Asked]]:
    """Run one job of each kind to its end."""

    async def scene() -> tuple[dict[str, str], list[servers.Asked]]:
        async with serving(echo) as server:
            environ = {"TOKEN": CANARY, "OTHER": OTHER, "JOBLOG_OUTBOUND_ALLOW": f"127.0.0.1 127.0.0.1 {server.port}"}
            jobs = operations(environ, server.url)
            ids = {kind: log.submit(jobs.spec(kind, {})).job_id for kind in KINDS}
            statuses = await asyncio.to_thread(run_all, log, jobs, ids)
            return statuses, server.asked

    return servers.run(scene())


def shown(url: str) -> bytes:
    """All that the command line tells of it."""
    said = [joblog("--db", url, "list", "--json"), joblog("--db", url, "list")]
    for item in said[0].document["items"]:
        said += [
            joblog("--db", url, *args) for args in (("show", item["id"], "--events", "--json"), ("why", item["id"]))
        ]
    return "".join(answer.out + answer.err for answer in said).encode()


def contents(log: JobLog, url: str) -> bytes:
    """Every value of every table."""
    engine = getattr(log.store, "engine", None) or sa.create_engine(url)
    found = bytearray()
    with engine.connect() as connection:
        for table in sa.inspect(connection).get_table_names():
            for row in connection.exec_driver_sql(f'SELECT * FROM "{table}"'):
                for value in row:
                    found += (
                        bytes(value)
                        if isinstance(value, bytes | memoryview)
                        else str(value).encode("utf-8", "surrogatepass")
                    )
                    found += b"\n"
    return bytes(found)
