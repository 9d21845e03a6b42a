"""Verification of a part: a range, or one job, each event under its leaf, and the tree's way up from there to a head."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...eventstore.bodies import Elsewhere
from ...eventstore.entries import leaf_of_row
from ...eventstore.proof_rows import proof_rows
from ...eventstore.store import Reading
from .archived import judge_archives
from .merkle import folded
from .report import KnownHead, Report, ranges
from .tiles import WIDTH, TiledTree

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from uuid import UUID

    from ...eventstore.store import Store

_PAGE: Final = 16 * WIDTH  #: events that are read at once
_BITS: Final = 8


def check_range(store: Store, first: int, last: int, heads: Sequence[KnownHead] = ()) -> Report:
    """Hold the events of a range against the tree, and the tree's way up from them against the heads."""
    part = _Part(store, heads)
    last = min(last, part.report.end)
    for done in range(first - 1, last, _PAGE):
        upto = min(done + _PAGE, last)
        part.compare(proof_rows(store).entries(done, _PAGE, upto, Reading.COMPARED), range(done + 1, upto + 1))
    return part.judged()


def check_job(store: Store, job_id: UUID, heads: Sequence[KnownHead] = ()) -> Report:
    """As ``check_range``, for the events of one stream."""
    part, version = _Part(store, heads), 0
    while entries := proof_rows(store).stream_entries(job_id, version, _PAGE, Reading.COMPARED):
        for expected, entry in enumerate(entries, version + 1):
            if entry[2] != expected:
                part.report.add("stream", entry[0], entry[0], f"version {expected} of {job_id} is not there ({{at}})")
                break
        part.compare(entries, [entry[0] for entry in entries])
        version = entries[-1][2]
    return part.judged()


class _Part:
    """Events anywhere in the log, each under its leaf."""

    def __init__(self, store: Store, heads: Sequence[KnownHead]) -> None:
        rows, state = proof_rows(store), store.state()
        self._tree = TiledTree(rows.tree_size(), rows.tile)
        self._heads = [known for known in heads if known.head.store_id == state.store_id]
        self.report = Report(state.epoch, state.head, tree=self._tree.size)
        self._touched: set[int] = set()
        self._changed: list[int] = []
        self._missing: list[int] = []
        self._last = 0
        self._store = store
        self._archives: set[str] = set()  #: that events were read of, or would have been

    def compare(self, entries: Sequence[Any], positions: Iterable[int]) -> None:
        """The events at *positions*."""
        made = {entry[0]: self._leaf(entry) for entry in entries}
        self.report.checked += len(made)
        for position in positions:
            self._last = max(self._last, position)
            leaf = made.get(position)
            if leaf is None:
                self._missing.append(position)
            elif position <= self._tree.size:
                number, offset = divmod(position - 1, WIDTH)
                self._touched.add(number)
                seen = self._tree.hashes(0, number)
                if offset >= len(seen) or seen[offset] != leaf:
                    self._changed.append(position)

    def _leaf(self, entry: Any) -> bytes:
        if isinstance(entry[4], Elsewhere):
            self._archives.add(entry[4].archive)
        if not self.report.stands_in(entry[0], entry[4]):
            return leaf_of_row(entry)
        number, offset = divmod(entry[0] - 1, WIDTH)
        seen = self._tree.hashes(0, number) if entry[0] <= self._tree.size else []
        return seen[offset] if offset < len(seen) else leaf_of_row(entry)

    def judged(self) -> Report:
        """What that comes to."""
        judge_archives(self._store, self.report, self._archives)
        for first, last in ranges(self._missing):
            self.report.add("missing", first, last, "{at}: not there any more")
        for first, last in ranges(self._changed):
            self.report.add("changed", first, last, "{at}: not as first written, says the tree")
        self._climb()
        for known in self._heads:
            if known.head.size <= self._tree.size:
                self._hold(known)
        return self.report

    def _climb(self) -> None:
        """Each full tile is one hash of the level above it."""
        level, touched = 0, self._touched
        while touched:
            for number in sorted(touched):
                hashes = self._tree.hashes(level, number)
                if len(hashes) == WIDTH and self._tree.node((level + 1) * _BITS, number) != folded(hashes):
                    wide = WIDTH << (_BITS * level)
                    self.report.add("tree", number * wide + 1, (number + 1) * wide, "the tree was changed above {at}")
            touched = {
                number // WIDTH for number in touched if (number + 1) * (WIDTH << (_BITS * level)) <= self._tree.size
            }
            level += 1

    def _hold(self, known: KnownHead) -> None:
        size = known.head.size
        if self._tree.root(size) == known.head.root:
            self.report.heads += 1
            self.report.signed = max(self.report.signed, size if known.is_trusted else 0)
        else:
            self.report.add(
                "contradiction", 1, size, f"the {known.source} head at {size} says otherwise: see the whole log"
            )
