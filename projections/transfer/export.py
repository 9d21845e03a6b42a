"""Writing an export: chunk by chunk into a part file, which a later try goes on with; then the file, then its manifest.

The bytes follow from the range alone: in one go or in ten, packed or not, by whoever.
"""

from __future__ import annotations

import zlib
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ...domain.errors import CorruptLogError, InvalidFieldError, TamperedError
from ...eventstore.archive_rows import archive_rows
from ...eventstore.entries import from_line, leaf_hash, to_line
from ...eventstore.failpoint import failpoint
from ...eventstore.files import publish, sync
from ...eventstore.proof_rows import proof_rows
from ..proof.heads import stored_heads
from ..proof.merkle import Frontier
from ..proof.tree import build, stored_tree
from .lines import CHUNK, chunks, packed
from .manifest import Manifest, manifest_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...eventstore.store import Store


def export(
    store: Store,
    file: Path,
    *,
    first: int = 1,
    last: int | None = None,
    report: Callable[[int, int], None] = lambda _done, _end: None,
) -> Manifest:
    """Write the events from *first* to *last* (or the log's end) into *file*, packed if its name ends in ``.gz``.

    Raises:
        InvalidFieldError: there is no such range, or something else is in the file's place.
        ArchiveMissingError: bodies of it are in an archive that is not at hand.
        TamperedError: the events are not those that the tree has seen.
    """
    last = _last(store, first, last)
    need_archives(store, first, last)
    manifest = manifest_of(file)
    if manifest.exists():
        made = Manifest.load(manifest)
        if file.exists() and (made.first, made.last, made.store_id) == (first, last, str(store.state().store_id)):
            return made
        raise InvalidFieldError("file", f"{file} holds another export", "give a new name")
    part = file.with_name(file.name + ".part")
    if file.exists() and not part.exists():
        file.replace(part)  # all of it was written, only its manifest was not
    writing = _Writing(store, part, first, is_packed=file.name.endswith(".gz"))
    writing.write(last, report)
    failpoint("export.written")
    publish(part, file)
    failpoint("export.published")
    made = writing.manifest(last, file.name)
    made.save(manifest)
    return made


def _last(store: Store, first: int, last: int | None) -> int:
    head = store.head()
    last = head if last is None else last
    if not 1 <= first <= last <= head:
        raise InvalidFieldError("range", f"{first} to {last}", f"the log has positions 1 to {head}")
    return last


def need_archives(store: Store, first: int, last: int) -> None:
    """Refuse before anything is written if bodies of a range are in an archive that is not at hand."""
    rows = archive_rows(store)
    for archive in rows.archives():
        found = rows.rows_of(archive, first - 1, 1) if archive.first <= last and archive.last >= first else []
        if found and found[0][0] <= last:
            store.bodies.files.open(archive)


class Streamed:
    """An export that goes elsewhere than into a file: chunk by chunk, the same bytes and the same manifest."""

    def __init__(self, store: Store, first: int = 1, last: int | None = None) -> None:
        self.first, self.last = first, _last(store, first, last)
        need_archives(store, first, self.last)
        self._writing = _Writing(store, Path("-"), first, is_packed=False)

    def chunk(self) -> bytes:
        """The next lines; empty behind the last one.

        Raises:
            TamperedError: all of them came, and are not those that the tree has seen.
        """
        sink = BytesIO()
        if not self._writing.add_chunk(sink, self.last):
            self._writing.compare(self.last)
        return sink.getvalue()

    def manifest(self, name: str) -> Manifest:
        """What they are, once all of them came, if they are kept in a file of that name."""
        return self._writing.manifest(self.last, name)


class _Writing:
    """A part file, and what it comes to so far."""

    def __init__(self, store: Store, part: Path, first: int, *, is_packed: bool) -> None:
        self._store, self._part, self._first, self._is_packed = store, part, first, is_packed
        if not getattr(store, "read_only", False):
            build(store)
        self._frontier = Frontier(first - 1, self._before(first - 1))
        self._before_hashes = [value.hex() for value in self._frontier.hashes]
        self._lines, self._file = sha256(), sha256()
        self._bytes = self._file_bytes = 0
        self._chunks: list[str] = []

    def _before(self, size: int) -> list[bytes]:
        """What the log before the range comes down to."""
        tree = stored_tree(self._store)
        if tree.size >= size:
            return tree.frontier(size)
        frontier = Frontier()
        while frontier.size < size:
            for entry in self._read(frontier.size, min(frontier.size + CHUNK, size)):
                frontier.add(leaf_hash(entry))
        return frontier.hashes

    def _read(self, done: int, upto: int) -> list[Any]:
        entries = proof_rows(self._store).entries(done, CHUNK, upto)
        if [entry[0] for entry in entries] != list(range(done + 1, upto + 1)):
            raise CorruptLogError(f"an event between {done + 1} and {upto} is missing; see `joblog verify`")
        return entries

    def write(self, last: int, report: Callable[[int, int], None]) -> None:
        """Go on to *last*."""
        self._part.touch()
        with self._part.open("r+b") as file:
            self._take_over(file, last)
            while self.add_chunk(file, last):
                failpoint("export.chunk")
                report(self._frontier.size - self._first + 1, last - self._first + 1)
        sync(self._part)
        self.compare(last)

    def add_chunk(self, file: BinaryIO, last: int) -> bool:
        """The next lines, at most to *last*; False if there are none."""
        done = self._frontier.size
        if done >= last:
            return False
        entries = self._read(done, min(done + CHUNK, last))
        for entry in entries:
            self._frontier.add(leaf_hash(entry))
        self._add(file, b"".join(map(to_line, entries)))
        return True

    def compare(self, last: int) -> None:
        """Refuse to vouch for events that are not those that the tree has seen."""
        tree = stored_tree(self._store)
        if tree.size >= last and tree.root(last) != self._frontier.root():
            raise TamperedError(self._first, "the events are not those that the tree has seen; nothing was published")

    def _add(self, file: BinaryIO, chunk: bytes) -> None:
        data = packed(chunk) if self._is_packed else chunk
        file.write(data)
        self._note(chunk, data)

    def _note(self, chunk: bytes, data: bytes) -> None:
        self._lines.update(chunk)
        self._file.update(data)
        self._bytes += len(chunk)
        self._file_bytes += len(data)
        self._chunks.append(sha256(chunk).hexdigest())

    def _take_over(self, file: BinaryIO, last: int) -> None:
        """Keep the whole chunks that an earlier try has left, if they are of this log; cut off the rest."""
        kept = 0
        try:
            for offset, chunk in chunks(file, is_packed=self._is_packed):
                entries = [from_line(line) for line in chunk.splitlines()]
                if len(entries) < CHUNK or entries[-1].position > last:
                    break
                if entries[0].position != self._frontier.size + 1:
                    raise InvalidFieldError(
                        "file", f"{self._part} is of another range", "remove it, or give a new name"
                    )
                if entries != [tuple(entry) for entry in self._read(self._frontier.size, entries[-1].position)]:
                    raise InvalidFieldError("file", f"{self._part} is of another log", "remove it, or give a new name")
                for entry in entries:
                    self._frontier.add(leaf_hash(entry))
                self._note(chunk, packed(chunk) if self._is_packed else chunk)
                kept = offset
        except (ValueError, zlib.error):  # torn, or never ours: what follows is written anew
            pass
        file.seek(kept)
        file.truncate()

    def manifest(self, last: int, name: str) -> Manifest:
        """What was written."""
        state = self._store.state()
        heads = [one for one in stored_heads(self._store) if one.head.store_id == state.store_id]
        return Manifest(
            store_id=str(state.store_id),
            epoch=state.epoch,
            first=self._first,
            last=last,
            count=last - self._first + 1,
            root=self._frontier.root().hex(),
            before=self._before_hashes,
            sha256=self._lines.hexdigest(),
            bytes=self._bytes,
            file=name,
            file_sha256=self._file.hexdigest(),
            file_bytes=self._file_bytes,
            chunks=self._chunks,
            heads=[one.note for one in heads if self._first - 1 <= one.head.size <= last],
        )
