"""What the views cost: following, rebuilding, verifying, the feed, a page of the report, and a unit's commit beside them.

``python -m bench.views [EVENTS] [--kinds sqlite postgresql] [--ledger]``: the log is made of lives of ten events, each with one
retry, so a tenth of the events are rows of the report.  Rates are by the wall and by this process' CPU seconds, ratios to
a bare reading and decoding of the same events in the same run: they hold on a machine that does other things besides.

All of it is judged, by the wall, so on a machine that does nothing else; what is missed is told, stands as
a violation in the ledger, and makes the exit code.  ``python -m bench.views 1000000 --ledger`` is the full size.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import statistics
import sys
import time
from datetime import timedelta
from uuid import UUID

from bench.databases import KINDS, pair
from bench.report import machine
from bench.scale import keep

JOBS_SIDE_BY_SIDE = 200  #: lives are interleaved, as those of a real log
TIMES = 20
FOLLOWS = 30_000  #: events a second, at least, folded for and written to all six views
VERIFIES = 100_000  #: events a second, at least
REBUILDS_IN = 60.0  #: seconds for 1,000,000 events, at most
BESIDE = 1.25  #: times the time alone that a unit's commit may take beside all views
#: Milliseconds of a page of the report, at most, whatever the number of its rows: 100,000 at the full size.
PAGES = {
    "page 1, counted": 50,
    "page 1, failed": 50,
    "last page, counted before": 50,
    "search that finds all": 300,
    "search that finds none": 300,
}


def lives(log, events):
    """Rows of the events table: *events* of them, in lives of ten."""
    from joblog.domain import events as e

    at = log.now() - timedelta(days=1)
    kinds = ("hook.deliver", "people.import", "file.move", "mail.send")
    claim = {"worker": "host-1-4711", "epoch": 1, "lease_until": at + timedelta(seconds=30)}
    evidence, text = {"rows": 500, "sha256": "ab" * 32}, "ConnectionResetError: reset by peer [0123456789ab]"

    def life(n):
        kind = kinds[n % 4]
        said = {"kind": kind, "tenant": f"t{n % 3}", "owner": "ada", "queue": "bulk" if n % 5 else "default"}
        said |= {"priority": 5, "args": {"n": n}, "args_digest": "d" * 64, "key": str(n), "due_at": at}
        yield e.Submitted, said | {"originator_topic": "joblog.job", "total": 3}
        yield e.Claimed, claim | {"token": 1, "attempt": 1}
        yield e.UnitCompleted, {"unit": "rows:0", "evidence": evidence, "done": 1}
        yield e.CheckpointAdvanced, {"sequence": 1, "cursor": {"row": 500}}
        retry = {"unit": "rows:1", "attempt": 1, "category": "network", "text": f"{text}", "origin": "backoff"}
        yield e.RetryScheduled, retry | {"next_attempt_at": at + timedelta(seconds=n % 60), "failures": 1}
        yield e.Claimed, claim | {"token": 2, "attempt": 2}
        yield e.UnitCompleted, {"unit": "rows:1", "evidence": evidence, "done": 2}
        yield e.CheckpointAdvanced, {"sequence": 2, "cursor": {"row": 1000}}
        yield e.LeaseReleased, {"cause": "yield", "due_at": at}
        yield e.Completed, {"outcome": "done"}

    position = 0
    for start in range(0, events // 10, JOBS_SIDE_BY_SIDE):
        batch = range(start, min(start + JOBS_SIDE_BY_SIDE, events // 10))
        for version, happened in enumerate(zip(*(life(n) for n in batch)), 1):
            for n, (cls, fields) in zip(batch, happened):
                position += 1
                event = object.__new__(cls)
                stream = UUID(int=(n * 0x9E3779B97F4A7C15F39CC0605CEDC835) % 2**128)
                stamp = at + timedelta(milliseconds=position)
                vars(event).update(originator_id=stream, originator_version=version, timestamp=stamp, **fields)
                yield position, *log.mapper.encode(event, f"b-{position}")


def fill(log, url, events):
    """Put the lives into the log without its job table: views do not look at it."""
    if url.startswith("sqlite"):
        db = sqlite3.connect(url.removeprefix("sqlite:///"))
        rows = ((p, s.bytes, v, t, b) for p, s, v, t, b in lives(log, events))
        with db:
            db.executemany(
                "INSERT INTO events (position, stream_id, version, topic, state) VALUES (?, ?, ?, ?, ?)", rows
            )
        db.close()
        return
    import psycopg

    with psycopg.connect(url.replace("+psycopg", "")) as db, db.cursor() as cursor:
        with cursor.copy("COPY events (position, stream_id, version, topic, state) FROM STDIN") as copy:
            for row in lives(log, events):
                copy.write_row(row)
        db.execute("ANALYZE events")


def bare(log):
    """Decode every event, nothing else."""
    position = 0
    while batch := log.store.log(position, 5000):
        for p, *row in batch:
            log.mapper.decode(*row)
        position = batch[-1].position


def timed(call):
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def both(call):
    """Seconds by the wall, and of this process' CPU: the first is what one waits, the second what a busy machine can't blur."""
    began = time.process_time()
    wall = timed(call)
    return wall, time.process_time() - began


def milliseconds(call):
    """Median and worst of some calls."""
    took = [timed(call) * 1000 for _ in range(TIMES)]
    return statistics.median(took), max(took)


def feed(log):
    """All of the log to one named consumer."""
    from joblog.projections.feed.consumers import Consumer

    consumer = Consumer.open(log.store, "bench")
    while True:
        page = consumer.read(limit=1000)
        consumer.commit()
        if page.is_last:
            return


def unit_latency(url, *, rounds=15, seconds=1.0):
    """Milliseconds of one job's unit commit, alone and with all views followed in the same process: medians, and means.

    In turn, for as long each time as the views are brought up to date five times, and only once they have caught up: what
    a process does when it starts is no measure of what following costs.  The median does not see what happens a few
    times a second, the mean does; of both the median of all rounds is told.
    """
    from joblog import JobLog, JobSpec
    from joblog.workers.following import Following

    took = {False: [], True: []}
    with JobLog.open(url) as log:
        log.submit(JobSpec("bench", {}, key="latency", queue="latency"))
        [held] = log.claim("bench", queues=["latency"], limit=1)
        done = 0
        for number in range(2 * rounds + 2):
            following = Following(log) if number % 2 else None
            if following is not None:
                following.start()
                catch_up(log)
            mine, end = [], time.perf_counter() + seconds
            while time.perf_counter() < end:
                done += 1
                mine.append(timed(lambda: held.complete_units([(f"u{done}", 1)], cursor=done)) * 1000)
            if following is not None:
                following.stop()
            if number > 1:  # the first of each only warms up
                took[following is not None].append((statistics.median(mine), statistics.fmean(mine)))
    alone, beside = ([statistics.median(some) for some in zip(*took[followed])] for followed in (False, True))
    return {"median": [alone[0], beside[0]], "mean": [alone[1], beside[1]]}


def catch_up(log, *, within=60.0):
    """Until all views are at the end of a log to which nobody appends."""
    end = time.perf_counter() + within
    while {one.position for one in log.store.views.standings().values()} != {log.store.head()}:
        if time.perf_counter() > end:
            raise TimeoutError(f"the views have not caught up within {within:.0f} s")
        time.sleep(0.01)


def measure(kind, events):
    """All figures of one database, printed as they come, as counts for the ledger."""
    from joblog import JobLog
    from joblog.projections import queries as q
    from joblog.projections.runner import Runner
    from joblog.projections.view_rebuild import rebuild
    from joblog.projections.view_verify import verify
    from joblog.projections.views import VIEWS

    figures = {}
    with pair(kind) as databases:
        with JobLog.open(databases.ours) as log:
            fill(log, databases.ours, events)
            print(f"\n{kind}, {events:,} events{'':17} events/s   per CPU s   wall s   CPU of bare")

            def line(what, call):
                wall, cpu = both(call)
                limit = figures.get("bare", {"cpu": cpu})["cpu"]
                figures[what] = {"wall": round(wall, 2), "cpu": round(cpu, 2), "ratio": round(cpu / limit, 2)}
                rates = f"{events / wall:10,.0f}  {events / cpu:10,.0f}"
                print(f"  {what:34} {rates}  {wall:7.1f}  {cpu / limit:8.2f}", flush=True)

            line("bare", lambda: bare(log))
            line("six views", Runner(log.store, log.mapper, "bench").run)
            for name, view in VIEWS.items():
                line(f"rebuild {name}", lambda: rebuild(log.store, log.mapper, view, "bench"))
            for name, view in VIEWS.items():
                line(f"verify {name}", lambda: verify(log.store, log.mapper, view))
            line("feed", lambda: feed(log))
            rows = figures["report_rows"] = q.recovery_count(log.store)
            print(f"  recovery report of {rows:,} rows")
            job = log.store.log(events // 2, 1)[0].stream_id
            now = log.now() - timedelta(days=1) + timedelta(milliseconds=events // 2)
            for what, call in {
                "page 1, counted": lambda: q.recovery_page(log.store),
                "page 1, failed": lambda: q.recovery_page(log.store, filter="failed"),
                "last page, counted before": lambda: q.recovery_page(log.store, page=10**9, total=rows),
                "search that finds all": lambda: q.recovery_page(log.store, search="RESET by"),
                "search that finds none": lambda: q.recovery_page(log.store, search="100%_of nothing"),
                "one job as of a position": lambda: q.job_as_of(log.store, job, events // 2),
                "50 jobs as of a position": lambda: q.jobs_as_of(log.store, events // 2),
                "50 jobs as of a time": lambda: q.jobs_as_of(log.store, now),
                "counters by status": lambda: q.counters(log.store),
                "failures": lambda: q.failures(log.store),
                "schedule": lambda: q.schedule(log.store),
                "lag": lambda: q.lag(log.store),
            }.items():
                median, worst = milliseconds(call)
                figures[f"{what}, ms"] = round(median, 1)
                print(f"    {what:26} {median:8.1f} ms, worst {worst:.1f}")
        for what, (alone, beside) in unit_latency(databases.ours).items():
            figures[f"unit {what} ms alone, beside all views"] = [round(alone, 3), round(beside, 3)]
            print(
                f"  a unit's commit, {what}: {alone:.3f} ms alone, {beside:.3f} ms beside all views: {beside / alone:.2f}",
                flush=True,
            )
    return figures


def judge(figures, events):
    """What is not as it must be."""
    wrong = []
    for what, found in figures.items():
        if what == "six views" and events / found["wall"] < FOLLOWS:
            wrong.append(f"{what} follow {events / found['wall']:,.0f} events/s")
        elif what.startswith("verify ") and events / found["wall"] < VERIFIES:
            wrong.append(f"{what}: {events / found['wall']:,.0f} events/s")
        elif what.startswith("rebuild ") and (needed := found["wall"] / events * 1_000_000) > REBUILDS_IN:
            wrong.append(f"{what}: {needed:.0f} s for 1,000,000 events")
    for what, most in PAGES.items():
        if (took := figures[f"{what}, ms"]) > most:
            wrong.append(f"{what}: {took} ms")
    for what in ("median", "mean"):
        alone, beside = figures[f"unit {what} ms alone, beside all views"]
        if beside > BESIDE * alone:
            wrong.append(f"a unit's commit takes {beside / alone:.2f} times as long beside all views ({what})")
    return wrong


def main(given):
    """As the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("events", nargs="?", type=int, default=200_000)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--ledger", action="store_true", help="a line each in docs/evidence.jsonl")
    asked = parser.parse_args(given)
    print(machine())
    missed = 0
    for kind in asked.kinds:
        began = time.perf_counter()
        figures = measure(kind, asked.events)
        wrong = judge(figures, asked.events)
        missed += len(wrong)
        print(f"  {'; '.join(wrong) or 'as it must be'}", flush=True)
        if asked.ledger:
            counts = {"events": asked.events, **figures, "missed": wrong}
            keep(f"bench-views-{kind}", counts, wrong, time.perf_counter() - began, 1)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
