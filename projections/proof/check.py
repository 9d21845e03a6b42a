"""Verification: the events as they are now, against the tree that saw them first, against heads that were signed.

Three witnesses, each harder to reach than the one before.  If event and tree differ, a head tells which of them was
changed; if both were changed alike, only a head kept elsewhere can tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...eventstore.entries import leaf_of_row
from ...eventstore.proof_rows import proof_rows
from ...eventstore.store import Reading
from .archived import judge_archives
from .report import KnownHead, Report, ranges
from .tiles import HASH, WIDTH, GrowingTree, TiledTree, split
from .tree import given_up_behind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...eventstore.store import Store

PAGE: Final = 16 * WIDTH  #: events that are read at once
_BITS: Final = 8
_STREAMS: Final = 20  #: broken streams that are told
_UNKNOWN: Final = bytes(HASH)  #: stands where neither event nor leaf is known


def check_log(
    store: Store, heads: Sequence[KnownHead] = (), *, report: Callable[[int, int], None] = lambda _p, _n: None
) -> Report:
    """Read the whole log, hash every event, and compare with tree and heads."""
    walk = _Walk(store, heads)
    walk.run(report)
    walk.judge()
    return walk.report


class _Walk:
    """One pass over the log: the tree as the events make it, and beside it, once they differ, as it was stored."""

    def __init__(self, store: Store, heads: Sequence[KnownHead]) -> None:
        self._store, self._rows = store, proof_rows(store)
        state = store.state()
        self._store_id = state.store_id
        self._heads = sorted(heads, key=lambda known: known.head.size)
        self.report = Report(state.epoch, state.head, tree=self._rows.tree_size())
        self._tree = TiledTree(self.report.tree, self._rows.tile)
        self._sizes = sorted({known.head.size for known in self._heads if 0 < known.head.size <= state.head})
        self._made, self._seen = GrowingTree(), None  # type: GrowingTree, GrowingTree | None
        self._roots: dict[int, tuple[bytes, bytes]] = {}
        self._changed: list[int] = []
        self._missing: list[int] = []
        self._lost = 0  #: how far the log once went
        self._upper: dict[tuple[int, int], bytes] = {}

    def run(self, report: Callable[[int, int], None]) -> None:
        """Read it all."""
        end, done = self.report.end, 0
        while done < end:
            upto = min(done + PAGE, end)
            stored = self._stored_leaves(done, upto)
            self._take(done, self._leaves(done, upto, split(stored)), stored)
            done = upto
            report(done, end)
        self._lost = self.report.tree
        self.report.root = self._made.root()

    def _leaves(self, done: int, upto: int, stored: list[bytes]) -> list[bytes | None]:
        """The leaf of each event; None where there is none."""
        entries = self._rows.entries(done, PAGE, upto, Reading.COMPARED)
        self.report.checked += len(entries)
        by_position: dict[int, bytes] = {}
        for entry in entries:
            position = entry[0]
            is_away = self.report.stands_in(position, entry[4]) and position - done <= len(stored)
            by_position[position] = stored[position - done - 1] if is_away else leaf_of_row(entry)
        return [by_position.get(position) for position in range(done + 1, upto + 1)]

    def _stored_leaves(self, done: int, upto: int) -> bytes:
        """The leaves as they were first seen, as far as the tree goes."""
        known = min(upto, self.report.tree) - done
        if known <= 0:
            return b""
        first, last = done // WIDTH, (upto - 1) // WIDTH
        tiles = self._rows.tiles(0, first, last)
        return b"".join(tiles.get(n, b"").ljust(WIDTH * HASH, b"\0") for n in range(first, last + 1))[: known * HASH]

    def _take(self, done: int, made: list[bytes | None], stored: bytes) -> None:
        known = len(stored) // HASH
        is_whole = None not in made
        if is_whole and b"".join(made[:known]) == stored:  # type: ignore[arg-type]
            self._extend(made, made)  # type: ignore[arg-type]
            return
        seen = split(stored)
        for offset, leaf in enumerate(made):
            if leaf is None:
                self._missing.append(done + offset + 1)
            elif offset < known and leaf != seen[offset]:
                self._changed.append(done + offset + 1)
        filled = [leaf or (seen[i] if i < known else _UNKNOWN) for i, leaf in enumerate(made)]
        if self._seen is None:
            self._seen = self._made.copy()
        self._extend(filled, seen + filled[known:])

    def _extend(self, made: list[bytes], seen: list[bytes]) -> None:
        """Both trees, with a stop at each head."""
        start, goal = self._made.size, self._made.size + len(made)
        stops = [size for size in self._sizes if start < size < goal] + [goal]
        done = 0
        for stop in stops:
            some = slice(done, stop - start)
            self._made.extend(made[some])
            if self._seen is not None:
                self._seen.extend(seen[some])
            if stop in self._sizes:
                self._roots[stop] = (self._made.root(), (self._seen or self._made).root())
            done = stop - start
        for tree in (self._made, self._seen):
            if tree is not None:
                self._upper.update({name: tile for name, tile in tree.changed.items() if name[0]})
                tree.changed.clear()

    # -- judging -----------------------------------------------------------------------------------------------------

    def judge(self) -> None:
        """What the differences mean."""
        proven, tree_proven = self._judge_heads()
        for first, last in ranges(self._missing):
            self.report.add("missing", first, last, "{at}: not there any more")
        if self._lost > self.report.end:
            self.report.add("missing", self.report.end + 1, self._lost, "{at}: the log ends before, and once went on")
        for first, last in ranges(p for p in self._changed if p > proven):
            sure = "a signed head proves it" if last <= tree_proven else "the tree says so, which no head confirms"
            self.report.add("changed", first, last, f"{{at}}: not as first written; {sure}")
        for first, last in ranges(p for p in self._changed if p <= proven):
            self.report.add(
                "tree", first, last, "{at}: the event is what a head proves, its leaf in the tree was changed"
            )
        self._judge_tiles()
        for at, stream in () if self.report.findings else self._rows.broken_streams(_STREAMS):
            self.report.add("stream", at, at, f"stream {stream}, from {{at}} on: its versions are not 1, 2, 3, ...")
        for stray in self._rows.strays(_STREAMS):
            self.report.add("stream", stray, stray, "{at}: no log has such a position")
        judge_archives(self._store, self.report)
        self.report.findings.sort(key=lambda finding: (finding.first, finding.last))

    def _judge_heads(self) -> tuple[int, int]:
        """How far heads prove the events, and how far the tree."""
        proven = tree_proven = 0
        for known in self._heads:
            head, size = known.head, known.head.size
            made, seen = self._roots.get(size, (b"", b""))
            if head.store_id != self._store_id:
                self.report.add("contradiction", 1, size, f"a head at {size} is of another log, {head.store_id}")
            elif head.root == made:
                proven = max(proven, size)
                self.report.heads += 1
                self.report.signed = max(self.report.signed, size if known.is_trusted else 0)
            elif (behind := self._given_up(known)) is not None:
                text = f"{{at}}: epoch {head.epoch} had them, the log was put back and went on in a newer epoch"
                self.report.add("rewound", behind + 1, size, text)
            elif size > self.report.end:
                self._lost = max(self._lost, size)
                if size <= self._tree.size and self._tree.root(size) == head.root:
                    tree_proven = max(tree_proven, size)
                elif proven < self.report.end:
                    text = f"{{at}}: the {known.source} head at {size} had them; as the log ends before, nothing proves them"
                    self.report.add("unproven", proven + 1, self.report.end, text)
            elif head.root == seen:
                tree_proven = max(tree_proven, size)
            else:
                text = f"the {known.source} head at {size} says otherwise: somewhere in {{at}} the log is another"
                self.report.add("contradiction", proven + 1, size, text)
        return proven, tree_proven

    def _given_up(self, known: KnownHead) -> int | None:
        if known.head.epoch >= self.report.epoch:
            return None
        behind = given_up_behind(self._store, known.head.epoch)
        return behind if behind is not None and behind < known.head.size else None

    def _judge_tiles(self) -> None:
        """The nodes above the leaves: nobody may build on ones that were changed."""
        for (level, number), made in sorted(self._upper.items()):
            have = min(max((self.report.tree >> (_BITS * level)) - number * WIDTH, 0), WIDTH)
            if have and self._rows.tile(level, number)[: have * HASH] != made[: have * HASH]:
                wide = WIDTH << (_BITS * level)
                first, last = number * wide + 1, min((number + 1) * wide, self.report.tree)
                self.report.add("tree", first, last, "the stored tree was changed above {at}")
