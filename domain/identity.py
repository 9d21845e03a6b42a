"""How a job gets its id: the same (tenant, kind, key) is the same job, for ever."""

from __future__ import annotations

from hashlib import sha256
from typing import Final
from uuid import UUID, uuid5

#: Namespace of job ids: never edit.
JOBS: Final = UUID("0a6f0f0e-5a53-4b7c-8f0e-2f7a4f6a9d11")
#: Namespace of the ids of children: never edit.
CHILDREN: Final = UUID("c3d1a7de-4f0b-4a35-9a52-6f1e0b8d7c24")
#: Namespace of queue streams: never edit.
QUEUES: Final = UUID("5b0d1e2c-9d42-4c8e-a7a1-63c0c1b0e0d2")
#: Namespace of the streams of what others report: never edit.
RECOVERY: Final = UUID("d84f6c1b-53a7-4e6e-9b0c-6f2a1e7c3b58")
#: Namespace of gate streams: never edit.
GATES: Final = UUID("1d2f7c84-6f0e-4c2b-9a57-2b1f5a1f3e46")
#: The stream of the log's own events (epoch raised, archived).
LOG_STREAM: Final = UUID("7e0e9a52-3c70-4a92-8f37-0f3a1c7b9e55")

DEFAULT_TENANT: Final = "default"
_GATE_BYTES: Final = 600  # as any name: four of them fit into one entry of an index
_GATE_SHOWN: Final = 100


def joined(*parts: str) -> str:
    """Parts in one text: length prefixes, because ("a", "bc") and ("ab", "c") must not meet."""
    return "".join(f"{len(part)}:{part}" for part in parts)


def job_id(tenant: str, kind: str, key: str) -> UUID:
    """The id of the job that (tenant, kind, idempotency key) stands for: a UUIDv5 (RFC 9562)."""
    return uuid5(JOBS, joined(tenant, kind, key))


def child_id(parent: UUID, key: str) -> UUID:
    """The id of the child that *parent* spawned under *key*."""
    return uuid5(CHILDREN, joined(str(parent), key))


def exclusive(tenant: str, key: str) -> str:
    """The exclusive key as stored: that of one tenant never meets that of another."""
    return f"{joined(tenant)}/{key}" if key else ""


def queue_stream(queue: str) -> UUID:
    """The stream that holds a queue's pauses and bulk commands."""
    return uuid5(QUEUES, queue)


def gate(tenant: str, gate: str) -> str:
    """A gate's name as stored: each tenant has its own, those of the tenant ``default`` go by their plain name.

    *gate* is ``provider``, or ``provider/credential``.
    """
    if not gate:
        return ""
    plain = gate.replace("%", "%25").replace("@", "%40")
    made = plain if tenant == DEFAULT_TENANT else f"{plain}@{tenant}"
    if len(made.encode()) <= _GATE_BYTES:
        return made
    digest = sha256(joined(tenant, gate).encode()).hexdigest()
    return f"{plain[:_GATE_SHOWN]}%sha256-{digest}"  # "%s" is in no plain name


def gate_stream(gate: str) -> UUID:
    """The stream that holds what operators did to a gate."""
    return uuid5(GATES, gate)
