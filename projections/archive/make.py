"""Writing an archive: into a staging folder, read again and compared with log and tree, and only then given its name.

What was published is never written over: two logs may share a folder, and a log may have been put back.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import file_digest, sha256
from typing import TYPE_CHECKING, Final

from ...domain.errors import ArchiveDamagedError, CorruptLogError
from ...eventstore.archive_files import ArchiveFile, ArchiveManifest, Member, file_of, manifest_of
from ...eventstore.archive_rows import archive_rows
from ...eventstore.entries import Entry, leaf_of_row, rows_digest, to_line
from ...eventstore.failpoint import failpoint
from ...eventstore.files import publish, sync
from ...eventstore.statements import chunks
from ..backup.generations import Folder
from ..proof.tiles import WIDTH
from ..proof.tree import stored_tree
from ..transfer.lines import packed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ...eventstore.store import Store
    from .plan import Plan

CHUNK: Final = 250  #: events of a member


def make(store: Store, plan: Plan, folder: Path) -> ArchiveManifest:
    """Put the events of *plan* into a new archive in *folder*.

    Raises:
        StoreBusyError: another one is made there.
        CorruptLogError: the events are not those that the tree has seen; nothing was published.
    """
    with Folder(folder).staging() as staging:
        made = _write(store, plan, staging, "archive")
        failpoint("archive.written")
        _verify(store, plan, staging, made)
        failpoint("archive.verified")
        return _publish(staging, folder, made, plan)


def _write(store: Store, plan: Plan, staging: Path, name: str) -> ArchiveManifest:
    lines, whole = sha256(), sha256()
    size = offset = 0
    members: list[Member] = []
    heads: list[Entry] = []
    with file_of(staging, name).open("xb") as file:
        for some in chunks(plan.positions, CHUNK):
            entries = _entries(store, some)
            chunk = b"".join(map(to_line, entries))
            data = packed(chunk)
            members.append(Member(some[0], some[-1], offset, len(data)))
            heads += [entry._replace(state=b"") for entry in entries]
            lines.update(chunk)
            whole.update(data)
            size += len(chunk)
            offset += file.write(data)
    sync(file_of(staging, name))
    state = store.state()
    count, rows = rows_digest(heads)
    return ArchiveManifest(
        store_id=str(state.store_id),
        epoch=state.epoch,
        name=name,
        first=plan.positions[0],
        last=plan.positions[-1],
        events=count,
        streams=len(plan.streams),
        rows=rows,
        head=plan.head.note,
        sha256=lines.hexdigest(),
        size=size,
        file_sha256=whole.hexdigest(),
        file_size=offset,
        members=[list(member) for member in members],
    )


def _entries(store: Store, positions: Sequence[int]) -> list[Entry]:
    """The events there, each the one that the tree has seen."""
    entries = [Entry(*row) for row in archive_rows(store).at(positions)]
    tree = stored_tree(store)
    for position, entry in zip(positions, entries, strict=True):
        number, offset = divmod(position - 1, WIDTH)
        if entry.position != position or leaf_of_row(entry) != tree.hashes(0, number)[offset]:
            raise CorruptLogError(f"position {position} is not what the tree has seen; nothing was archived")
    return entries


def _verify(store: Store, plan: Plan, staging: Path, made: ArchiveManifest) -> None:
    """Read it again from the disk, against rows and tree."""
    file = ArchiveFile(file_of(staging, made.name), made)
    found = iter(file.entries())
    for some in chunks(plan.positions, CHUNK):
        for entry in _entries(store, some):
            if next(found, None) != entry:
                raise ArchiveDamagedError(
                    made.name, entry.position, "it is not what was written; is the disk in order?"
                )
    if next(found, None) is not None:
        raise ArchiveDamagedError(made.name, made.last, "it holds more than was written")


def _publish(staging: Path, folder: Path, made: ArchiveManifest, plan: Plan) -> ArchiveManifest:
    """Give it the first name that is free, or that this very archive has already: a killed run may have left it."""
    stem, number = f"{made.store_id[:8]}-{plan.positions[0]}-{plan.positions[-1]}", 1
    while True:
        named = replace(made, name=stem if number == 1 else f"{stem}-{number}")
        manifest = manifest_of(folder, named.name)
        if manifest.is_file() and manifest.read_bytes() == named.encoded() and _is_whole(folder, named):
            break
        if not manifest.exists() and not file_of(folder, named.name).exists():
            publish(file_of(staging, made.name), file_of(folder, named.name))
            staged = manifest_of(staging, made.name)
            staged.write_bytes(named.encoded())
            publish(staged, manifest)
            break
        number += 1
    failpoint("archive.published")
    return named


def _is_whole(folder: Path, made: ArchiveManifest) -> bool:
    with file_of(folder, made.name).open("rb") as file:
        return file_digest(file, "sha256").hexdigest() == made.file_sha256
