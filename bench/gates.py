"""Figures of gates on this machine; those of webhooks are in outbound.py.

.venv/bin/python bench/gates.py crowd --jobs 100000      # a closed gate with so many jobs behind it
.venv/bin/python bench/gates.py turns                    # requests let through a gate with slots and spacing
.venv/bin/python bench/gates.py all --ledger             # each with its default size, a line each in docs/evidence.jsonl
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
for folder in (ROOT / "src", ROOT):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from bench.scale import KINDS, database, keep


def crowd(kind, size):
    """Jobs behind a closed gate: those of a kind that declares it, then the wait of those whose kind does not."""
    from joblog import JobLog, JobSpec

    with database(kind) as url, JobLog.open(url) as log:
        log.store.close_gate("crm", log.store.now() + 3600 * 10**6, by="bench", reason="")
        for start in range(0, size, 500):
            log.submit_many(
                [JobSpec("call", {}, key=f"d{n}", gate="crm") for n in range(start, min(start + 500, size))]
            )
        head, began = log.store.head(), time.perf_counter()
        looks = 50
        for _ in range(looks):
            assert log.claim("w", limit=10) == []
        claim_ms = (time.perf_counter() - began) / looks * 1000
        assert log.store.head() == head
        strangers = size // 10
        for start in range(0, strangers, 500):
            log.submit_many([JobSpec("call", {}, key=f"u{n}") for n in range(start, min(start + 500, strangers))])
        head, began = log.store.head(), time.perf_counter()
        with ThreadPoolExecutor(8) as pool:
            while held := log.claim("w", limit=200):
                list(pool.map(lambda one: one.await_gate("crm", unit="", due_at=None), held))
        seconds = time.perf_counter() - began
        events = log.store.head() - head
        return {
            "declared": size,
            "events_while_closed": 0,
            "claim_ms": round(claim_ms, 3),
            "undeclared": strangers,
            "events_a_wait": round(events / strangers, 3),
            "waits_per_second": round(strangers / seconds),
        }


def turns(kind, size):
    from joblog import JobLog, JobSpec
    from joblog.eventstore.gates import GateEntry, GateLimits

    with database(kind) as url, JobLog.open(url) as log:
        log.submit(JobSpec("call", {}, key="k"))
        [held] = log.claim("w")
        limits = GateLimits(slots=4, spacing=1)
        began = time.perf_counter()
        for n in range(size):
            entry = GateEntry("crm", f"{n}", held.job_id, held.token, limits)
            while not log.store.enter_gate(entry).is_let_go:
                pass
            log.store.leave_gate("crm", f"{n}")
        limited = size / (time.perf_counter() - began)
        began = time.perf_counter()
        for n in range(size):
            log.store.enter_gate(GateEntry("free", f"{n}", held.job_id, held.token))
        free = size / (time.perf_counter() - began)
        return {"limited_per_second": round(limited), "free_per_second": round(free)}


PARTS = {"crowd": (crowd, 100_000), "turns": (turns, 2_000)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=[*PARTS, "all"])
    parser.add_argument("--jobs", "--size", dest="size", type=int)
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--ledger", action="store_true")
    given = parser.parse_args()
    for part in PARTS if given.part == "all" else [given.part]:
        run, size = PARTS[part]
        for kind in [given.kind] if given.kind else KINDS:
            began = time.monotonic()
            figures = run(kind, given.size or size)
            print(f"gates-{part}-{kind}: {json.dumps(figures)}", flush=True)
            if given.ledger:
                keep(f"gates-{part}-{kind}", figures, [], time.monotonic() - began, 1)


if __name__ == "__main__":
    main()
