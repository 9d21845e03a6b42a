"""Real imports of a real file, by real worker processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

from joblog.api.cli.demo import airports
from joblog.domain.spec import JobSpec
from joblog.workers.commands.log import JobLog


def submit(log: JobLog, folder: Path, *, key: str = "airports", batch: int = 2000, pace: float = 0.0) -> UUID:
    """Hand in the airports: 28,000 rows, *batch* a unit, *pace* seconds between two."""
    args: dict[str, Any] = {"source": str(airports()), "target": f"sqlite:///{folder / 'airports.db'}"}
    args |= {"table": "airports", "key": ["icao"], "batch": batch, "pace": pace}
    return log.submit(JobSpec("import.file", args, key=key, owner="ada")).job_id
