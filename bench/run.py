"""Measures the append path and claims on both databases.

    .venv/bin/python bench/run.py              # everything: about 15 minutes
    .venv/bin/python bench/run.py --quick      # fewer and shorter rounds: about 3 minutes
    .venv/bin/python bench/run.py --write      # and put the table into bench/RESULTS.md

The two sides of a comparison run in turn, in rounds of some seconds, and what counts is the median of the rounds' ratios:
it holds on a machine that does other things besides, the absolute figures do not.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
for folder in (ROOT / "src", ROOT):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.crew import Figure

RESULTS = ROOT / "bench" / "RESULTS.md"


def settings() -> argparse.Namespace:
    """What to measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("append", "claims"), help="one part")
    parser.add_argument("--kinds", default="sqlite,postgresql", help="which databases")
    parser.add_argument("--processes", default="1,3")
    parser.add_argument("--delays", default="0,0.002", help="seconds added to each commit")
    parser.add_argument("--modes", default="groups,tasks")
    parser.add_argument("--sizes", default="1,10,64")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5, help="of a round")
    parser.add_argument("--folder", help="where the SQLite files lie; TMPDIR also moves PostgreSQL")
    parser.add_argument("--quick", action="store_true", help="3 rounds of half a second")
    parser.add_argument("--write", action="store_true", help="write bench/RESULTS.md")
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.rounds, chosen.seconds = 3, 0.5
    return chosen


def figures(chosen: argparse.Namespace) -> Iterator[Figure]:
    """All that was asked for, one after another."""
    from bench import append, claims

    common: dict[str, Any] = {"rounds": chosen.rounds, "seconds": chosen.seconds, "folder": chosen.folder}
    sizes = tuple(int(size) for size in chosen.sizes.split(","))
    modes = tuple(chosen.modes.split(","))
    for kind in chosen.kinds.split(","):
        for processes in (int(count) for count in chosen.processes.split(",")):
            if chosen.only != "claims":
                for delay in (float(seconds) for seconds in chosen.delays.split(",")):
                    more: dict[str, Any] = {"delay": delay, "modes": modes, "sizes": sizes}
                    yield from append.figures(kind, processes=processes, **more, **common)
            if chosen.only != "append":
                yield from claims.figures(kind, processes=processes, **common)


def main() -> int:
    """Measure, print, and say by the exit code whether all of it is good enough."""
    from tests import postgres_server

    from bench import claims, report

    chosen = settings()
    found: list[Figure] = []
    postgres_server.share()
    try:
        for figure in figures(chosen):
            found.append(figure)
            print(report.line(figure), flush=True)
    finally:
        postgres_server.release()
    slow = [
        figure.name
        for figure in found
        if figure.is_slower or ("claims" in figure.name and figure.ours < claims.REQUIRED)
    ]
    about = report.machine()
    print("\n".join(f"{name}: {value}" for name, value in about.items()))
    print(f"below what is required: {'; '.join(slow) or 'nothing'}")
    if chosen.write:
        head = "# Measured\n\n" + "\n".join(f"* {name}: {value}" for name, value in about.items())
        RESULTS.write_text(f"{head}\n\n{report.markdown(found)}", encoding="utf-8")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
