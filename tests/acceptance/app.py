"""Operations for tests with real worker processes; their effects go to a file outside the log, a line each."""

from __future__ import annotations

import http.client
import os
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from joblog.workers.errors import RetryLater
from joblog.workers.registry import Jobs
from joblog.workers.run import Run, SyncRun
from joblog.workers.sources import ListSource

jobs = Jobs()
UNITS = 5


def effect(args: dict[str, Any], what: str) -> str:
    """Something outside: appended in one write, never taken back."""
    fd = os.open(args["effects"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(fd, f"{what}\n".encode())
    finally:
        os.close(fd)
    return what


def effects(path: Path) -> list[str]:
    """What has happened outside, in order."""
    return path.read_text(encoding="utf-8").split() if path.exists() else []


@jobs.job("steps")
async def steps(run: Run, args: dict[str, Any]) -> int:
    for number in range(UNITS):
        await run.step(f"s{number}", effect, args, f"s{number}")
    return UNITS


@jobs.job("steps-sync")
def steps_sync(run: SyncRun, args: dict[str, Any]) -> int:
    for number in range(UNITS):
        run.step(f"s{number}", effect, args, f"s{number}")
    return UNITS


@jobs.job("items")
async def items(run: Run, args: dict[str, Any]) -> int:
    async for item in run.items("files", [f"f{number}" for number in range(3)]):
        await item.once("copied", effect, args, f"{item.value}-copied")
        await item.once("removed", effect, args, f"{item.value}-removed")
    return 3


@jobs.job("rows", guarantee="exactly-once")
def rows(run: SyncRun, args: dict[str, Any]) -> int:
    """Rows into the log's own database."""
    for batch in run.batches("rows", ListSource(list(range(UNITS * 10))), size=10):
        with batch.atomic() as connection:
            connection.execute(sa.text("INSERT INTO target (n) VALUES (:n)"), [{"n": n} for n in batch])
            batch.tally("rows", len(batch))
    return run.total("rows")


@jobs.job("elsewhere", guarantee="exactly-once")
def elsewhere(run: SyncRun, args: dict[str, Any]) -> int:
    """Rows into another database, with a mark there."""
    engine = sa.create_engine(args["target"], poolclass=sa.NullPool)
    for batch in run.batches("rows", ListSource(list(range(UNITS * 10))), size=10, into=engine):
        with batch.atomic() as connection:
            connection.execute(sa.text("INSERT INTO target (n) VALUES (:n)"), [{"n": n} for n in batch])
            batch.tally("rows", len(batch))
    return run.total("rows")


@jobs.job("flaky")
async def flaky(run: Run, args: dict[str, Any]) -> int:
    """Fails in its first attempt, for a passing cause."""
    await run.step("s0", effect, args, "s0")
    if effects(Path(args["effects"])).count("try") == 0:
        effect(args, "try")
        raise RetryLater("not-yet", category="provider")
    return 1


@jobs.job("poison")
async def poison(run: Run, args: dict[str, Any]) -> int:
    """Kills whoever runs it."""
    await run.step("s0", effect, args, "s0")
    effect(args, "death")
    os.kill(os.getpid(), 9)
    return 0


@jobs.job("slow")
def slow(run: SyncRun, args: dict[str, Any]) -> int:
    """Waits in its first unit until it may go on."""
    gate = Path(args["gate"])

    def wait() -> str:
        effect(args, "waiting")
        while not gate.exists():
            run._book.control.wait(0.02)
        return "went on"

    run.step("wait", wait)
    run.step("after", effect, args, "after")
    return 1


ASKED = jobs.gate("asked", slots=4, spacing=0.12)


@jobs.job("ask", gate=ASKED)
def ask(run: SyncRun, args: dict[str, Any]) -> int:
    """One request to a provider, which is told the instant at which it was let go."""

    def request() -> int:
        with run.gate(ASKED) as turn:
            connection = http.client.HTTPConnection("127.0.0.1", args["port"], timeout=30)
            try:
                connection.request("POST", "/", headers={"X-Turn": turn.at.isoformat()})
                return connection.getresponse().status
            finally:
                connection.close()

    return run.step("request", request)
