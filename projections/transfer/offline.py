"""Checking an export where there is no log: against its manifest, and against heads that were signed."""

from __future__ import annotations

import zlib
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ...eventstore.entries import from_line, leaf_of_row
from ..proof.merkle import Frontier
from ..proof.report import KnownHead, Report
from .lines import CHUNK, chunks
from .manifest import Manifest, manifest_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from ...eventstore.entries import Entry


def check_export(
    file: Path,
    heads: Sequence[KnownHead] = (),
    *,
    report: Callable[[int, int], None] = lambda _done, _end: None,
) -> Report:
    """Read the whole file and hash every event; *heads* are those of the manifest and of elsewhere.

    Raises:
        DamagedExportError: there is no whole manifest.
    """
    manifest = Manifest.load(manifest_of(file))
    reading = _Reading(file, manifest, heads)
    reading.run(report)
    reading.judge()
    return reading.report


class _Reading:
    """One pass over the file."""

    def __init__(self, file: Path, manifest: Manifest, heads: Sequence[KnownHead]) -> None:
        self._path, self._manifest = file, manifest
        self._heads = sorted(heads, key=lambda known: known.head.size)
        self._sizes = {known.head.size for known in heads}
        self._frontier = Frontier(manifest.first - 1, map(bytes.fromhex, manifest.before))
        self._roots: dict[int, bytes] = {}
        self._lines, self._bytes, self._last = sha256(), 0, manifest.first - 1
        self.report = Report(manifest.epoch, manifest.last)

    def run(self, report: Callable[[int, int], None]) -> None:
        """Read it all."""
        self._note_root()
        try:
            for number, chunk in enumerate(self._read()):
                first = self._manifest.first + number * CHUNK
                self._lines.update(chunk)
                self._bytes += len(chunk)
                known = self._manifest.chunks[number] if number < len(self._manifest.chunks) else ""
                if sha256(chunk).hexdigest() != known:
                    self.report.add("changed", first, first + CHUNK - 1, "somewhere in {at}: not as exported")
                for line in chunk.splitlines():
                    self._take(line)
                report(self.report.checked, self._manifest.count)
        except zlib.error as error:
            self.report.add(
                "changed", self._last + 1, self._manifest.last, f"from {{at}} on: can't be unpacked ({error})"
            )

    def _read(self) -> Iterator[bytes]:
        with self._path.open("rb") as file:
            for _, chunk in chunks(file, is_packed=self._path.name.endswith(".gz")):
                yield chunk

    def _take(self, line: bytes) -> None:
        expected = self._last + 1
        try:
            entry: Any = from_line(line)
        except ValueError as error:
            self.report.add("changed", expected, expected, f"{{at}}: the line holds {error}")
            entry = (expected, b"", 0, b"", b"")
        if entry[0] != expected:
            if isinstance(entry[0], int) and entry[0] > expected:
                self.report.add("missing", expected, entry[0] - 1, "{at}: not in the file")
            else:
                self.report.add("changed", expected, expected, f"{{at}}: position {entry[0]} stands here")
        self.report.checked += 1
        self._last = max(expected, entry[0]) if isinstance(entry[0], int) else expected
        self._frontier.add(leaf_of_row(entry))
        self._note_root()

    def _note_root(self) -> None:
        if self._frontier.size in self._sizes:
            self._roots[self._frontier.size] = self._frontier.root()

    def judge(self) -> None:
        """Whether it is what the manifest and the heads say."""
        manifest, report = self._manifest, self.report
        report.root = self._frontier.root()
        if self._last < manifest.last:
            report.add("missing", self._last + 1, manifest.last, "{at}: the file ends before")
        if self._last > manifest.last:
            report.add("changed", manifest.last + 1, self._last, "{at}: more than the manifest says")
        same = (self._lines.hexdigest(), self._bytes, report.root.hex()) == (
            manifest.sha256,
            manifest.bytes,
            manifest.root,
        )
        if not same and not report.findings:
            report.add("changed", manifest.first, manifest.last, "somewhere in {at}: not what the manifest says")
        proven = manifest.first - 1
        for known in self._heads:
            size = known.head.size
            if known.head.store_id != UUID(manifest.store_id):
                report.add("contradiction", manifest.first, manifest.last, f"a head at {size} is of another log")
            elif size in self._roots and self._roots[size] == known.head.root:
                proven = max(proven, size)
                report.heads += 1
                report.signed = max(report.signed, size if known.is_trusted else 0)
            elif size in self._roots:
                text = f"the {known.source} head at {size} says otherwise: somewhere in {{at}} the export is another"
                report.add("contradiction", proven + 1, size, text)


def entries_of(file: Path) -> Iterator[list[Entry]]:
    """The events of a file that was checked, a chunk at a time."""
    with file.open("rb") as opened:
        for _, chunk in chunks(opened, is_packed=file.name.endswith(".gz")):
            yield [from_line(line) for line in chunk.splitlines()]
