"""The tree is that of RFC 6962: its known roots, and proofs against a tree that is worked out in the plainest way."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joblog.eventstore.entries import leaf_hash
from joblog.projections.proof.merkle import EMPTY, Frontier, node_hash
from joblog.projections.proof.proofs import (
    consistency_proof,
    inclusion_proof,
    is_consistent,
    is_included,
)
from joblog.projections.proof.tiles import GrowingTree, TiledTree

# The test vectors of Certificate Transparency's reference implementation.
ENTRIES = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
LEAVES = [sha256(b"\0" + bytes.fromhex(entry)).digest() for entry in ENTRIES]
MANY = [sha256(number.to_bytes(4)).digest() for number in range(70_000)]


def plain_root(leaves: list[bytes]) -> bytes:
    """Straight from the definition (RFC 9162, 2.1.1)."""
    if not leaves:
        return EMPTY
    if len(leaves) == 1:
        return leaves[0]
    half = 1 << ((len(leaves) - 1).bit_length() - 1)
    return node_hash(plain_root(leaves[:half]), plain_root(leaves[half:]))


class PlainNodes:
    def __init__(self, leaves: list[bytes]) -> None:
        self.leaves = leaves

    def node(self, level: int, index: int) -> bytes:
        return plain_root(self.leaves[index << level : (index + 1) << level])


@pytest.mark.parametrize("size", range(1, 9))
def test_the_known_roots(size: int) -> None:
    frontier, growing = Frontier(), GrowingTree()
    for leaf in LEAVES[:size]:
        frontier.add(leaf)
    growing.extend(LEAVES[:size])

    assert frontier.root().hex() == growing.root().hex() == plain_root(LEAVES[:size]).hex() == ROOTS[size - 1]


def test_the_empty_tree() -> None:
    assert Frontier().root() == GrowingTree().root() == sha256(b"").digest()


def test_known_proofs() -> None:
    nodes = PlainNodes(LEAVES)

    assert [step.hex()[:8] for step in inclusion_proof(nodes, 0, 8)] == ["96a296d2", "5f083f0a", "6b47aaf2"]
    assert [step.hex()[:8] for step in inclusion_proof(nodes, 5, 8)] == ["bc1a0643", "ca854ea1", "d37ee418"]
    assert [step.hex()[:8] for step in consistency_proof(nodes, 6, 8)] == ["0ebc5d34", "ca854ea1", "d37ee418"]


def test_every_proof_of_every_small_tree_holds_and_no_other() -> None:
    for size in range(1, 34):
        nodes, root = PlainNodes(MANY), plain_root(MANY[:size])
        for index in range(size):
            proof = inclusion_proof(nodes, index, size)
            assert is_included(MANY[index], index, size, proof, root)
            assert not is_included(MANY[index + 1], index, size, proof, root)
            assert not is_included(MANY[index], index, size, [*proof, root], root)
            if proof:
                assert not is_included(MANY[index], index, size, proof[:-1], root)
                assert not is_included(MANY[index], index, size, [MANY[99], *proof[1:]], root)
        for old in range(1, size):
            proof, before = consistency_proof(nodes, old, size), plain_root(MANY[:old])
            assert is_consistent(old, size, before, root, proof)
            assert not is_consistent(old, size, MANY[99], root, proof)
            assert not is_consistent(old, size, before, MANY[99], proof)
            assert not is_consistent(old, size, before, root, proof[:-1])
            assert not is_consistent(old, size, before, root, [*proof, root])
            assert not is_consistent(old, size, before, root, [MANY[99], *proof[1:]])


def test_a_tree_is_consistent_with_itself_and_with_nothing_and_never_with_less() -> None:
    root = plain_root(LEAVES)

    assert is_consistent(8, 8, root, root, [])
    assert is_consistent(0, 8, EMPTY, root, [])
    assert not is_consistent(8, 8, root, MANY[0], [])
    assert not is_consistent(8, 8, root, root, [root])
    assert not is_consistent(8, 7, root, root, [])
    assert not is_included(LEAVES[0], 8, 8, [], root)


def test_all_subtrees_of_a_big_tree_come_from_its_tiles() -> None:
    """Grown in steps of all sizes, over three levels of tiles."""
    kept: dict[tuple[int, int], bytes] = {}
    tree, frontier, done = GrowingTree(), Frontier(), 0
    for step in (1, 254, 1, 3, 253, 256, 511, 4096, 60_161, 300):
        tree = GrowingTree(tree.size, lambda level, number: kept[level, number])
        tree.extend(MANY[done : done + step])
        for leaf in MANY[done : done + step]:
            frontier.add(leaf)
        done += step
        kept.update(tree.changed)
        stored = TiledTree(done, lambda level, number: kept[level, number])
        assert tree.root() == frontier.root() == stored.root()
        assert stored.frontier(done) == frontier.hashes
    assert max(level for level, _ in kept) == 2
    assert tree.copy().root() == tree.root()

    root = stored.root()
    for index in (0, 255, 256, 65_535, 65_536, done - 1):
        assert is_included(MANY[index], index, done, inclusion_proof(stored, index, done), root)
    for old in (1, 255, 256, 257, 65_535, 65_536, 65_537, done - 1):
        assert is_consistent(old, done, plain_root(MANY[:old]), root, consistency_proof(stored, old, done))


@given(st.integers(1, 2000), st.data())
def test_a_frontier_goes_on_where_it_was_kept(size: int, data: st.DataObject) -> None:
    frontier = Frontier()
    for leaf in MANY[:size]:
        frontier.add(leaf)
    kept = Frontier(frontier.size, frontier.hashes)
    for leaf in MANY[size : size + data.draw(st.integers(0, 50))]:
        frontier.add(leaf)
        kept.add(leaf)

    assert kept.root() == frontier.root()
    assert len(kept.hashes) == kept.size.bit_count()


def test_a_frontier_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="comes down to 2 hashes"):
        Frontier(3, [EMPTY])


def test_a_leaf_is_position_stream_version_topic_and_bytes() -> None:
    entry = (7, bytes(range(16)), 3, "joblog.ä".encode(), b'{"n":1}')
    packed = (
        b"\0"
        + (7).to_bytes(8)
        + bytes(range(16))
        + (3).to_bytes(8)
        + (9).to_bytes(2)
        + "joblog.ä".encode()
        + b'{"n":1}'
    )

    assert leaf_hash(entry) == sha256(packed).digest()
    others = [(8, *entry[1:]), (7, bytes(16), *entry[2:]), (7, entry[1], 4, *entry[3:])]
    others += [(*entry[:3], b"joblog.", b'\xc3\xa4{"n":1}'), (*entry[:4], b"")]
    assert len({leaf_hash(other) for other in [entry, *others]}) == 6
    with pytest.raises(ValueError, match="16 bytes"):
        leaf_hash((7, bytes(17), *entry[2:]))
