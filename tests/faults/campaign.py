"""Break the log for a while and count: ``python -m tests.faults.campaign --profile merge|long``.

Each campaign is one rig; its runs are split over processes by seed, two or more at a time.  A fault counts only when
something proves that it happened, and a campaign without a proven fault fails.  One line a campaign, and a last line
``N passed, M failed`` of runs.  ``--profile long`` (or ``--ledger``) adds a line a campaign to docs/evidence.jsonl, from
which the published figures are computed.  Told to stop (SIGTERM, Ctrl-C), each process judges what it has done, and the
lines say what that was.
"""

import argparse
import json
import logging
import os
import platform
import queue
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests import postgres_server as servers
from tests.faults import (
    answers_rig,
    follower_rig,
    fork_rig,
    herd_rig,
    postgres_rig,
    power_rig,
    rig,
    views_rig,
    worker_rig,
    zombie,
)
from tests.faults.rig import Report

LEDGER: Final = rig.ROOT / "docs" / "evidence.jsonl"
SHOWN: Final = 20  #: violations printed of one campaign
ENOUGH_FOR_ALL_POINTS: Final = 5  #: kills a point, from which on each point must have been hit
SHARD_SECONDS: Final = 7200
MOST_SHARDS: Final = 64  #: a process costs as much to start as some fifty kills


@dataclass(frozen=True)
class Campaign:
    """A rig, how much of it a merge and a long run take, and how much of that one process does."""

    name: str
    about: str
    run: Callable[[Report, int], Report]
    merge: int
    long: int
    shard: int
    points: tuple[str, ...] = ()  #: fail points that must each have been hit


def _postgres_zombies(report: Report, count: int) -> Report:
    with servers.fresh_database() as url:
        return zombie.run(report, url, zombies=count)


def _postgres_answers(report: Report, count: int) -> Report:
    with servers.fresh_database() as url:
        return answers_rig.run(report, url, losses=count)


def _power_proof(report: Report, count: int) -> Report:
    """The rig itself on trial: with ``synchronous=NORMAL`` it must find lost events, and nothing else than lost ones."""
    power_rig.run(report, images=count, recordings=1, synchronous="NORMAL", stop=False)
    report.fired["loss-found"] = report.failed
    found = [line for line in report.violations if "S1" not in line]
    report.violations, report.failed = found, len(found)
    if not report.fired["loss-found"]:
        report.fail("all images", ["with synchronous=NORMAL no lost event was found: this rig finds nothing"])
    return report


def _kills_proof(report: Report, count: int) -> Report:
    """The fork rig itself on trial: it must find a commit that is torn in two."""
    fork_rig.run(report, kills=count, make=fork_rig.TornRig)
    found, report.violations = report.violations, []
    report.failed = 0
    if any(f": {table} at " in line for line in found for table in ("S13", "unit-results", "leases", "receipts")):
        report.fired["damage-found"] += 1
    else:
        report.fail("all kills", ["rows and events were committed apart, and it was not found: this rig finds nothing"])
    return report


CAMPAIGNS: Final = (
    Campaign(
        "sqlite-kills",
        "SIGKILL at fail points and at any moment, SQLite",
        lambda report, count: fork_rig.run(report, kills=count),
        merge=1000,
        long=100_000,
        shard=500,
        points=(*fork_rig.POINTS, *fork_rig.BIRTHS),
    ),
    Campaign(
        "worker-kills",
        "SIGKILL of workers over whole jobs, at every point of a unit's life and at any moment, SQLite",
        lambda report, count: worker_rig.run(report, kills=count),
        merge=2000,
        long=100_000,
        shard=250,
        points=worker_rig.POINTS,
    ),
    Campaign(
        "follower-kills",
        "SIGKILL of tree, feed, export, import, backup and restore at fail points, SQLite",
        lambda report, count: follower_rig.run(report, kills=count),
        merge=1000,
        long=20_000,
        shard=250,
        points=follower_rig.POINTS,
    ),
    Campaign(
        "postgres-follower-kills",
        "SIGKILL of tree, feed, export, import and backup at fail points, PostgreSQL",
        lambda report, count: follower_rig.run(report, kills=count, make=follower_rig.postgres_place),
        merge=100,
        long=10_000,
        shard=100,
        points=follower_rig.POSTGRES_POINTS,
    ),
    Campaign(
        "view-kills",
        "SIGKILL of following, rebuilding, switching, dropping and importing reports, at fail points and at any moment, SQLite",
        lambda report, count: views_rig.run(report, kills=count),
        merge=200,
        long=10_000,
        shard=100,
        points=views_rig.POINTS,
    ),
    Campaign(
        "postgres-view-kills",
        "the same on PostgreSQL",
        lambda report, count: views_rig.run(report, kills=count, make=views_rig.postgres_place),
        merge=100,
        long=10_000,
        shard=100,
        points=views_rig.POINTS,
    ),
    Campaign(
        "postgres-worker-kills",
        "the same on PostgreSQL",
        lambda report, count: worker_rig.run(report, kills=count, make=worker_rig.PostgresWorkerRig),
        merge=200,
        long=10_000,
        shard=100,
        points=worker_rig.PostgresWorkerRig.points,
    ),
    Campaign(
        "worker-signals",
        "SIGTERM to workers at the same points: no job is left leased, none counts a crash",
        lambda report, count: worker_rig.run(report, kills=count, make=worker_rig.SignalRig),
        merge=150,
        long=5000,
        shard=250,
        points=worker_rig.SignalRig.points,
    ),
    Campaign(
        "kills-proof",
        "the fork rig must find a commit torn in two",
        _kills_proof,
        merge=100,
        long=100,
        shard=100,
    ),
    Campaign(
        "power-cuts",
        "crash images of the recorded product, SQLite",
        lambda report, count: power_rig.run(report, images=count),
        merge=2000,
        long=100_000,
        shard=1000,
    ),
    Campaign(
        "power-proof",
        "the power rig must find what synchronous=NORMAL loses",
        _power_proof,
        merge=60,
        long=1000,
        shard=1000,
    ),
    Campaign(
        "postgres-kills",
        "SIGKILL of workers at fail points, PostgreSQL",
        lambda report, count: postgres_rig.run_kills(report, kills=count),
        merge=100,
        long=10_000,
        shard=500,
    ),
    Campaign(
        "postgres-crashes",
        "backends and the server killed under load",
        lambda report, count: postgres_rig.run_crashes(report, faults=count),
        merge=20,
        long=1000,
        shard=200,
    ),
    Campaign(
        "sqlite-zombies",
        "holders stopped past their lease, SQLite",
        lambda report, count: zombie.run_sqlite(report, zombies=count),
        merge=52,
        long=2000,
        shard=200,
    ),
    Campaign(
        "postgres-zombies",
        "holders stopped past their lease, PostgreSQL",
        _postgres_zombies,
        merge=52,
        long=2000,
        shard=200,
    ),
    Campaign(
        "sqlite-answers",
        "commits whose answer is lost, SQLite",
        lambda report, count: answers_rig.run_sqlite(report, losses=count),
        merge=100,
        long=10_000,
        shard=500,
    ),
    Campaign(
        "postgres-answers",
        "commits whose answer is lost, PostgreSQL, half of them on the wire",
        _postgres_answers,
        merge=100,
        long=10_000,
        shard=500,
    ),
    Campaign(
        "sqlite-herd",
        "so many jobs due in one second, three workers, SQLite",
        lambda report, count: herd_rig.run_sqlite(report, due_jobs=count),
        merge=2000,
        long=10_000,
        shard=1_000_000,
    ),
    Campaign(
        "postgres-herd",
        "so many jobs due in one second, three workers, PostgreSQL",
        lambda report, count: herd_rig.run_postgres(report, due_jobs=count),
        merge=2000,
        long=10_000,
        shard=1_000_000,
    ),
)
BY_NAME: Final = {campaign.name: campaign for campaign in CAMPAIGNS}


# -- one process ---------------------------------------------------------------------------------------------------------


def run_shard(name: str, seed: int, count: int) -> Report:
    """Run one campaign's share here; whatever goes wrong in the rig is a failure of the run."""
    report = Report(name, seed)
    try:
        return BY_NAME[name].run(report, count)
    except Exception as error:  # noqa: BLE001 - the other campaigns go on
        report.runs += 1
        report.fail(f"seed {seed}", [f"the rig broke: {error!r}"])
        return report


def start_shard(name: str, seed: int, count: int) -> Report:
    """Run one campaign's share in a process of its own, which forks without our threads."""
    share = ["--shard", name, "--seed", str(seed), "--kills", str(count)]
    command = [sys.executable, "-m", "tests.faults.campaign", *share]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(rig.ROOT / "src"), str(rig.ROOT)))}
    report = Report(name, seed)
    if rig.STOP.is_asked():
        return report
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=rig.ROOT, env=environment, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    ) as process:
        SHARDS.add(process)
        if rig.STOP.is_asked():
            process.terminate()
        try:
            out, said_wrong = process.communicate(timeout=SHARD_SECONDS)
            said = json.loads(out.splitlines()[-1])
        except (subprocess.TimeoutExpired, ValueError, IndexError) as error:
            if rig.STOP.is_asked() and process.returncode == -signal.SIGTERM:
                return report  # it had not begun
            process.kill()
            report.runs = 1
            tail = said_wrong[-2000:] if isinstance(error, (ValueError, IndexError)) else ""
            report.fail(f"seed {seed}, {count} wanted", [f"its process has not reported: {error!r} {tail}"])
            return report
        finally:
            SHARDS.discard(process)
    return Report(**{**said, "fired": Counter(said["fired"]), "counts": Counter(said["counts"])})


SHARDS: Final[set[subprocess.Popen[str]]] = set()


def _stop(*_: object) -> None:
    rig.STOP.ask()
    for process in SHARDS.copy():
        process.terminate()


@contextmanager
def told_to_stop() -> Iterator[None]:
    """At SIGTERM or Ctrl-C let each process judge what it has done, and start no other."""
    before = {number: signal.signal(number, _stop) for number in (signal.SIGTERM, signal.SIGINT)}
    rig.STOP.forget()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# -- all of them ---------------------------------------------------------------------------------------------------------


def together(campaign: Campaign, count: int, reports: Sequence[Report]) -> Report:
    """The shards of one campaign as one; no fault without proof, no point left out."""
    whole = Report(campaign.name, reports[0].seed)
    for report in reports:
        whole.runs += report.runs
        whole.failed += report.failed
        whole.fired += report.fired
        whole.counts += report.counts
        whole.violations += report.violations
        whole.seconds += report.seconds
    whole.again = f"python -m tests.faults.campaign --only {campaign.name} --seed {whole.seed} --kills {count}"
    if not whole.fired.total():
        whole.fail("the campaign", ["no fault was proven"])
    left_out = [point for point in campaign.points if not whole.fired[point]]
    tried = count
    if rig.STOP.is_asked() and whole.fired.total() < count:
        whole.wanted, tried = count, whole.fired.total()
    if left_out and tried >= ENOUGH_FOR_ALL_POINTS * len(campaign.points):
        whole.fail("the campaign", [f"never killed at {', '.join(left_out)}"])
    return whole


def shares(campaign: Campaign, count: int, seed: int) -> list[tuple[int, int]]:
    """(seed, how many) for each process."""
    pieces = min(max(-(-count // campaign.shard), 1), MOST_SHARDS)
    return [(seed + n, count // pieces + (n < count % pieces)) for n in range(pieces)]


def run_all(
    wanted: Sequence[tuple[Campaign, int]], seed: int, jobs: int, tell: Callable[[Report], None]
) -> list[Report]:
    """Run every shard, *jobs* at a time, the long ones first; tells of each campaign when it is whole."""
    plans = {campaign.name: shares(campaign, count, seed) for campaign, count in wanted}
    waiting = {name: len(plan) for name, plan in plans.items()}
    parts: dict[str, list[Report]] = {name: [] for name in plans}
    done: queue.SimpleQueue[Report] = queue.SimpleQueue()
    whole: list[Report] = []
    with ThreadPoolExecutor(jobs) as pool:
        for campaign, _ in wanted:
            for shard_seed, share in plans[campaign.name]:
                pool.submit(lambda *plan: done.put(start_shard(*plan)), campaign.name, shard_seed, share)
        while any(waiting.values()):
            report = done.get()
            parts[report.campaign].append(report)
            waiting[report.campaign] -= 1
            if not waiting[report.campaign]:
                campaign, count = next(pair for pair in wanted if pair[0].name == report.campaign)
                whole.append(together(campaign, count, sorted(parts[report.campaign], key=lambda part: part.seed)))
                tell(whole[-1])
    return whole


def commit() -> str:
    """What was tested; with a plus if the tree differs from it."""
    git = ["git", "-C", str(rig.ROOT)]
    head = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=False)
    changed = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True, check=False)
    return (head.stdout.strip() or "unknown") + ("+" if changed.stdout.strip() else "")


def entry(report: Report, shards: int) -> dict[str, object]:
    """The line of the ledger."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "campaign": report.campaign,
        "seeds": [report.seed, report.seed + shards - 1],
        **({"stopped": True, "wanted": report.wanted} if report.wanted else {}),
        "runs": report.runs,
        "faults": dict(sorted(report.fired.items())),
        "violations": len(report.violations),
        "failed": report.failed,
        "counts": dict(sorted(report.counts.items())),
        "seconds": round(report.seconds, 1),
        "machine": f"{os.cpu_count()} cores, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}",
    }


def keep_ledger(path: Path, report: Report, shards: int) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry(report, shards)) + "\n")


def show(report: Report) -> None:
    lines = [report.line(), *(f"  {line}" for line in report.violations[:SHOWN])]
    if len(report.violations) > SHOWN:
        lines.append(f"  … {len(report.violations) - SHOWN} more")
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.campaign", description=__doc__)
    parser.add_argument("--profile", choices=("merge", "long"), default="merge")
    parser.add_argument(
        "--seed", type=int, help="of the first process; the others count on (default: 1, long: the time)"
    )
    parser.add_argument("--only", action="append", choices=tuple(BY_NAME), help="this campaign; may be repeated")
    parser.add_argument("--kills", type=int, help="faults (or images, or zombies) of each campaign")
    parser.add_argument("--jobs", type=int, default=2 * (os.cpu_count() or 1), help="processes at a time")
    parser.add_argument("--ledger", action="store_true", help="write to the ledger in any profile")
    parser.add_argument("--shard", choices=tuple(BY_NAME), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    long = options.profile == "long"
    seed = options.seed if options.seed is not None else int(time.time()) if long else 1
    if options.shard:
        rig.STOP.listen()
        logging.disable(logging.CRITICAL)
        sys.stdout.write(json.dumps(vars(run_shard(options.shard, seed, options.kills))) + "\n")
        return 0
    chosen = [campaign for campaign in CAMPAIGNS if not options.only or campaign.name in options.only]
    wanted = [(campaign, options.kills or (campaign.long if long else campaign.merge)) for campaign in chosen]

    def tell(report: Report) -> None:
        show(report)
        if long or options.ledger:
            campaign, count = next(pair for pair in wanted if pair[0].name == report.campaign)
            keep_ledger(LEDGER, report, len(shares(campaign, count, seed)))

    with told_to_stop():
        reports = run_all(wanted, seed, options.jobs, tell)
    passed, failed = sum(report.passed for report in reports), sum(report.failed for report in reports)
    sys.stdout.write(f"{passed} passed, {failed} failed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    servers.share()
    try:
        sys.exit(main())
    finally:
        servers.release()
