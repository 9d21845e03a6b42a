"""What the service costs, in one run each:

    .venv/bin/python bench/service.py rates      # requests and submits a second beside a bare aiohttp handler with the same store call
    .venv/bin/python bench/service.py pages      # server time of every screen and list over 1,000,000 jobs, at any depth
    .venv/bin/python bench/service.py paint      # when a real Chromium has painted each screen, over the same log
    .venv/bin/python bench/service.py streams    # 200 followers by server-sent events, 10 messages a second each
    .venv/bin/python bench/service.py pages paint --ledger    # 1,000,000 jobs: some eight minutes to seed, for each database
    .venv/bin/python bench/service.py all --ledger

``--kinds sqlite,postgresql``, ``--jobs N``, ``--url`` for a log that is seeded already (tests/scale/seed.py), ``--seconds`` for
each rate.  With ``--ledger`` each part adds a line to docs/evidence.jsonl.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
for folder in (ROOT / "src", ROOT):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from bench.scale import database, keep

LONGEST_PAINT = 300.0  #: milliseconds, 95th percentile of each screen, on loopback
LONGEST_SEARCH = 200.0  #: the same of a search for any text in the recovery report, which reads all of it
LONGEST_PAGE = 20.0  #: milliseconds, 95th percentile of each route
LEAST_RATIO = 0.5  #: to the bare handler
FOLLOWERS, MESSAGES = 200, 10


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def admitted(url: str) -> str:
    """A token that opens everything."""
    from joblog.api.http import auth
    from joblog.eventstore import tokens
    from joblog.workers.commands.log import JobLog

    with JobLog.open(url) as log:
        token, row = auth.minted(name=f"bench-{log.ids.next()}", scopes=["admin"], now=log.store.now())
        tokens.add(log.store, row)
    return token


# -- rates -------------------------------------------------------------------------------------------------------------


def rates(kind: str, chosen: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    from bench import service_rates

    with database(kind) as url:
        found = service_rates.compare(url, admitted(url), chosen.seconds)
    wrong = [
        f"{name} is {value}x the bare handler"
        for name, value in found.items()
        if "ratio" in name and value < LEAST_RATIO
    ]
    return found, wrong


# -- pages -------------------------------------------------------------------------------------------------------------


def pages(kind: str, chosen: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    from bench.service_pages import measure

    url = seeded(kind, chosen)
    return judged(chosen.jobs, measure(url, admitted(url), chosen.jobs, say))


def seeded(kind: str, chosen: argparse.Namespace) -> str:
    """The log that was given, or one that is made for all parts that need one."""
    from tests.scale.seed import seed

    if not chosen.url:
        chosen.url = chosen.open.enter_context(database(kind))
        events, seconds = seed(chosen.url, chosen.jobs, tell=say)
        say(f"seeded {events:,} events in {seconds:.0f} s")
    return str(chosen.url)


def judged(jobs: int, found: dict[str, list[Took]]) -> tuple[dict[str, Any], list[str]]:
    wall = {name: tail([one.wall for one in took]) for name, took in found.items()}
    cpu = {name: tail([one.cpu for one in took]) for name, took in found.items()}
    longest = {name: LONGEST_SEARCH if "searched" in name else LONGEST_PAGE for name in wall}
    slow = {name: round(value, 1) for name, value in wall.items() if value >= longest[name]}
    for name in sorted(wall, key=lambda one: -wall[one]):
        say(
            f"{wall[name]:9.2f} ms p95 {cpu[name]:9.2f} ms of processors p95 {middle(found[name]):9.2f} ms median  {name}"
        )
    worst, dearest = (max(one, key=lambda name: one[name]) for one in (wall, cpu))
    figures = {
        "jobs": jobs,
        "routes": len(found),
        "requests": sum(map(len, found.values())),
        "median_ms": round(middle([one for took in found.values() for one in took]), 2),
    }
    figures |= {
        "worst_p95_ms": round(wall[worst], 2),
        "worst": worst,
        "over_20_ms": sum(value >= LONGEST_PAGE for value in wall.values()),
    }
    figures |= {"worst_p95_cpu_ms": round(cpu[dearest], 2), "dearest": dearest}
    return figures, [f"{name}: {value} ms" for name, value in slow.items()]


def paint(kind: str, chosen: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    from bench.service_paint import measure

    found = measure(seeded(kind, chosen))
    p95 = {name: tail(took) for name, took in found.items()}
    for name in sorted(p95, key=lambda one: -p95[one]):
        say(f"{p95[name]:9.1f} ms p95 {statistics.median(found[name]):9.1f} ms median  {name}")
    worst = max(p95, key=lambda one: p95[one])
    figures = {"jobs": chosen.jobs, "screens": len(found), "visits": sum(map(len, found.values()))}
    figures |= {"median_ms": round(statistics.median(one for took in found.values() for one in took), 1)}
    figures |= {"worst_p95_ms": round(p95[worst], 1), "worst": worst}
    return figures, [f"{name}: {value:.0f} ms" for name, value in p95.items() if value >= LONGEST_PAINT]


def tail(took: list[float]) -> float:
    return sorted(took)[int(0.95 * (len(took) - 1))]


def middle(took: list[Took]) -> float:
    return statistics.median(one.wall for one in took)


# -- streams -----------------------------------------------------------------------------------------------------------


def streams(kind: str, chosen: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    from bench.service_streams import follow

    with database(kind) as url:
        found = follow(url, admitted(url), FOLLOWERS, MESSAGES, chosen.seconds * 4)
    wrong = [] if found["gaps_or_repeats"] == 0 else [f"{found['gaps_or_repeats']} gaps or repeats"]
    wrong += [] if found["p99_ms"] < 1000 else [f"a message took {found['p99_ms']} ms at the 99th percentile"]
    return found, wrong


PARTS = {"rates": rates, "pages": pages, "paint": paint, "streams": streams}


def run(part: str, kind: str, chosen: argparse.Namespace) -> bool:
    """One part; whether all of it is as it must be."""
    name, began = f"service-{part}-{kind}", time.monotonic()
    figures, wrong = PARTS[part](kind, chosen)
    seconds = time.monotonic() - began
    print(f"{name}: {json.dumps(figures)}, {seconds:.0f} s, {'; '.join(wrong) or 'as it must be'}", flush=True)
    if chosen.ledger:
        keep(name, figures, wrong, seconds, 1)
    return not wrong


def main() -> int:
    """Run, print, and say by the exit code whether all of it is as it must be."""
    from tests import postgres_server

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=(*PARTS, "all"))
    parser.add_argument("--kinds", default="sqlite,postgresql")
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--url", default="")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--ledger", action="store_true")
    chosen = parser.parse_args()
    failed, given = False, chosen.url
    if "postgresql" in chosen.kinds and not chosen.url:
        postgres_server.share()
    try:
        for kind in chosen.kinds.split(","):
            with ExitStack() as chosen.open:  # one log at a time
                chosen.url = given
                for part in PARTS if "all" in chosen.parts else chosen.parts:
                    failed = not run(part, kind, chosen) or failed
    finally:
        postgres_server.release()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
