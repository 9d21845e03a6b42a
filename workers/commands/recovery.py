"""Taking notes of recovery into the log: by hand, and out of files that others append to, each line once.

What was read of a file is said by the events of its own stream, together with the notes: there is nothing to keep in
step, and two importers meet at the same version.  A file is known by its inode and its first line; one that was
truncated, replaced or rotated is another one, told by its size and by the last line that was read.
"""

from __future__ import annotations

import hashlib
import logging
import os
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple
from uuid import UUID, uuid5

from ...domain import storable
from ...domain.errors import InvalidFieldError, JobLogError, VersionConflictError
from ...domain.identity import RECOVERY
from ...domain.recovery import RecoveryFileRead, RecoveryNoted
from ...eventstore.append import Append, EventRow
from ...eventstore.failpoint import failpoint
from ...projections.recovery_lines import LINE_LIMIT, of_fields, parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...domain.job import Actor
    from .log import JobLog

logger = logging.getLogger(__name__)

BATCH: Final = 200  #: lines in one append
_CHUNK: Final = 64 * 1024


class Imported(NamedTuple):
    """What one import did."""

    taken: int
    skipped: int
    offset: int


class Line(NamedTuple):
    """A whole line: its bytes without its end (None: too long), and where it ends."""

    text: bytes | None
    digest: str
    size: int
    end: int


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the stream of a file stands."""

    stream: UUID
    version: int
    offset: int
    digest: str
    size: int
    problem: str


# -- by hand ---------------------------------------------------------------------------------------------------------


def note(log: JobLog, fields: dict[str, Any], actor: Actor) -> int:
    """Record what an administrator reports, once for a request id; returns its position.

    Raises:
        InvalidFieldError: no type, or one that is no text.
    """
    kind = fields.get("type")
    if not isinstance(kind, str) or not kind.strip():
        raise InvalidFieldError("type", f"{kind!r} is no type of event", "give a short name such as restore-finished")
    made = of_fields({**fields, "source": "manual"})
    assert made is not None  # noqa: S101 - it has a type
    made = made._replace(actor=actor.name, actor_id=actor.name)
    stream = uuid5(RECOVERY, f"note/{actor.request_id or log.ids.next()}")
    answer = log.writer.append(_append(log, stream, 0, [RecoveryNoted.made(stream, 1, log.now(), **made._asdict())]))
    if isinstance(answer, VersionConflictError):
        return log.store.position_of(stream, 1) or 0  # the same request again
    if isinstance(answer, JobLogError):
        raise answer
    return answer.position


def _append(log: JobLog, stream: UUID, expected: int, events: list[Any]) -> Append:
    command = log.ids.next()
    rows: list[EventRow] = []
    for index, event in enumerate(events):
        _, version, topic, state = log.mapper.encode(event, f"{command}.{index}")
        rows.append(EventRow(version, topic, state))
    return Append(stream, expected, rows, f"{command}.0")


# -- out of a file ---------------------------------------------------------------------------------------------------


def import_file(log: JobLog, path: str | Path) -> Imported:
    """Take in what was appended to the file since the last time; a last line without its end is left.

    The file that it was rotated to (``NAME.1``) is read to its end first.  A file that can't be read is itself a row of
    the report, once until it can be read again or fails otherwise.
    """
    file = Path(path)
    before, now = (_import_one(log, one) for one in (file.with_name(f"{file.name}.1"), file))
    return Imported(before.taken + now.taken, before.skipped + now.skipped, now.offset)


def _import_one(log: JobLog, file: Path) -> Imported:
    try:
        with file.open("rb") as opened:
            made = _import(log, file, opened)
    except FileNotFoundError:
        return Imported(0, 0, 0)  # nothing was ever reported
    except OSError as error:
        _report(log, file, f"can't be read: {error.strerror or error}")
        return Imported(0, 0, 0)
    if made.taken or made.skipped:
        _report(log, file, "")
    return made


def _import(log: JobLog, file: Path, opened: BinaryIO) -> Imported:
    first = next(_lines(opened, 0), None)
    if first is None:
        return Imported(0, 0, 0)  # not one whole line yet
    place = _place(log, opened, first)
    taken = skipped = 0
    opened.seek(place.offset)
    lines = _lines(opened, place.offset)
    while batch := list(islice(lines, BATCH)):
        failpoint("recovery.read")
        try:
            place, notes = _write(log, file, place, batch)
        except VersionConflictError:
            break  # another importer is at it
        failpoint("recovery.appended")
        taken, skipped = taken + notes, skipped + len(batch) - notes
    return Imported(taken, skipped, place.offset)


def _write(log: JobLog, file: Path, place: _Place, batch: list[Line]) -> tuple[_Place, int]:
    now, version = log.now(), place.version
    events: list[Any] = []
    for line in batch:
        said = None if line.text is None else parse(line.text)
        if said is not None:
            version += 1
            where = {"offset": line.end, "digest": line.digest, "size": line.size}
            events.append(RecoveryNoted.made(place.stream, version, now, **said._asdict(), **where))
    notes, last = len(events), batch[-1]
    read = {"file": storable.text(file.name, limit=200), "offset": last.end, "digest": last.digest, "size": last.size}
    read |= {"taken": notes, "skipped": len(batch) - notes}
    events.append(RecoveryFileRead.made(place.stream, version + 1, now, **read))
    answer = log.writer.append(_append(log, place.stream, place.version, events))
    if isinstance(answer, JobLogError):
        raise answer
    return _Place(place.stream, version + 1, last.end, last.digest, last.size, ""), notes


def _place(log: JobLog, opened: BinaryIO, first: Line) -> _Place:
    """The stream of this very file: the first of its name that is empty, or ends with what stands in the file there."""
    inode = os.fstat(opened.fileno()).st_ino  # not the device: its number may change with the next boot
    number = 0
    while True:
        stream = uuid5(RECOVERY, f"file/{inode}/{first.digest}/{number}")
        place = _stands(log, stream)
        if place.offset == 0 or _ends_there(opened, place):
            return place
        number += 1


def _stands(log: JobLog, stream: UUID) -> _Place:
    found = log.store.read(stream, newest_first=True, limit=1)
    if not found:
        return _Place(stream, 0, 0, "", 0, "")
    event = log.mapper.decode(stream, *found[0])
    return _Place(stream, event.originator_version, event.offset, event.digest, event.size, event.problem)


def _ends_there(opened: BinaryIO, place: _Place) -> bool:
    if os.fstat(opened.fileno()).st_size < place.offset:
        return False
    opened.seek(place.offset - place.size)
    digest, left = hashlib.sha256(), place.size
    while left and (chunk := opened.read(min(_CHUNK, left))):
        digest.update(chunk)
        left -= len(chunk)
    return digest.hexdigest()[:32] == place.digest


def _lines(opened: BinaryIO, offset: int) -> Iterator[Line]:
    """Whole lines from *offset* on, in bounded memory however long a line is."""
    rest, digest, size = bytearray(), hashlib.sha256(), 0
    while piece := opened.readline(_CHUNK):
        digest.update(piece)
        size += len(piece)
        if size <= LINE_LIMIT + 2:
            rest += piece
        if piece.endswith(b"\n"):
            offset += size
            whole = bytes(rest).rstrip(b"\r\n") if size <= LINE_LIMIT + 2 else None
            yield Line(whole, digest.hexdigest()[:32], size, offset)
            rest, digest, size = bytearray(), hashlib.sha256(), 0


def _report(log: JobLog, file: Path, problem: str) -> None:
    """An importer that fails is visible: in the log, unless the same stands there already; empty: it can read again."""
    if problem:
        logger.warning("%s: %s", file, problem)
    stream = uuid5(RECOVERY, f"unread/{storable.text(str(file), limit=1000)}")
    place = _stands(log, stream)
    if place.problem == problem:
        return
    said: dict[str, Any] = {"file": storable.text(file.name, limit=200), "offset": 0, "taken": 0, "skipped": 0}
    said |= {"digest": "", "size": 0, "problem": storable.text(problem)}
    event = RecoveryFileRead.made(stream, place.version + 1, log.now(), **said)
    answer = log.writer.append(_append(log, stream, place.version, [event]))
    if isinstance(answer, JobLogError) and not isinstance(answer, VersionConflictError):
        raise answer
