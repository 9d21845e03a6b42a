"""Where the cost of a unit, of a no-op job and of a submit lies: stage by stage, beside bare SQL that writes the same rows.

    .venv/bin/python bench/costs.py                          # both databases, about 2 minutes
    .venv/bin/python bench/costs.py --only unit --kinds sqlite
    .venv/bin/python bench/costs.py --write                  # and put the tables into bench/COSTS.md

Every run is a process of its own.  Totals come from runs in which nothing is wrapped, statements from one in which they are
counted, stages from one in which the functions are wrapped: what no stage has of the total is the rest.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, Final

ROOT = Path(__file__).resolve().parent.parent
for folder in (ROOT / "src", ROOT):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from bench import report
from bench.cost_runs import WORKS, Run, Work, apart, bare, run
from bench.databases import pair

KINDS: Final = ("sqlite", "postgresql")
ROUNDS: Final = 3
BUSY: Final = 3.0  #: load of a machine that does more than this


def fsync_micros() -> float:
    """What one fdatasync of 4 KiB takes on the disk of the temporary files."""
    taken: list[float] = []
    with tempfile.NamedTemporaryFile() as file:
        for _ in range(200):
            os.write(file.fileno(), b"\0" * 4096)
            start = time.perf_counter()
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - start)
    return median(taken) * 1e6


def measured(kind: str, what: str) -> str:
    """The table of one kind of work on one database, and what it says."""
    work, runs = WORKS[what], dict[str, list[Run]]()
    for mode in (*["plain"] * ROUNDS, "counted", "staged"):
        with pair(kind) as databases:
            runs.setdefault(mode, []).append(apart(run, databases.ours, what, mode))
            if work.group and mode == "staged":
                runs["bare"] = [apart(bare, databases.bare, kind, work.group)]
    total = {name: median(getattr(one, name) for one in runs["plain"]) for name in ("wall", "cpu", "server")}
    staged, statements = runs["staged"][0], runs["counted"][0].statements
    rest = total["cpu"] - sum(cpu for _, cpu, _ in staged.stages.values())
    rows = [(name, f"{calls:.2f}", cpu, waits) for name, (calls, cpu, waits) in staged.stages.items()]
    rows.append(("the rest: loop, tasks, futures, the body", "", rest, float("nan")))
    unit = "round trips" if kind == "postgresql" else "statements of SQLite, in the process"
    lines = [f"## {work.name}, {kind}", "", "| stage | calls | CPU µs | waits µs |", "| --- | ---: | ---: | ---: |"]
    lines += [f"| {name} | {calls} | {cpu * 1e6:.1f} | {_number(waits)} |" for name, calls, cpu, waits in rows]
    lines += [f"| **this process** | | **{total['cpu'] * 1e6:.1f}** | |"]
    served = f"{total['server'] * 1e6:.1f}" if kind == "postgresql" else ""
    lines += [f"| the server's processes | {statements:.2f} {unit} | {served} | |"]
    lines += [f"| **one, by the clock** | | | **{total['wall'] * 1e6:.0f}** |"]
    for one in runs.get("bare", []):
        lines += [
            f"| bare SQL: process, server, clock | | {one.cpu * 1e6:.1f} + {one.server * 1e6:.1f} | {one.wall * 1e6:.0f} |"
        ]
    return "\n".join([*lines, "", reading(work, kind, total, rows, runs.get("bare"))])


def _number(seconds: float) -> str:
    return "" if seconds != seconds else f"{seconds * 1e6:.1f}"  # noqa: PLR0124 - not a number


def reading(work: Work, kind: str, total: dict[str, float], rows: list[Any], yardstick: list[Run] | None) -> str:
    """What the figures say, in words."""
    most = sorted(rows, key=lambda row: -row[2])[:3]
    said = ", ".join(f"{name} ({cpu * 1e6:.0f} µs, {cpu / total['cpu']:.0%})" for name, _, cpu, _ in most)
    at_work = total["cpu"] + total["server"]
    text = f"{1 / total['wall']:,.0f} a second. The most of this process' CPU: {said}."
    if total["wall"] > at_work:
        text += (
            f" {(1 - at_work / total['wall']):.0%} of the time nobody of ours computes: disk, wake-ups, other programs."
        )
    else:
        text += f" Process and server work side by side: {at_work / total['wall']:.2f} processors' worth."
    if yardstick:
        text += f" Bare SQL of the same rows takes {yardstick[0].wall / total['wall']:.0%} of our time."
    if floor := work.floors.get(kind):
        gap = total["wall"] * 1e6 - 1e6 / floor
        text += f" The floor, {floor:,} a second, leaves {1e6 / floor:.0f} µs: "
        text += f"{gap:.0f} µs must go." if gap > 0 else f"reached, with {-gap:.0f} µs to spare."
    return text


def main() -> int:
    """Measure and print."""
    from tests import postgres_server

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(WORKS))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--write", action="store_true", help="write bench/COSTS.md")
    chosen = parser.parse_args()
    parts: list[str] = []
    postgres_server.share()
    try:
        for what in chosen.only.split(","):
            for kind in chosen.kinds.split(","):
                parts.append(measured(kind, what))
                print(f"{parts[-1]}\n", flush=True)
    finally:
        postgres_server.release()
    if chosen.write:
        about = "\n".join(f"* {name}: {value}" for name, value in report.machine().items())
        how = (__doc__ or "").rpartition("\n\n")[2].replace("\n", " ").strip()
        busy = (
            ""
            if os.getloadavg()[0] < BUSY
            else " Other programs used the machine meanwhile: what is by the clock says little."
        )
        head = f"# Where the cost lies\n\n{about}\n* fdatasync of 4 KiB: {fsync_micros():.0f} µs\n\nMade by `bench/costs.py`. {how}{busy}"
        (ROOT / "bench" / "COSTS.md").write_text("\n\n".join([head, *parts]) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
