"""Operations for tests with real worker processes; their effects go to a file outside the log, a line each."""

from __future__ import annotations

import http.client
import os
import signal
import threading
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from joblog.eventstore.clock import SystemClock
from joblog.workers.errors import RetryLater
from joblog.workers.process_unit import in_process
from joblog.workers.registry import Jobs
from joblog.workers.run import Run, SyncRun
from joblog.workers.sources import ListSource

CLOCK = SystemClock()
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


def is_open(args: dict[str, Any]) -> bool:
    """Whether the test lets jobs go on that wait for it."""
    return Path(args["gate"]).exists()


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


@jobs.job("call")
async def call(run: Run, args: dict[str, Any]) -> int:
    """Hands its key on, as to a provider."""
    await run.step("s0", lambda: effect(args, f"call-{run.unit_id}"))
    await run.step("s1", effect, args, "after")
    return 1


@jobs.job("halves")
def halves(run: SyncRun, args: dict[str, Any]) -> int:
    """Its effect has two halves, and its first process dies between them."""

    def both() -> str:
        half, whole = Path(f"{args['effects']}.half"), Path(f"{args['effects']}.whole")
        died = half.exists()
        half.write_text("first,", encoding="utf-8")
        if not died:
            os.kill(os.getpid(), signal.SIGKILL)
        half.write_text("first,second", encoding="utf-8")
        half.replace(whole)
        return whole.read_text(encoding="utf-8")

    run.step("both", both)
    return 1


@jobs.job("child")
async def child(run: Run, args: dict[str, Any]) -> int:
    await run.step("c0", effect, args, "c0")
    while not is_open(args):
        await run.sleep(0.05)
    return 7


@jobs.job("parent")
async def parent(run: Run, args: dict[str, Any]) -> int:
    """Goes on when its child has ended."""
    made = await run.spawn(child, args, key="only")
    found = await made.result()
    await run.step("after", effect, args, "after")
    return found


@jobs.job("blocked")
async def blocked(run: Run, args: dict[str, Any]) -> int:
    """Blocks the event loop."""
    await run.step("s0", block, args, "blocked")
    return 1


@jobs.job("blocked-thread")
def blocked_thread(run: SyncRun, args: dict[str, Any]) -> int:
    run.step("s0", block, args, "blocked")
    return 1


@jobs.job("blocked-process")
def blocked_process(run: SyncRun, args: dict[str, Any]) -> int:
    run.step("s0", in_process(block), args, "blocked")
    return 1


def block(args: dict[str, Any], what: str) -> str:
    """As long as ``args`` say; interrupts nothing and can't be interrupted."""
    effect(args, what)
    threading.Event().wait(args.get("seconds", 600))
    return what


@jobs.job("busy")
async def busy(run: Run, args: dict[str, Any]) -> int:
    """Keeps the interpreter busy in the event loop."""

    def count() -> str:
        until = CLOCK.monotonic() + args["seconds"]
        while CLOCK.monotonic() < until:
            sum(range(10_000))
        return effect(args, "busy")

    await run.step("s0", count)
    return 1


@jobs.job("napping")
async def napping(run: Run, args: dict[str, Any]) -> int:
    """Waits in its slot, and then durably."""
    await run.step("s0", effect, args, "s0")
    for _ in range(200):
        await run.sleep(1.0)
    return 1


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
ASKED_STRICTLY = jobs.gate("asked-strictly", spacing=0.06, one_by_one=True)


def _asking(run: SyncRun, gate: str, port: int) -> int:
    def request() -> int:
        with run.gate(gate) as turn:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            try:
                connection.request("POST", "/", headers={"X-Turn": turn.at.isoformat()})
                return connection.getresponse().status
            finally:
                connection.close()

    return run.step("request", request)


@jobs.job("ask", gate=ASKED)
def ask(run: SyncRun, args: dict[str, Any]) -> int:
    """One request to a provider, which is told the instant at which it was let go."""
    return _asking(run, ASKED, args["port"])


@jobs.job("ask-strictly", gate=ASKED_STRICTLY)
def ask_strictly(run: SyncRun, args: dict[str, Any]) -> int:
    """As ``ask``, at a gate that lets no two requests arrive closer than its spacing."""
    return _asking(run, ASKED_STRICTLY, args["port"])


if armed := os.environ.get("JOBLOG_TEST_ARMED"):  # a worker that is started by its own command
    from tests.acceptance.run_worker import arm

    arm(*armed.split(":"))
