"""The tree follows the log, beside it: resumable, in as many processes as like to, and with heads that never contradict."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest

from joblog.domain.errors import CorruptLogError, HeadContradictedError
from joblog.domain.job import Actor
from joblog.eventstore.entries import leaf_hash
from joblog.eventstore.proof_rows import proof_rows
from joblog.eventstore.store import ConflictError
from joblog.projections.proof import heads as heads_module
from joblog.projections.proof import tree as module
from joblog.projections.proof.heads import kept_heads, sign, stored_heads
from joblog.projections.proof.merkle import Frontier
from joblog.projections.proof.tree import build, stored_tree
from tests.conformance.backends import Backend, MemoryBackend, SqlBackend, SqliteBackend
from tests.conformance.builders import armed
from tests.projections.proof.logs import SIGNER, grow, grow_and_sign

ROOT = Path(__file__).parents[3]


class Killed(BaseException):
    """What a test raises where a process would be killed."""


def plain_root(backend: Backend, size: int) -> bytes:
    frontier = Frontier()
    for position, stream, version, topic, state in backend.open().store.log(0, size):
        frontier.add(leaf_hash((position, stream.bytes, version, topic.encode(), state)))
    return frontier.root()


def test_the_tree_is_that_of_the_stored_bytes(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH", 100)
    log = backend.open()
    assert build(log.store) == 0
    seen: list[tuple[int, int]] = []
    for count in (1, 299, 250):
        grow(log, count)
        assert build(log.store, report=lambda position, head: seen.append((position, head))) == log.store.head()
        tree = stored_tree(log.store)
        assert tree.root() == plain_root(backend, tree.size)
    assert seen[1:4] == [(101, 300), (201, 300), (300, 300)]
    assert build(log.store) == 550


def test_many_builders_make_one_tree(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """One reads a batch, another is quicker: the first goes on behind what is there."""
    monkeypatch.setattr(module, "BATCH", 50)
    log, other = backend.open(), backend.open()
    grow(log, 400)
    left = [3]

    def overtake() -> None:
        left[0] -= 1
        if left[0] == 0:
            build(other.store)

    with armed("tree.before", overtake):
        build(log.store)

    tree = stored_tree(log.store)
    assert (tree.size, tree.root()) == (400, plain_root(backend, 400))


def test_a_builder_that_was_overtaken_writes_nothing(backend: Backend) -> None:
    """Its tiles are shorter than those that are there."""
    log = backend.open()
    grow(log, 300)
    build(log.store)
    rows = proof_rows(log.store)
    for old in (0, 100, 299):
        with pytest.raises(ConflictError):
            rows.grow(old, old + 50, {(0, 0): bytes(32)})

    assert stored_tree(log.store).root() == plain_root(backend, 300)


@pytest.mark.parametrize("point", ["tree.before", "tree.before_commit", "tree.after"])
def test_a_builder_that_dies_anywhere_is_gone_on_with(
    database: SqlBackend, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH", 60)
    log = database.open()
    grow(log, 200)
    left = [2]

    def die() -> None:
        left[0] -= 1
        if left[0] == 0:
            raise Killed

    with armed(point, die), pytest.raises(Killed):
        build(log.store)
    assert proof_rows(log.store).tree_size() == (120 if point == "tree.after" else 60)

    assert build(log.store) == 200
    assert stored_tree(log.store).root() == plain_root(database, 200)


_BUILD = """
import os, signal, sys
from joblog.eventstore import failpoint
from joblog.eventstore.opening import open_store
from joblog.projections.proof import tree
tree.BATCH = 40
left = [int(sys.argv[3])]
def die():
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
failpoint.arm(sys.argv[2], die)
tree.build(open_store(sys.argv[1], create=False))
"""


@pytest.mark.faults
def test_a_builder_that_is_killed_is_gone_on_with(database: SqlBackend) -> None:
    log = database.open()
    grow(log, 150)
    for point in ("tree.before", "tree.before_commit", "tree.after"):
        command = [sys.executable, "-c", _BUILD, database.url, point, "2"]
        done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT / "src")}, check=False, timeout=300)
        assert done.returncode == -signal.SIGKILL
        tree = stored_tree(log.store)
        assert tree.root() == plain_root(database, tree.size)

    assert build(log.store) == 150


def test_a_log_that_is_shorter_than_its_tree_or_has_a_hole_is_not_built_on(database: SqlBackend) -> None:
    log = database.open()
    grow(log, 20)
    build(log.store)
    database.run("UPDATE tracking SET notification_id = 30 WHERE application_name = 'tree'")
    with pytest.raises(CorruptLogError, match="the log ends at 20, the tree has seen 30"):
        build(log.store)

    database.run("UPDATE tracking SET notification_id = 20 WHERE application_name = 'tree'")
    stream = database.to_id(log.store.log(0, 1)[0].stream_id)
    database.run("INSERT INTO events SELECT 22, ?, 99, 'x', state FROM events WHERE position = 1", stream)
    with pytest.raises(CorruptLogError, match="position 21 is missing"):
        build(log.store)


# -- heads -----------------------------------------------------------------------------------------------------------


def test_a_head_is_signed_once_for_each_size(backend: Backend, tmp_path: Path) -> None:
    log, kept = backend.open(), tmp_path / "heads"
    assert sign(log.store, SIGNER, kept) is None
    sizes = []
    for count in (3, 0, 300):
        grow(log, count)
        signing = sign(log.store, SIGNER, kept)
        assert signing is not None
        assert signing.is_new == bool(count)
        sizes.append(signing.signed.head.size)

    assert sizes == [3, 3, 303]
    assert kept_heads(kept) == stored_heads(log.store)
    assert [one.head.size for one in kept_heads(kept)] == [3, 303]
    assert all(SIGNER.verifier.opened(one.note) for one in kept_heads(kept))
    assert stored_heads(log.store)[-1].head.root == plain_root(backend, 303)


def test_a_signer_that_dies_after_it_has_kept_the_head_signs_the_same_again(backend: Backend, tmp_path: Path) -> None:
    log, kept = backend.open(), tmp_path / "heads"
    grow(log, 5)
    signing = sign(log.store, SIGNER, kept)
    assert signing is not None
    proof_rows(log.store).heads().clear()
    if isinstance(backend, MemoryBackend):
        backend.store.proofs._heads.clear()
    elif isinstance(backend, SqlBackend):
        backend.run("DELETE FROM tree_heads")

    assert sign(log.store, SIGNER, kept) == signing._replace(is_new=False)
    assert [one.note for one in stored_heads(log.store)] == [signing.signed.note] == [n.note for n in kept_heads(kept)]


def test_nothing_is_signed_that_contradicts_a_head(sqlite_url: str, tmp_path: Path) -> None:
    from tests.clocks import MovedClock

    backend = SqliteBackend(sqlite_url, MovedClock())
    log, kept = backend.open(), tmp_path / "heads"
    grow(log, 10)
    sign(log.store, SIGNER, kept)
    grow(log, 10)
    backend.run("DROP TRIGGER events_no_update")
    build(log.store)
    backend.run("UPDATE events SET topic = 'forged' WHERE position = 15")
    with pytest.raises(HeadContradictedError, match="position 15: not as first written"):
        sign(log.store, SIGNER, kept)

    # Whoever changes an event that a head covers, and makes the tree and the stored heads new, forgets the kept one.
    for sql in (
        "UPDATE events SET topic = 'forged' WHERE position = 5",
        "DELETE FROM tree_tiles",
        "DELETE FROM tree_heads",
    ):
        backend.run(sql)
    backend.run("DELETE FROM tracking")
    with pytest.raises(HeadContradictedError, match="does not begin any more as the head at 10 says"):
        sign(log.store, SIGNER, kept)

    backend.run("DROP TRIGGER events_no_delete")
    for sql in ("DELETE FROM events WHERE position > 8", "DELETE FROM tree_tiles", "DELETE FROM tracking"):
        backend.run(sql)
    with pytest.raises(HeadContradictedError, match="a head at 1:10 was signed, the log ends at 1:8"):
        sign(log.store, SIGNER, kept)
    backend.close()


def test_a_new_epoch_is_how_the_loss_of_signed_events_is_accepted(sqlite_url: str, tmp_path: Path) -> None:
    from tests.clocks import MovedClock

    backend = SqliteBackend(sqlite_url, MovedClock())
    log, kept = backend.open(), tmp_path / "heads"
    grow(log, 10)
    sign(log.store, SIGNER, kept)
    backend.run("DROP TRIGGER events_no_delete")
    for sql in ("DELETE FROM events WHERE position > 8", "DELETE FROM tree_tiles", "DELETE FROM tracking"):
        backend.run(sql)
    log = backend.reopen(log)
    log.raise_epoch(Actor("ada"), reason="restored")
    grow(log, 10)

    signing = sign(log.store, SIGNER, kept)

    assert signing is not None
    assert (signing.signed.head.epoch, signing.signed.head.size) == (2, 19)
    backend.close()


def test_a_head_of_another_log_in_the_same_file_does_no_harm(backend: Backend, tmp_path: Path) -> None:
    log, kept = backend.open(), tmp_path / "heads"
    [head] = grow_and_sign(log, 4)
    kept.write_text(SIGNER.sign(head.head._replace(store_id=head.head.store_id.__class__(int=1), root=bytes(32))).note)

    assert sign(log.store, SIGNER, kept) is not None
    assert len(kept_heads(kept)) == 2


def test_a_file_of_heads_that_has_grown_for_years_is_read_from_its_end(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads_module, "_TAIL", 500)
    log, kept = backend.open(), tmp_path / "heads"
    for _ in range(6):
        grow(log, 1)
        sign(log.store, SIGNER, kept)
    store_id = log.store.state().store_id

    newest = heads_module.last_kept(kept, store_id)

    assert kept.stat().st_size > 1000
    assert newest == kept_heads(kept)[-1]
    assert newest == heads_module.last_stored(log.store)
    assert heads_module.last_kept(kept, UUID(int=1)) is None
    signing = sign(log.store, SIGNER, kept)
    assert signing is not None
    assert not signing.is_new
    assert len(kept_heads(kept)) == 6
