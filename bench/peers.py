"""Side by side with other job systems: a table of what a harness of such benchmarks wrote with ``adapter.py`` in it.

    .venv/bin/python bench/peers.py results.jsonl [more.jsonl ...] --versions "dbos 3.4.0, absurd-sdk 0.5.1"

Reads JSON lines (see ``SHOWN``) and writes ``PEERS.md``.  A cell is the median (lowest to highest, samples); behind it stands
what share of all CPU time other programs used meanwhile, where that was measured.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

ROOT: Final = Path(__file__).resolve().parent.parent
for folder in (ROOT / "src", ROOT):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from bench.report import machine  # noqa: E402 - the paths come first

OURS: Final = ("joblog_pg", "joblog_sqlite")
Sample = dict[str, Any]


class Row(NamedTuple):
    """One line of the table: its name, the samples that belong to it, and the figure of one."""

    name: str
    fits: Callable[[Sample], bool]
    figure: Callable[[Sample], float | None]
    form: str = "{:,.0f}"


def _of(workload: str, **wanted: Any) -> Callable[[Sample], bool]:
    return lambda one: one["w"] == workload and all(one.get(name) == value for name, value in wanted.items())


def _field(name: str) -> Callable[[Sample], float | None]:
    return lambda one: one.get(name)


SHOWN: Final = (
    Row("single submits a second", _of("W1", mode="single"), _field("jobs_s")),
    Row("submits in bulk, jobs a second", _of("W1", mode="bulk"), _field("jobs_s")),
    Row("drain of no-op jobs a second, 1 process", _of("W2", procs=1), _field("jobs_s")),
    Row("drain, 2 processes", _of("W2", procs=2), _field("jobs_s")),
    Row("durable units a second, 10 jobs, 1 process", _of("W3", procs=1), _field("units_s")),
    Row("durable units, 10 jobs, 2 processes", _of("W3", procs=2), _field("units_s")),
    Row("durable units, one job alone", _of("W3b"), _field("units_s")),
    Row("pickup by an idle worker, p50 ms", _of("W4"), _field("p50"), "{:.1f}"),
    Row("pickup, p99 ms", _of("W4"), _field("p99"), "{:.1f}"),
    Row("resume behind many done units: replay, s", _of("W5"), _field("replay_s"), "{:.3f}"),
    Row("resume: bodies that ran again", _of("W5"), _field("reexecuted")),
    Row("takeover after SIGKILL of a worker, s", _of("W5c"), lambda one: one["reclaim_s"] or float("inf"), "{:.1f}"),
    Row("idle worker, CPU s a minute", _of("W6"), _field("cpu_s_min"), "{:.2f}"),
    Row("idle worker, MB resident", _of("W6"), _field("rss_mb")),
    Row("drain beside no finished jobs", _of("W7", hist=0), _field("jobs_s")),
    Row("drain beside many finished jobs", lambda one: one["w"] == "W7" and one["hist"] > 0, _field("jobs_s")),
    Row("CPU ms a job in Python, drain, 1 process", _of("W2", procs=1), _field("py_ms"), "{:.2f}"),
    Row("CPU ms a job in PostgreSQL, drain, 1 process", _of("W2", procs=1), _field("pg_ms"), "{:.2f}"),
)


def cell(samples: list[Sample], row: Row) -> str:
    """What one peer did."""
    found = [value for one in samples if row.fits(one) and (value := row.figure(one)) is not None]
    if not found:
        return ""
    middle, low, high = statistics.median(found), min(found), max(found)
    if middle == float("inf"):
        return "not within the watch"
    text = row.form.format(middle)
    if len(found) > 1:
        text += f" ({row.form.format(low)}–{row.form.format(high)}, {len(found)})"
    shares = [one["foreign"] for one in samples if row.fits(one) and one.get("foreign") is not None]
    return f"{text} [{statistics.median(shares):.0%}]" if shares else text


def table(samples: list[Sample]) -> str:
    """All rows, our two columns first."""
    by_peer: dict[str, list[Sample]] = defaultdict(list)
    for one in samples:
        if "peer" in one and one["w"] != "error":
            by_peer[one["peer"]].append(one)
    peers = [*OURS, *sorted(by_peer.keys() - set(OURS))]
    lines = [f"|  | {' | '.join(peers)} |", f"| --- {'| ---: ' * len(peers)}|"]
    for row in SHOWN:
        cells = [cell(by_peer[peer], row) for peer in peers]
        if any(cells):
            lines.append(f"| {row.name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Read, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--versions", default="", help="of the others, as they were installed")
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "PEERS.md")
    given = parser.parse_args()
    samples = [orjson.loads(line) for file in given.files for line in file.read_bytes().splitlines() if line.strip()]
    about = "\n".join(f"* {name}: {value}" for name, value in (machine() | {"peers": given.versions}).items())
    given.out.write_text(
        f"# Beside others\n\n{about}\n\nMade by `bench/peers.py`: median (lowest–highest, samples) [CPU of other programs meanwhile]."
        f"\n\n{table(samples)}",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
