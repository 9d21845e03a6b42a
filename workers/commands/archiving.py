"""Moving the bodies of finished streams out of the log: the file first, whole and checked, then one recorded transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...domain import identity
from ...domain.log_events import Archived
from ...eventstore.archive_files import ArchiveManifest, ArchiveRow
from ...eventstore.archive_rows import archive_rows
from ...projections.archive.make import make
from ...projections.archive.plan import MOST, Plan, plan
from .control import check_actor

if TYPE_CHECKING:
    from pathlib import Path

    from ...domain.job import Actor
    from ...projections.proof.notes import Verifier
    from .log import JobLog


class Made(NamedTuple):
    """What became of a plan."""

    plan: Plan
    manifest: ArchiveManifest | None  #: None if nothing was to be done
    position: int  #: of the event that records it


def archive(
    log: JobLog, actor: Actor, folder: Path, *, before: int, most: int = MOST, verifier: Verifier | None = None
) -> Made:
    """Archive the next streams that ended before the instant *before*, at most *most* events; again for more.

    Raises:
        InvalidFieldError: no head was signed in this epoch.
        SignatureError: the newest head was not signed under the key of *verifier*.
        StoreBusyError: another archive took them meanwhile; nothing was changed.
    """
    actor = check_actor(log, actor)
    chosen = plan(log.store, before, most, verifier)
    if not chosen.streams:
        return Made(chosen, None, 0)
    folder = folder.absolute()
    manifest = make(log.store, chosen, folder)
    version = log.store.version_of(identity.LOG_STREAM) + 1
    event = Archived.made(
        version,
        log.now(),
        name=manifest.name,
        first=manifest.first,
        last=manifest.last,
        events=manifest.events,
        streams=manifest.streams,
        digest=manifest.digest,
        rows=manifest.rows,
        actor=actor.name,
    )
    append = log.to_append(identity.LOG_STREAM, version - 1, [event], log.ids.next())
    row = ArchiveRow(0, manifest.name, manifest.first, manifest.last, manifest.events, manifest.digest, str(folder))
    position = archive_rows(log.store).write(append, row, chosen.streams, manifest.epoch)
    log.writer.refresh()
    log.waker.notify()
    return Made(chosen, manifest, position)
