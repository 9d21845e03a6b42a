"""A copied database that somebody has edited: what a head that was kept elsewhere finds, and what is said without one."""

import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import pytest

from joblog.domain.job import Actor
from joblog.eventstore.opening import open_store
from joblog.projections.proof.check import check_log
from joblog.projections.proof.part import check_job, check_range
from joblog.projections.proof.report import KnownHead, Report
from joblog.projections.proof.tree import build
from tests.clocks import MovedClock
from tests.conformance.backends import Backend, MemoryBackend, SqlBackend, SqliteBackend
from tests.conformance.builders import claimed
from tests.projections.proof.logs import grow, grow_and_sign, known

HEADS = (40, 256, 300, 390)
END = 400
EDITS = 1000
TREE = ("DELETE FROM tree_tiles", "DELETE FROM tree_heads", "DELETE FROM tracking")


class Original(NamedTuple):
    """A log of ``END`` events, and the heads that somebody outside has kept."""

    path: Path
    kept: list[KnownHead]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Original:
    path = tmp_path_factory.mktemp("original") / "joblog.db"
    backend = SqliteBackend(f"sqlite:///{path}", MovedClock())
    log = backend.open()
    kept = grow_and_sign(log, *HEADS)
    grow(log, END - HEADS[-1], size=2)
    build(log.store)
    backend.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as driver:
        for name in ("events_no_update", "events_no_delete", "events_no_replace"):
            driver.execute(f"DROP TRIGGER {name}")
        driver.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return Original(path, kept)


# -- the edits: each answers the first position that is not what it was ------------------------------------------------

Edit = Callable[[sqlite3.Connection, random.Random], int]


def change(driver: sqlite3.Connection, chance: random.Random) -> int:
    at = chance.randint(1, END)
    what = chance.choice(
        [
            "state = CAST(substr(state, 1, 5) || 'x' || substr(state, 7) AS BLOB)",
            "state = CAST(state AS TEXT)",
            "state = x''",
            "topic = 'test.happened '",
            "topic = 'forged', state = x'7b7d'",
            "topic = CAST(topic AS BLOB)",
            "version = version + 10",
            "version = -1",
            "stream_id = randomblob(16)",
            "stream_id = stream_id || 'x'",
            "stream_id = CAST(stream_id || x'00' AS BLOB)",
        ]
    )
    driver.execute(f"UPDATE events SET {what} WHERE position = ?", (at,))
    return at


def delete(driver: sqlite3.Connection, chance: random.Random) -> int:
    at = chance.randint(1, END - 1)
    driver.execute("DELETE FROM events WHERE position = ?", (at,))
    return at


def close_the_gap(driver: sqlite3.Connection, chance: random.Random) -> int:
    at = delete(driver, chance)
    driver.execute("UPDATE events SET position = -position WHERE position > ?", (at,))
    driver.execute("UPDATE events SET position = -position - 1 WHERE position < 0")
    return at


def swap(driver: sqlite3.Connection, chance: random.Random) -> int:
    one, other = sorted(chance.sample(range(1, END + 1), 2))
    driver.execute("UPDATE events SET position = -1 WHERE position = ?", (one,))
    driver.execute("UPDATE events SET position = ? WHERE position = ?", (one, other))
    driver.execute("UPDATE events SET position = ? WHERE position = -1", (other,))
    return one


def insert(driver: sqlite3.Connection, chance: random.Random) -> int:
    at = chance.randint(1, END)
    driver.execute("UPDATE events SET position = -position WHERE position >= ?", (at,))
    driver.execute("UPDATE events SET position = 1 - position WHERE position < 0")
    driver.execute("INSERT INTO events VALUES (?, randomblob(16), 1, 'forged', x'7b7d')", (at,))
    return at


def insert_before_the_beginning(driver: sqlite3.Connection, chance: random.Random) -> int:
    at = -chance.randint(0, 5)
    driver.execute("INSERT INTO events VALUES (?, randomblob(16), 1, 'forged', x'7b7d')", (at,))
    return at


def truncate(driver: sqlite3.Connection, chance: random.Random) -> int:
    at = chance.randint(1, END)
    driver.execute("DELETE FROM events WHERE position >= ?", (at,))
    return at


def rewind(driver: sqlite3.Connection, chance: random.Random) -> int:
    """Put back to an older state, from which it went on differently."""
    at = truncate(driver, chance)
    for position in range(at, chance.randint(at, END + 30) + 1):
        driver.execute("INSERT INTO events VALUES (?, randomblob(16), 1, 'other', x'7b7d')", (position,))
    return at


RANDOM_EDITS: tuple[Edit, ...] = (
    change, change, delete, close_the_gap, swap, insert, insert_before_the_beginning, truncate, rewind,
)  # fmt: skip


class Copy:
    """Copies of the original, one after the other in the same place."""

    def __init__(self, original: Original, path: Path) -> None:
        self._original, self.path = original, path

    def edited(self, edit: Edit, chance: random.Random, *, hidden: bool) -> int:
        """Edit a new copy; *hidden*: also make tree and heads new, as one does who knows of them."""
        shutil.copy(self._original.path, self.path)
        with closing(sqlite3.connect(self.path, isolation_level=None)) as driver:
            driver.execute("PRAGMA journal_mode = OFF")
            driver.execute("BEGIN")
            first = edit(driver, chance)
            for sql in TREE if hidden else ():
                driver.execute(sql)
            driver.execute("COMMIT")
        return first

    def check(self, kept: list[KnownHead]) -> Report:
        store = open_store(f"sqlite:///{self.path}", create=False)
        try:
            return check_log(store, kept)
        finally:
            store.close()


@pytest.fixture
def copy(original: Original, tmp_path: Path) -> Copy:
    return Copy(original, tmp_path / "copy.db")


def first_of(report: Report) -> int:
    return min(finding.first for finding in report.findings)


def test_a_thousand_edits_are_all_found_by_position(original: Original, copy: Copy) -> None:
    """One copy, edited a thousand times on the connection that reads it, and each time put back."""
    chance = random.Random(20300101)
    shutil.copy(original.path, copy.path)
    store = open_store(f"sqlite:///{copy.path}", create=False)
    driver = store._own("reader").connection.connection.driver_connection  # type: ignore[attr-defined]
    for number in range(EDITS):
        edit = RANDOM_EDITS[number % len(RANDOM_EDITS)]
        driver.execute("BEGIN")
        first = edit(driver, chance)

        report = check_log(store, original.kept)

        assert report.findings, (number, edit.__name__, first)
        assert first_of(report) == first, (number, edit.__name__, report.findings)
        driver.execute("ROLLBACK")
    assert check_log(store, original.kept).findings == []
    store.close()


#: Those that leave something that looks like a log.
HIDDEN: tuple[Edit, ...] = (close_the_gap, swap, insert, truncate, rewind)


@pytest.mark.parametrize("edit", HIDDEN)
def test_an_edit_with_a_new_tree_is_found_between_two_heads(original: Original, copy: Copy, edit: Edit) -> None:
    chance = random.Random(edit.__name__)
    for _ in range(8):
        first = copy.edited(edit, chance, hidden=True)
        store = open_store(f"sqlite:///{copy.path}", create=False)
        build(store)

        report = check_log(store, original.kept)

        if first > HEADS[-1]:  # nobody outside has promised these yet, and that is what is said
            assert (report.findings, report.signed) == ([], HEADS[-1])
        else:
            before = max((size for size in HEADS if size < first), default=0)
            assert first_of(report) in {before + 1, first}
            assert any(finding.first <= first <= finding.last for finding in report.findings)
            assert report.signed == before
        store.close()


@pytest.mark.parametrize("edit", HIDDEN)
def test_without_a_kept_head_what_is_said_is_true(copy: Copy, edit: Edit) -> None:
    chance = random.Random(edit.__name__)
    copy.edited(edit, chance, hidden=True)
    store = open_store(f"sqlite:///{copy.path}", create=False)
    build(store)

    report = check_log(store, known(store))

    assert [f for f in report.findings if f.kind != "stream"] == []
    assert (report.signed, report.unsigned, report.heads) == (0, store.head(), 0)
    store.close()


# -- kinds of findings -------------------------------------------------------------------------------------------------


def kinds(report: Report) -> list[tuple[str, int, int]]:
    return [finding[:3] for finding in report.findings]


def test_a_log_that_nobody_touched(backend: Backend) -> None:
    log = backend.open()
    kept = grow_and_sign(log, 3, 256, 300)
    grow(log, 20)
    seen: list[tuple[int, int]] = []

    report = check_log(log.store, [*kept, *known(log.store)], report=lambda done, end: seen.append((done, end)))

    assert report.findings == []
    assert (report.checked, report.end, report.signed, report.unsigned, report.heads) == (320, 320, 300, 20, 6)
    assert report.root
    assert seen == [(320, 320)]
    assert check_log(log.store).root == report.root


def test_an_empty_log(backend: Backend) -> None:
    report = check_log(backend.open().store)

    assert (report.findings, report.checked, report.end) == ([], 0, 0)


def test_a_head_says_whether_event_or_tree_was_changed(original: Original, copy: Copy) -> None:
    def change_both(driver: sqlite3.Connection, _: random.Random) -> int:
        driver.execute("UPDATE events SET topic = 'forged' WHERE position = 258")
        tile = driver.execute("SELECT hashes FROM tree_tiles WHERE level = 0 AND number = 0").fetchone()[0]
        driver.execute(
            "UPDATE tree_tiles SET hashes = ? WHERE level = 0 AND number = 0", (tile[:32] + bytes(32) + tile[64:],)
        )
        return 2

    copy.edited(change_both, random.Random(1), hidden=False)

    assert [f for f in kinds(copy.check(original.kept[:2])) if f[0] != "tree"] == [("changed", 258, 258)]
    assert ("tree", 2, 2) in kinds(copy.check(original.kept[:2]))


def test_a_tree_that_was_changed_is_no_fault_of_the_events(original: Original, copy: Copy) -> None:
    def change_tree(driver: sqlite3.Connection, _: random.Random) -> int:
        driver.execute(
            "UPDATE tree_tiles SET hashes = zeroblob(32) || substr(hashes, 33) WHERE level = 0 AND number = 0"
        )
        driver.execute("UPDATE tree_tiles SET hashes = zeroblob(32) WHERE level = 1")
        return 1

    copy.edited(change_tree, random.Random(1), hidden=False)
    report = copy.check(original.kept)

    assert {finding.kind for finding in report.findings} == {"tree"}
    assert report.signed == HEADS[-1]


def test_a_head_of_another_log_is_told(backend: Backend) -> None:
    log = backend.open()
    [kept] = grow_and_sign(log, 3)
    stranger = kept._replace(head=kept.head._replace(store_id=UUID(int=1)))

    assert kinds(check_log(log.store, [stranger])) == [("contradiction", 1, 3)]


def test_a_log_that_was_put_back_says_so_although_its_epoch_was_raised(sqlite_url: str) -> None:
    backend = SqliteBackend(sqlite_url, MovedClock())
    log = backend.open()
    kept = grow_and_sign(log, 5, 10)
    for sql in ("DROP TRIGGER events_no_delete", "DELETE FROM events WHERE position > 7", *TREE):
        backend.run(sql)
    log = backend.reopen(log)
    log.raise_epoch(Actor("ada"), reason="restored")
    grow(log, 10)

    report = check_log(log.store, kept)

    assert kinds(report) == [("rewound", 8, 10)]
    assert report.signed == 5
    backend.close()


def test_versions_that_do_not_follow_each_other_are_told_without_any_tree(database: SqlBackend) -> None:
    log = database.open()
    grow(log, 3)
    database.run("INSERT INTO events SELECT 4, stream_id, 3, topic, state FROM events WHERE position = 2")

    assert kinds(check_log(log.store)) == [("stream", 2, 2)]


# -- a part ------------------------------------------------------------------------------------------------------------


def test_a_range_and_a_job_are_held_against_the_tree(backend: Backend) -> None:
    log = backend.open()
    grow(log, 250)
    held = claimed(log)
    held.complete_units([("a", 1)], cursor=1)
    kept = grow_and_sign(log, 300, 600)
    held.complete_units([("b", 1)], cursor=2)
    build(log.store)

    part = check_range(log.store, 240, 310, kept)
    job = check_job(log.store, held.job_id, kept)
    rest = check_range(log.store, 590, 10_000, kept)

    assert (part.findings, part.checked, part.heads, part.signed) == ([], 71, 2, 600)
    assert (job.findings, job.checked, job.signed, job.unsigned) == ([], 6, 600, 2)
    assert (rest.findings, rest.checked) == ([], 13)


def test_what_is_wrong_in_a_part_is_told_and_nothing_else(original: Original, copy: Copy) -> None:
    def edit(driver: sqlite3.Connection, _: random.Random) -> int:
        driver.execute("UPDATE events SET topic = 'forged' WHERE position = 7")
        driver.execute("DELETE FROM events WHERE position = 395")
        return 7

    copy.edited(edit, random.Random(1), hidden=False)
    store = open_store(f"sqlite:///{copy.path}", create=False)

    assert kinds(check_range(store, 1, 20, original.kept)) == [("changed", 7, 7)]
    assert kinds(check_range(store, 8, 394, original.kept)) == []
    assert kinds(check_range(store, 380, 400, original.kept)) == [("missing", 395, 395)]
    stream = store.log(395, 1)[0].stream_id
    assert kinds(check_job(store, stream, original.kept)) == [("stream", 396, 396)]
    assert kinds(check_job(store, store.log(6, 1)[0].stream_id)) == [("changed", 7, 7)]
    store.close()


def test_a_part_is_not_taken_for_good_because_its_tree_was_made_new(original: Original, copy: Copy) -> None:
    copy.edited(swap, random.Random(3), hidden=True)
    store = open_store(f"sqlite:///{copy.path}", create=False)
    build(store)

    assert {kind for kind, _, _ in kinds(check_range(store, 1, 400, original.kept))} == {"contradiction"}
    store.close()


def test_a_tree_whose_upper_levels_were_changed_proves_no_part(original: Original, copy: Copy) -> None:
    def edit(driver: sqlite3.Connection, _: random.Random) -> int:
        driver.execute("UPDATE events SET topic = 'forged' WHERE position = 7")
        driver.execute("DELETE FROM tree_tiles WHERE level = 0")
        return 7

    copy.edited(edit, random.Random(1), hidden=False)
    driver = sqlite3.connect(copy.path, isolation_level=None)
    leaves = b"".join(leaf for leaf in forged_leaves(copy.path))
    for number in range(2):
        driver.execute("INSERT INTO tree_tiles VALUES (0, ?, ?)", (number, leaves[number * 8192 : (number + 1) * 8192]))
    driver.close()
    store = open_store(f"sqlite:///{copy.path}", create=False)

    assert kinds(check_range(store, 1, 20, original.kept))[0] == ("tree", 1, 256)
    assert kinds(check_log(store, original.kept))[0][:2] == ("contradiction", 1)
    store.close()


def forged_leaves(path: Path) -> list[bytes]:
    from joblog.eventstore.entries import leaf_hash
    from joblog.eventstore.proof_rows import proof_rows

    store = open_store(f"sqlite:///{path}", create=False)
    found = [leaf_hash(entry) for entry in proof_rows(store).entries(0, 1000, END)]
    store.close()
    return found


def test_a_store_in_memory_is_checked_alike() -> None:
    backend = MemoryBackend("memory://", MovedClock())
    log = backend.open()
    kept = grow_and_sign(log, 20)
    backend.store.tables.log[4] = backend.store.tables.log[4]._replace(topic="forged")

    assert kinds(check_log(log.store, kept)) == [("changed", 5, 5)]
    backend.close()
