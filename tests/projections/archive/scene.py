"""A log with jobs that ended for good, others that did not, and an archive of the former."""

from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from joblog.domain.job import Actor
from joblog.eventstore.archive_rows import archive_rows
from joblog.eventstore.store import Reading, Store
from joblog.projections.proof.heads import sign
from joblog.projections.runner import Runner
from joblog.workers.commands.archiving import Made, archive
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import claim, claimed, set_queue, submit
from tests.projections.proof.logs import SIGNER

ADA = Actor("ada")
DAY = 86_400_000_000  # microseconds


class Scene(NamedTuple):
    """What is in the log, by how it ended."""

    log: JobLog
    completed: list[UUID]
    cancelled: UUID
    failed: UUID
    running: UUID
    parent: UUID

    @property
    def ended(self) -> set[UUID]:
        """What may be archived."""
        return {*self.completed, self.cancelled}


def scene(log: JobLog, backend: Backend, *, jobs: int = 3, prefix: str = "") -> Scene:
    """Some jobs with units that ended, interleaved with some that did not; a day passes, then a head is signed."""
    held = [claimed(log, f"{prefix}done-{n}", queue=f"{prefix}q{n}", tags=("old",), args={"n": n}) for n in range(jobs)]
    parent = claimed(log, f"{prefix}parent", queue=f"{prefix}parents")
    going = claimed(log, f"{prefix}going", queue=f"{prefix}going")
    for unit in range(3):
        for one in (*held, going):
            one.complete_units([(f"step:{unit}", {"value": {"rows": unit}})], cursor={"row": unit})
    set_queue(log, f"{prefix}other", paused=True)
    lost = claimed(log, f"{prefix}lost", queue=f"{prefix}lost")
    lost.fail(reason="broken", text="the input is broken")
    for one in held:
        one.complete({"rows": 3})
    waiting = submit(log, f"{prefix}waiting", queue=f"{prefix}never")
    log.command("cancel", waiting, ADA)
    parent.release("yield")
    backend.clock.move(86_400)
    log.measure_clock()
    claim(log, queues=[f"{prefix}parents"])
    sign(log.store, SIGNER, None)
    return Scene(log, [one.job_id for one in held], waiting, lost.job_id, going.job_id, parent.job_id)


def archived(made: Scene, folder: Path, *, before: int | None = None, **more: Any) -> Made:
    """Archive what ended before now."""
    return archive(made.log, ADA, folder, before=made.log.store.now() if before is None else before, **more)


def follow(log: JobLog) -> None:
    """Bring every view to the end of the log."""
    Runner(log.store, log.mapper, "me").run()


def emptied(store: Store) -> set[UUID]:
    """The streams whose bodies are in archives, as the rows themselves say."""
    rows = archive_rows(store)
    found = {row[1] for one in rows.archives() for row in rows.rows_of(one, 0, 10**6) if row[4] == b""}
    return {UUID(bytes=stream) for stream in found}


def remove(folder: Path) -> None:
    """Take the archives away."""
    folder.rename(folder.with_name("elsewhere"))


def put_back(folder: Path) -> None:
    """And bring them again."""
    folder.with_name("elsewhere").rename(folder)


def told(log: JobLog) -> list[Any]:
    """The log as a follower gets it."""
    return log.store.log(0, 10**6, reading=Reading.TOLD)
