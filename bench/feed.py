"""Feed, tree and verification in events/s, on one core, each over the same log: python bench/feed.py [EVENTS] [URL]."""

import os
import sys
import tempfile
import time
from pathlib import Path
from uuid import UUID

sys.path.insert(0, str(Path(__file__).parent.parent))
os.environ.setdefault("JOBLOG_DB_RETRY_LOG_MS", "60000")

from joblog.eventstore.append import Append, EventRow
from joblog.projections.feed.consumers import Consumer
from joblog.projections.feed.envelope import cloud_event
from joblog.projections.proof.audit import next_entries
from joblog.projections.proof.check import check_log
from joblog.projections.proof.heads import sign
from joblog.projections.proof.merkle import Frontier
from joblog.projections.proof.notes import Signer
from joblog.projections.proof.report import KnownHead
from joblog.projections.proof.tree import build
from joblog.projections.transfer.export import export
from joblog.projections.transfer.offline import check_export
from joblog.workers.commands.log import JobLog

STATE = b'{"timestamp":"2030-01-01T12:30:15.250000+00:00","unit":"rows:%d","evidence":{"rows":500,"sha256":"9f86d081884c7d65"},"done":%d,"event_id":"f81d4fae7dec11d0a765-%x.0"}'


def fill(log: JobLog, count: int) -> None:
    per = 100
    for start in range(0, count, 5000):
        appends = []
        for first in range(start, min(start + 5000, count), per):
            rows = [EventRow(n + 1, "joblog.bench.unit-completed", STATE % (n, n, first + n)) for n in range(per)]
            appends.append(Append(UUID(int=first + 1), 0, rows, ""))
        log.writer.append_many(appends)


def timed(name: str, count: int, run) -> None:
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"{name:<42} {count / wall:>10,.0f} events/s   {cpu / count * 1e6:6.2f} us CPU an event", flush=True)


def feed(log: JobLog, *, cloud: bool) -> None:
    consumer = Consumer.open(log.store, f"bench-{cloud}")
    store_id = log.store.state().store_id
    while page := consumer.read(limit=1000):
        if cloud:
            for event in page.events:
                cloud_event(event, store_id, 1)
        consumer.commit()
        if page.is_last:
            return


def audit(log: JobLog, signer: Signer) -> None:
    frontier = Frontier()
    while next_entries(log.store, frontier, signer.verifier, limit=2000):
        pass


def main(count: int, url: str, folder: Path) -> None:
    signer = Signer("bench", bytes(32))
    with JobLog.open(url) as log:
        fill(log, count)
        print(f"{log.store.dialect}, {log.store.head():,} events of {len(STATE)} bytes")
        timed("build the tree", count, lambda: build(log.store))
        signing = sign(log.store, signer, None)
        heads = [KnownHead(signing.signed.head, "kept", is_trusted=True)]
        timed("verify the log against tree and head", count, lambda: check_log(log.store, heads))
        timed("feed to one named consumer", count, lambda: feed(log, cloud=False))
        timed("feed, each as a CloudEvent", count, lambda: feed(log, cloud=True))
        timed("consumer that checks every event", count, lambda: audit(log, signer))
        timed("export, plain", count, lambda: export(log.store, folder / "log.ndjson"))
        timed("export, packed", count, lambda: export(log.store, folder / "log.ndjson.gz"))
        timed("verify the plain export", count, lambda: check_export(folder / "log.ndjson", heads))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        events = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
        main(events, sys.argv[2] if len(sys.argv) > 2 else f"sqlite:///{name}/bench.db", Path(name))
