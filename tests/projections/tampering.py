"""What no part of joblog ever does to its tables."""

from typing import Any
from uuid import UUID, uuid4

from tests.conformance.backends import Backend, MemoryBackend, SqlBackend


def drop_row(backend: Backend, job_id: UUID) -> None:
    """Lose a job's row."""
    if isinstance(backend, MemoryBackend):
        del backend._table()[job_id]
    else:
        assert isinstance(backend, SqlBackend)
        backend.run(f"DELETE FROM jobs_{backend._jobs()} WHERE id = ?", backend.to_id(job_id))


def forge_row(backend: Backend, like: dict[str, Any]) -> UUID:
    """Put a row there that belongs to no job."""
    ghost = uuid4()
    if isinstance(backend, MemoryBackend):
        backend._table()[ghost] = {**like, "id": ghost}
    else:
        assert isinstance(backend, SqlBackend)
        values = [backend.to_id(ghost) if name == "id" else value for name, value in like.items()]
        marks = ", ".join("?" for _ in like)
        backend.run(f"INSERT INTO jobs_{backend._jobs()} ({', '.join(map(repr_, like))}) VALUES ({marks})", *values)
    return ghost


def repr_(name: str) -> str:
    return f'"{name}"'


def forge_unit(backend: Backend, job_id: UUID, unit: str, state: bytes) -> None:
    """Put a unit result there."""
    if isinstance(backend, MemoryBackend):
        backend.store.tables.units[job_id, unit] = state
    else:
        assert isinstance(backend, SqlBackend)
        sql = "INSERT INTO unit_results (job_id, unit, version, state) VALUES (?, ?, 9, ?)"
        backend.run(sql, backend.to_id(job_id), unit, state)
