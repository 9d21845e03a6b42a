"""An author's own file under ``mypy --strict``: right use passes, wrong use is found where it stands."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
RIGHT = """
from dataclasses import dataclass

from joblog import JobLog
from joblog.workers.registry import Jobs
from joblog.workers.run import Run, SyncRun
from joblog.workers.sources import ListSource

jobs = Jobs()


@dataclass
class Order:
    number: int
    lines: list[str]


def weigh(line: str) -> int:
    return len(line)


async def told(line: str) -> int:
    return len(line)


@jobs.job("order.weigh", units_per_commit=10)
async def total(run: Run, args: Order) -> int:
    first: int = await run.step("first", weigh, args.lines[0])
    later: int = await run.step("later", told, args.lines[0])
    await run.step("once more", told, str(later))
    async for item in run.items("lines", args.lines):
        await item.once("weighed", weigh, item.value)
        await item.once("told", told, item.value)
    async for batch in run.batches("lines", ListSource(args.lines), size=2):
        batch.tally("weight", sum(weigh(line) for line in batch))
    return first + run.total("weight")


@jobs.job("order.parent")
def parent(run: SyncRun, args: Order) -> int:
    child = run.spawn(total, args, key="only")
    return child.result() + 1


def submit(log: JobLog) -> None:
    answer = total.submit(log, Order(1, ["a"]), key="o-1")
    print(answer.job_id.hex, answer.created)
"""
WRONG = """

@jobs.job("wrong.async")
async def wrong(run: Run, args: Order) -> None:
    text: str = await run.step("first", weigh, args.lines[0])
    print(text)
    other: str = await run.step("second", told, args.lines[0])
    print(other)


def submit_wrong(log: JobLog) -> None:
    total.submit(log, "no order")
    total.submit(log, Order(1, []), key=7)


@jobs.job("wrong.child")
async def wrong_child(run: Run, args: Order) -> str:
    child = await run.spawn(total, args, key="only")
    await run.spawn(total, args.lines, key="other")
    return await child.result()


@jobs.job("wrong.option", unit_per_commit=10)
async def wrong_option(run: Run, args: Order) -> None:
    ...
"""


def mypy(file: Path) -> tuple[int, str]:
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(file)]
    cache = ["--cache-dir", str(ROOT / ".mypy_cache" / "user")]
    environment = {"MYPYPATH": str(ROOT / "src"), "PATH": ""}
    done = subprocess.run(
        [*command, *cache], capture_output=True, text=True, timeout=300, check=False, env=environment, cwd=file.parent
    )
    return done.returncode, done.stdout


def test_right_use_passes(tmp_path: Path) -> None:
    (file := tmp_path / "orders.py").write_text(RIGHT, encoding="utf-8")

    assert mypy(file) == (0, "")


def test_wrong_use_is_found_where_it_stands(tmp_path: Path) -> None:
    (file := tmp_path / "orders.py").write_text(RIGHT + WRONG, encoding="utf-8")
    start = RIGHT.count("\n")

    code, said = mypy(file)

    lines = {int(line.split(":")[1]) - start for line in said.splitlines() if ": error:" in line}
    assert (code, lines) == (1, {5, 7, 12, 13, 19, 20, 23})
