"""One full instance of every class that goes into the log, and the bytes that each vocabulary stored for it.

``python -m tests.stored.samples`` adds a line for each class (or class version) that has none yet.  A line that is
there is never changed: some log holds it.
"""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from joblog.domain import events, gate, log_events, queue, recovery, security
from joblog.domain.snapshot import JobSnapshot
from joblog.eventstore.mapper import OrjsonMapper, OrjsonTranscoder

BYTES = Path(__file__).parent / "vocabulary-1.tsv"
STREAM = UUID("0f8fad5b-d9cb-469f-a165-70867728950e")
NOW = datetime(2030, 1, 1, 12, 30, 15, 250_000, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
EVENT_ID = "01J9-7.0"

#: field -> what it holds in the stored bytes; a field of a new name needs a value here.
VALUES: dict[str, Any] = {
    "action": "cancel",
    "actor": "ada",
    "actor_id": "u-7",
    "address": "192.0.2.1",
    "args": {"path": "in/ä.csv", "rows": [1, 2.5, None, True], "nul": "\0"},
    "args_digest": "4bf5122f344554c53bde2ebb8cd2b7e3d1600ad631c385a5d7cce23c7785459a",
    "attempt": 2,
    "category": "network",
    "cause": "retry",
    "child_id": "8c7d3f4e-2b1a-4c5d-9e8f-0a1b2c3d4e5f",
    "cleanup": True,
    "code": "invalid-input",
    "count": 3,
    "crashes": 1,
    "cursor": {"row": 1000},
    "deleted": True,
    "detail": "2 files were put back",
    "digest": "9f86d081884c7d659a2feaa0c55ad015",
    "done": 7,
    "due_at": LATER,
    "epoch": 2,
    "event_id": EVENT_ID,
    "events": 60,
    "evidence": {"sha256": "ab", "bytes": 12},
    "exclusive_key": "4:acme/ledger",
    "failures": 4,
    "file": "recovery-events.jsonl",
    "first": 3,
    "gate": "trello",
    "generation": 5,
    "happened_at": NOW - timedelta(hours=2),
    "held_since": NOW - timedelta(minutes=1),
    "ids": ["a", "b"],
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "key": "2030-01",
    "kind": "import",
    "last": 90,
    "lease_until": NOW + timedelta(seconds=30),
    "missed": 4,
    "name": "rows",
    "next_attempt_at": NOW + timedelta(seconds=1.25),
    "not_before": LATER,
    "offset": 8192,
    "origin": "backoff",
    "originator_id": STREAM,
    "originator_topic": "joblog.job",
    "originator_version": 3,
    "outcome": "with-warnings",
    "owner": "ada",
    "parent_id": "7c9e6679-7425-40de-944b-e07fc1f90ae7",
    "priority": 3,
    "problem": "can't be read",
    "queue": "default",
    "reason": "rate-limited",
    "reclaimed_by": "worker-2",
    "reclaims": 1,
    "refusal": "address",
    "refused": 2,
    "request_id": "request-1",
    "result": {"rows": 9},
    "retry": {"retries": 9},
    "rows": "60303ae22b99",
    "sequence": 8,
    "severity": "warning",
    "size": 96,
    "skipped": 1,
    "slots": 4,
    "source": "startup",
    "streams": 4,
    "subsystem": "attachments",
    "tags": ("nightly",),
    "taken": 2,
    "tallies": {"rows": 9},
    "tenant": "acme",
    "spacing": 120_000,
    "status": "completed",
    "text": r"connection reset \u0000",
    "timestamp": NOW,
    "titles": ["Plan", "Räume"],
    "token": 6,
    "total": 10,
    "type": "restore-failed",
    "unit": "row-1000",
    "until": LATER,
    "worker": "worker-1",
}
#: The state of a job at a version, as vocabulary 1 has it.
STATE: dict[str, Any] = {
    "_created_on": NOW,
    "_modified_on": NOW,
    "args": {"path": "in/ä.csv"},
    "args_digest": VALUES["args_digest"],
    "attempt": 2,
    "cleanup": False,
    "crashes": 1,
    "cursor": {"row": 1000},
    "cycle": 1,
    "done": 7,
    "due_at": NOW,
    "epoch": 2,
    "errors": [{"at": NOW.isoformat(), "unit": "row-3", "code": "network", "text": "connection reset"}],
    "errors_dropped": 1,
    "exclusive_key": "",
    "failures": 4,
    "finished_on": None,
    "gate": "trello",
    "key": "2030-01",
    "kind": "import",
    "last_attempt_on": NOW,
    "lease": ["worker-1", 2, 6, NOW.isoformat(), LATER.isoformat()],
    "lists": {"rows": {"count": 3, "digest": "9f86"}},
    "outcome": "",
    "owner": "ada",
    "parent_id": "",
    "priority": 3,
    "queue": "default",
    "reason": "",
    "reason_text": "",
    "reclaims": 1,
    "result": None,
    "retry": {"retries": 9},
    "sequence": 8,
    "skipped": 1,
    "started_on": NOW,
    "status": "running",
    "tags": ["nightly"],
    "tallies": {"rows": 9},
    "tenant": "acme",
    "token": 6,
    "total": 10,
    "tries": {"row-1000": [2, 6]},
    "unit": "row-1000",
    "unit_attempt": 2,
    "wish": "pause",
}

CLASSES: tuple[type[Any], ...] = (
    *events.ALL,
    *queue.ALL,
    *gate.ALL,
    *log_events.ALL,
    *recovery.ALL,
    *security.ALL,
    JobSnapshot,
)


def sample(cls: type[Any]) -> Any:
    """An instance of *cls* with every field given."""
    values = VALUES | {"topic": "joblog.job", "state": STATE, "vocabulary": 1}
    return cls(**{field.name: values[field.name] for field in dataclasses.fields(cls)})


def encoded(cls: type[Any]) -> bytes:
    return OrjsonMapper(OrjsonTranscoder()).encode(sample(cls), EVENT_ID)[3]


def label(cls: type[Any]) -> str:
    """Topic and class version, as in the first column."""
    return f"{cls.TOPIC} v{getattr(cls, 'class_version', 1)}"


def stored() -> dict[str, bytes]:
    lines = BYTES.read_bytes().splitlines() if BYTES.exists() else []
    return {name.decode(): state for name, _, state in (line.partition(b"\t") for line in lines)}


if __name__ == "__main__":
    known = stored()
    with BYTES.open("ab") as file:
        for each in CLASSES:
            if label(each) not in known:
                file.write(label(each).encode() + b"\t" + encoded(each) + b"\n")
