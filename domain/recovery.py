"""What others report of a recovery: a startup script, a backup tool, an administrator.

Each note is an event of the log, so the report can be folded again at any time.  Notes out of a file are in that file's
own stream, and say behind which byte they end: the position in the file and the notes are one and the same append.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from eventsourcing.domain import AggregateEvent

from .making import made

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

SEVERITIES: Final = ("info", "warning", "error")


class RecoveryEvent(AggregateEvent):
    """What both kinds carry."""

    VOCABULARY: ClassVar[int] = 1
    event_id: str

    @classmethod
    def made(cls, stream: UUID, version: int, at: datetime, **fields: Any) -> Self:
        """The event, at *version* of *stream*."""
        return made(cls, stream, version, at, **fields)


class RecoveryNoted(RecoveryEvent):
    """Somebody reports what happened to their data."""

    TOPIC = "joblog.recovery.noted"
    INSTANTS = ("happened_at",)

    type: str
    subsystem: str
    detail: str
    severity: str
    source: str
    done: bool  #: False: it failed, or is still to be done
    deleted: bool  #: data was deleted for good
    actor: str
    actor_id: str
    ipv4: str
    ipv6: str
    ids: list[str]
    titles: list[str]
    happened_at: datetime | None  #: as the line says; else when it was taken in
    offset: int = 0  #: behind which byte of its file the line ends
    digest: str = ""  #: of the line's bytes
    size: int = 0  #: of the line, with its end


class RecoveryFileRead(RecoveryEvent):
    """A file of notes was read on behind what was read before, or could not be."""

    TOPIC = "joblog.recovery.file-read"

    file: str
    offset: int
    taken: int
    skipped: int  #: lines that say nothing: blank, no JSON object, no type, too long
    digest: str  #: of the last line that was read, and its size: by them a file that was replaced is told
    size: int
    problem: str = ""


ALL: Final = (RecoveryNoted, RecoveryFileRead)
