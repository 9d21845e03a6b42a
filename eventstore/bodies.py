"""The one way to the bytes of an event: from its row, or, where the row was emptied, from the archive that has them.

Whatever comes from an archive is checked against the leaf that the tree has of it before anybody sees it.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Protocol, Self
from uuid import UUID

from ..domain.errors import ArchiveDamagedError, ArchiveMissingError
from .append import EventRow
from .archive_files import ArchiveFiles
from .entries import Entry, leaf_of_row
from .store import LoggedEvent, Reading

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from .archive_files import ArchiveRow

_HASH: Final = 32
_TILE: Final = 256
_OF_FIVE: Final = itemgetter(4)  #: the body of an event with its place
_OF_THREE: Final = itemgetter(2)  #: and of one in its stream


class Elsewhere(bytes):
    """A body that an archive has: empty if the archive is not at hand, or damaged there (``problem``)."""

    archive: str
    problem: str

    @classmethod
    def of(cls, archive: str, state: bytes = b"", problem: str = "") -> Self:
        """The bytes with the name of the archive."""
        made = cls(state)
        made.archive, made.problem = archive, problem
        return made


def archive_of(state: bytes) -> str:
    """The archive that has this body, and is not at hand; empty if the body is here."""
    return state.archive if not state and isinstance(state, Elsewhere) else ""


class Places(Protocol):
    """What of the log tells where a body is."""

    def archives_of(self, streams: Collection[bytes]) -> Mapping[bytes, ArchiveRow]:
        """The archives of those of *streams* that have one."""

    def rows_at(self, stream_id: UUID, versions: Sequence[int]) -> list[Any]:
        """The rows of these versions of a stream, as entries."""

    def leaf_tiles(self, numbers: Sequence[int]) -> Mapping[int, bytes]:
        """The leaves of the tree in these tiles."""


class Bodies:
    """Fills in what was archived."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self.files = ArchiveFiles()

    # -- for each form in which rows are read ----------------------------------------------------------------------------

    def logged(self, events: list[LoggedEvent], reading: Reading = Reading.CHECKED) -> list[LoggedEvent]:
        """Events of the log."""
        if all(map(_OF_FIVE, events)):
            return events
        rows = [Entry(e.position, e.stream_id.bytes, e.version, e.topic.encode(), b"") for e in events if not e.state]
        found = self._find(rows, reading)
        return [event._replace(state=found.get(event.position, event.state)) for event in events]

    def of_stream(self, stream_id: UUID, events: list[EventRow]) -> list[EventRow]:
        """Events of one stream."""
        if all(map(_OF_THREE, events)):
            return events
        found = self.at_versions(stream_id, [event.version for event in events if not event.state])
        return [event._replace(state=found.get(event.version, event.state)) for event in events]

    def entries(self, rows: list[Any], reading: Reading = Reading.CHECKED) -> list[Any]:
        """Rows as entries."""
        if all(map(_OF_FIVE, rows)):
            return rows
        found = self._find([Entry(*row) for row in rows if row[4] == b"" and row[1] is not None], reading)
        return [row if row[0] not in found else (*row[:4], found[row[0]]) for row in rows]

    def at_versions(self, stream_id: UUID, versions: Sequence[int]) -> dict[int, bytes]:
        """Bodies by version: those of these rows of a stream that an archive has."""
        rows = [Entry(*row) for row in self._places.rows_at(stream_id, versions)]
        found = self._find([row for row in rows if not row.state], Reading.CHECKED)
        return {row.version: found[row.position] for row in rows if row.position in found}

    # -- the one look ------------------------------------------------------------------------------------------------------

    def _find(self, rows: Sequence[Entry], reading: Reading) -> dict[int, bytes]:
        """Bodies by position; what no archive covers was emptied by somebody else, and stays as it is."""
        archives = self._places.archives_of({row.stream for row in rows})
        lots: dict[ArchiveRow, list[Entry]] = {}
        for row in rows:
            archive = archives.get(row.stream)
            if archive is not None and archive.first <= row.position <= archive.last:
                lots.setdefault(archive, []).append(row)
        found: dict[int, bytes] = {}
        for archive, mine in lots.items():
            found |= self._from(archive, mine, reading)
        return found

    def _from(self, archive: ArchiveRow, rows: list[Entry], reading: Reading) -> dict[int, bytes]:
        try:
            file = self.files.open(archive)
        except (ArchiveMissingError, ArchiveDamagedError) as error:
            if reading is Reading.CHECKED:
                raise
            return {row.position: _elsewhere(archive, error) for row in rows}
        leaves = {} if reading is Reading.COMPARED else self._leaves([row.position for row in rows])
        found: dict[int, bytes] = {}
        for row in rows:
            try:
                entry = file.entry(row.position)
                if entry is None:
                    raise ArchiveDamagedError(archive.name, row.position, "it is not there")  # noqa: TRY301 - see below
                if reading is Reading.COMPARED:
                    found[row.position] = Elsewhere.of(archive.name, entry.state)
                    continue
                _check(archive, row, entry, leaves[row.position])
                found[row.position] = entry.state
            except ArchiveDamagedError as error:  # of this position; the next one may be good
                if reading is Reading.CHECKED:
                    raise
                found[row.position] = _elsewhere(archive, error)
        return found

    def _leaves(self, positions: list[int]) -> dict[int, bytes]:
        numbers = sorted({(position - 1) // _TILE for position in positions})
        tiles = self._places.leaf_tiles(numbers)
        found: dict[int, bytes] = {}
        for position in positions:
            number, offset = divmod(position - 1, _TILE)
            found[position] = tiles.get(number, b"")[offset * _HASH : (offset + 1) * _HASH]
        return found


def _elsewhere(archive: ArchiveRow, error: ArchiveMissingError | ArchiveDamagedError) -> Elsewhere:
    return Elsewhere.of(archive.name, problem=str(error) if isinstance(error, ArchiveDamagedError) else "")


def _check(archive: ArchiveRow, row: Entry, entry: Entry, leaf: bytes) -> None:
    """Whether it is the very event of that row, as the tree saw it.

    Raises:
        ArchiveDamagedError: it is not.
    """
    if entry[:4] != row[:4] or leaf_of_row(entry) != leaf:
        raise ArchiveDamagedError(archive.name, row.position, "it is not what was written")
