"""Restoring: verified beside the target, given a new epoch there, and only then put in its place; nothing is destroyed.

The new epoch voids every lease, cursor and head behind the backup: nobody goes on as if nothing had happened.
"""

from __future__ import annotations

from contextlib import closing
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...domain.errors import CorruptLogError, DamagedExportError, InvalidFieldError, JobLogError
from ...domain.identity import LOG_STREAM
from ...domain.log_events import EpochRaised
from ...eventstore.append import Append, EventRow
from ...eventstore.clock import moment
from ...eventstore.failpoint import failpoint
from ...eventstore.opening import open_store
from ...eventstore.sqlite_copy import alone, make_single, put_in_place
from .generations import Folder, load
from .make import check_digests, verified_facts
from .packing import Digests, unpack

if TYPE_CHECKING:
    from ...domain.ports import Clock, Ids
    from ...eventstore.mapper import OrjsonMapper
    from ...eventstore.sqlite_store import SqliteStore
    from .generations import Generation


class Restored(NamedTuple):
    """What a restore came to."""

    generation: str
    head: int  #: the last position that came from the backup
    epoch: int  #: the new one
    kept: Path | None  #: where the log lies that was there before
    is_new: bool  #: False: this very request was carried out before


class Request(NamedTuple):
    """Who wants what; the same *request_id* is carried out once."""

    actor: str
    reason: str
    request_id: str


def choose(path: Path, name: str = "") -> Generation:
    """A backup by name, or the newest.

    Raises:
        DamagedExportError: there is none, or it is not whole.
    """
    folder = Folder(path)
    if name:
        return load(path / Path(name).name)
    found = folder.generations()
    if not found:
        raise DamagedExportError(f"there is no whole backup in {path}")
    return found[-1]


class SqliteRestore:
    """A restore into the file *target*."""

    def __init__(self, target: Path, mapper: OrjsonMapper, clock: Clock, ids: Ids) -> None:
        self._target, self._mapper, self._clock, self._ids = target.absolute(), mapper, clock, ids

    def run(self, generation: Generation, request: Request) -> Restored:
        """Carry it out; refused, or killed, the target is what it was.

        Raises:
            DamagedExportError: the backup is not what its manifest says.
            StoreBusyError: somebody has the target open.
            CorruptLogError: the target is damaged: move it away first.
        """
        if generation.manifest.kind != "sqlite":
            raise InvalidFieldError("backup", "it holds events only", "use `joblog import-log` into an empty database")
        if (before := self._before(request)) is not None:
            return before
        folder, at = Folder(generation.path.parent), self._clock.now().astimezone(UTC)
        try:
            made = self._run(generation, request)
        except (JobLogError, OSError) as error:
            folder.note(
                at, "restore-failed", f"{generation.name}: {error}", done=False, database=generation.manifest.store_id
            )
            raise
        detail = f"{generation.name} into {self._target.name}, epoch {made.epoch} begins behind position {made.head}"
        folder.note(at, "restore", detail, done=True, database=generation.manifest.store_id)
        return made

    def _run(self, generation: Generation, request: Request) -> Restored:
        staged = self._target.with_name(self._target.name + ".restoring")
        for side in ("", "-wal", "-shm", "-journal", ".writer"):
            Path(f"{staged}{side}").unlink(missing_ok=True)  # what a killed one has left
        manifest = generation.manifest
        found = unpack(generation.path / manifest.file, staged)
        expected = Digests(manifest.bytes, manifest.sha256, manifest.packed_bytes, manifest.packed_sha256)
        try:
            check_digests(found, expected, manifest.file)
            facts, _ = verified_facts(staged)
        except CorruptLogError as error:
            raise DamagedExportError(f"{generation.name}: {error}") from error
        if facts != (manifest.store_id, manifest.epoch, manifest.head, manifest.root):
            raise DamagedExportError(f"{generation.name} does not hold what its manifest says")
        failpoint("restore.verified")
        epoch = self._raise_epoch(staged, generation, request, newest=self._epoch_of_target())
        failpoint("restore.raised")
        with alone(self._target):
            kept = self._keep()
            put_in_place(staged, self._target, kept)
        return Restored(generation.name, manifest.head, epoch, kept, is_new=True)

    def _keep(self) -> Path | None:
        """Where the present log goes; it is closed, whole and in one file by then."""
        if not self._target.exists():
            return None
        make_single(self._target)
        stamp = f"{self._clock.now().astimezone(UTC):%Y%m%dT%H%M%S.%fZ}"
        return self._target.with_name(f"{self._target.name}.replaced-{stamp}")

    def _open(self, path: Path) -> SqliteStore:
        return open_store(f"sqlite:///{path}", create=False, clock=self._clock)  # type: ignore[return-value]

    def _epoch_of_target(self) -> int:
        if not self._target.exists():
            return 0
        with closing(self._open(self._target)) as store:
            return store.state().epoch

    def _before(self, request: Request) -> Restored | None:
        """What this very request came to, if the target says so."""
        if not request.request_id or not self._target.exists():
            return None
        with closing(self._open(self._target)) as store:
            found = store.receipt(request.request_id)
            if found is None or found[0] != "restore":
                return None
            name, head, epoch = found[3].split(" ")
            return Restored(name, int(head), int(epoch), None, is_new=False)

    def _raise_epoch(self, staged: Path, generation: Generation, request: Request, *, newest: int) -> int:
        """In the copy, before anybody can see it; past the epoch of the log that it replaces, too."""
        with closing(self._open(staged)) as store:
            state = store.state()
            epoch = max(state.epoch, newest) + 1
            store.raise_epoch(self._append(store, epoch, request), epoch)
            if request.request_id:
                row = {"request_id": request.request_id, "action": "restore", "target": "log", "actor": request.actor}
                row["answer"] = f"{generation.name} {state.head} {epoch}"
                with store.writing("claim") as cursor:
                    store.statements.insert_receipt.run(cursor, row)
        make_single(staged)
        Path(f"{staged}.writer").unlink(missing_ok=True)
        return epoch

    def _append(self, store: SqliteStore, epoch: int, request: Request) -> Append:
        have = store.version_of(LOG_STREAM)
        at = moment(store.now())
        event = EpochRaised.made(have + 1, at, epoch=epoch, actor=request.actor, reason=request.reason)
        event_id = self._ids.next()
        _, version, topic, state = self._mapper.encode(event, event_id)
        return Append(LOG_STREAM, have, [EventRow(version, topic, state)], event_id)
