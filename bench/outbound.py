"""What the way out costs; nothing leaves this machine, and receivers run in processes of their own.

    .venv/bin/python bench/outbound.py guard                     # the judgements of one request, without a look-up
    .venv/bin/python bench/outbound.py client                    # a request of the client against one of bare aiohttp
    .venv/bin/python bench/outbound.py deliveries --events 100   # webhooks to 100 destinations, through a worker
    .venv/bin/python bench/outbound.py deliveries --workers 2    # in so many worker processes
    .venv/bin/python bench/outbound.py deliveries --profile      # and what a worker spends its time on
    .venv/bin/python bench/outbound.py all --ledger              # a line each in docs/evidence.jsonl

CPU is that of the worker processes: neither the receiver's nor the database server's.  On a busy machine the rate is what
others leave of it; CPU a delivery is not.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
for folder in (ROOT / "src", ROOT):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

KINDS = ("sqlite", "postgresql")
ROUNDS, REQUESTS, TASKS = 9, 1_000, 8
DESTINATIONS = 100
MOST_MICROS, MOST_OVERHEAD = 50.0, 1.3  #: what a guard and a client may cost
RECEIVER = """
import asyncio, sys

class Receiver(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.data = transport, b""
    def data_received(self, data):
        self.data += data
        while (end := self.data.find(b"\\r\\n\\r\\n")) >= 0:
            head = self.data[:end].lower()
            at = head.find(b"content-length: ")
            length = int(head[at + 16 :].split(b"\\r\\n", 1)[0]) if at >= 0 else 0
            if len(self.data) < end + 4 + length:
                return
            self.data = self.data[end + 4 + length :]
            self.transport.write(b"HTTP/1.1 200 OK\\r\\nContent-Type: text/plain\\r\\nContent-Length: 2\\r\\n\\r\\nok")

async def main():
    server = await asyncio.get_running_loop().create_server(Receiver, "127.0.0.1", 0, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@contextmanager
def receiver():
    """A receiver that does next to nothing, in a process of its own; gives its port."""
    with subprocess.Popen([sys.executable, "-c", RECEIVER], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


# -- guard and client --------------------------------------------------------------------------------------------------


def guard():
    from joblog.workers.outbound.guard import Guard
    from joblog.workers.outbound.target import parse_url

    rules, peer = Guard(), ("93.184.215.14", 443)
    urls = [
        f"https://hooks.example.com/services/T{n:06}/B000?x=1" for n in range(5_000)
    ]  # each another: nothing is kept
    best = []
    for _ in range(ROUNDS):
        parse_url.cache_clear()
        began = time.perf_counter()
        for url in urls:
            approval = rules.check(url)
            rules.answered(approval, ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"])
            rules.check_socket(approval, peer)
            rules.check_peer(approval, peer, ("192.168.7.7", 50_000))
        best.append((time.perf_counter() - began) / len(urls) * 1e6)
    micros = min(best)
    return {"micros": round(micros, 1)}, [f"{micros:.0f} µs"] if micros > MOST_MICROS else []


async def _timed(one):
    """Requests a second with some tasks side by side, and CPU microseconds of each."""

    async def some():
        for _ in range(REQUESTS // TASKS):
            await one()

    began, before = time.perf_counter(), time.process_time()
    await asyncio.gather(*(some() for _ in range(TASKS)))
    return REQUESTS / (time.perf_counter() - began), (time.process_time() - before) / REQUESTS * 1e6


async def _compared(port):
    import aiohttp

    from joblog.eventstore.clock import SystemClock
    from joblog.workers.outbound.client import OutboundClient
    from joblog.workers.outbound.guard import Guard

    url, body = f"http://127.0.0.1:{port}/", b'{"event": "x"}'
    rules = Guard.made(allow=[f"127.0.0.1 127.0.0.1 {port}"])
    ours, bare = [], []
    async with (
        OutboundClient(guard=rules, now=SystemClock().now) as client,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session,
    ):

        async def by_client():
            await client.request("POST", url, body=body, unit_id="u-1")

        async def by_aiohttp():
            async with session.post(url, data=body, headers={"Idempotency-Key": "u-1"}) as response:
                await response.read()

        for _ in range(ROUNDS):  # in turns, so that the machine's moods hit both
            bare.append(await _timed(by_aiohttp))
            ours.append(await _timed(by_client))
    return ours, bare


def client():
    with receiver() as port:
        ours, bare = asyncio.run(_compared(port))
    wall = statistics.median(b[0] / o[0] for b, o in zip(bare, ours, strict=True))
    cpu = statistics.median(o[1] / b[1] for b, o in zip(bare, ours, strict=True))
    figures = {
        "bare_per_second": round(statistics.median(rate for rate, _ in bare)),
        "client_per_second": round(statistics.median(rate for rate, _ in ours)),
        "bare_cpu_micros": round(statistics.median(cost for _, cost in bare)),
        "client_cpu_micros": round(statistics.median(cost for _, cost in ours)),
        "times_the_time": round(wall, 2),
        "times_the_cpu": round(cpu, 2),
    }
    return figures, [f"{wall:.2f} times the time of bare aiohttp"] if wall > MOST_OVERHEAD else []


# -- deliveries --------------------------------------------------------------------------------------------------------


def work(url, profile):
    """One worker process: until it is told to stop; says what it cost."""
    import signal

    from joblog import JobLog
    from joblog.workers.operations import builtin
    from joblog.workers.worker import Worker, WorkerSettings

    with JobLog.open(url) as log:
        worker = Worker(log, builtin(), WorkerSettings(slots=DESTINATIONS, poll_seconds=0.5))
        signal.signal(signal.SIGTERM, lambda *_: worker.stop())
        if profile:
            import cProfile
            import pstats

            profiler = cProfile.Profile(time.process_time)
            profiler.runcall(worker.run)
            pstats.Stats(profiler, stream=sys.stderr).sort_stats("tottime").print_stats(40)
        else:
            worker.run()
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(used.ru_utime + used.ru_stime, flush=True)


def _sent(log):
    from joblog.eventstore import webhooks as table

    with table.reading(log.store) as connection:
        return sum(count for (_, _, state), count in table.counts(connection).items() if state == "sent")


@contextmanager
def worker_process(url, profile, costs):
    command = [sys.executable, __file__, "work", "--url", url, *(["--profile"] if profile else [])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield
    finally:
        process.terminate()
        costs.append(float(process.communicate()[0]))


def deliveries(kind, events, workers, profile=False):
    """Announce events to all destinations, then let workers send them; the start of their processes does not count."""
    from joblog import JobLog
    from joblog.workers.operations import webhooks

    from bench.gates import database

    total, costs = DESTINATIONS * events, []
    with receiver() as port, database(kind) as url, JobLog.open(url) as log:
        os.environ["JOBLOG_OUTBOUND_ALLOW"] = f"127.0.0.1 127.0.0.1 {port}"
        os.environ["BENCH_HOOK"] = "whsec_" + base64.b64encode(b"k" * 32).decode()
        for n in range(DESTINATIONS):
            webhooks.set_destination(log, f"d{n}", f"http://127.0.0.1:{port}/d{n}", ["env:BENCH_HOOK"])
        began = time.perf_counter()
        for n in range(events):
            webhooks.announce(log, f"e{n}", "bench", {"n": n})
        announced = time.perf_counter() - began
        head = log.store.head()
        with ExitStack() as stack:
            for _ in range(workers):
                stack.enter_context(worker_process(url, profile, costs))
            while (at_begin := _sent(log)) < total // 20:  # all have started, and their slots are full
                time.sleep(0.05)
            begun = time.perf_counter()
            while (now := _sent(log)) < total:
                time.sleep(0.1)
            seconds = time.perf_counter() - begun
        events_each = (log.store.head() - head) / total
    return {
        "deliveries": total,
        "workers": workers,
        "per_second": round((now - at_begin) / seconds),
        "cpu_ms_a_delivery": round(sum(costs) / total * 1000, 2),
        "events_a_delivery": round(events_each, 2),
        "announced_per_second": round(total / announced),
    }, []


# -- all ---------------------------------------------------------------------------------------------------------------


def parts(chosen):
    """The runs that were asked for."""
    if chosen.part in ("guard", "all"):
        yield "outbound-guard", guard
    if chosen.part in ("client", "all"):
        yield "outbound-client", client
    if chosen.part in ("deliveries", "all"):
        for kind in chosen.kinds.split(","):
            for workers in chosen.workers:
                name = f"outbound-deliveries-{kind}-{workers}"
                yield name, partial(deliveries, kind, chosen.events, workers, chosen.profile)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("guard", "client", "deliveries", "all", "work"))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--events", type=int, default=100)
    parser.add_argument("--workers", type=int, action="append", default=[])
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--ledger", action="store_true")
    parser.add_argument("--url", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.part == "work":
        work(chosen.url, chosen.profile)
        return 0
    chosen.workers = chosen.workers or [1]
    from bench.scale import keep

    failed = False
    for name, run in parts(chosen):
        began = time.monotonic()
        figures, wrong = run()
        print(f"{name}: {json.dumps(figures)} {'; '.join(wrong)}", flush=True)
        failed = failed or bool(wrong)
        if chosen.ledger:
            keep(name, figures, wrong, time.monotonic() - began, 1)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
