"""A resume reads the file that was planned on, or refuses (OPS-2b)."""

import hashlib
import os
from pathlib import Path

import pytest

from joblog.workers.operations.digest import Digest, measure
from joblog.workers.operations.errors import SourceChangedError
from joblog.workers.operations.plan import Plan
from joblog.workers.operations.sources import FileSource
from tests.workers.operations.source_files import CONTAINERS, planned, read, write

CONTENT = b"a\n" + b"".join(b"%d\n" % number for number in range(1000))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "t.csv", CONTENT)


def test_the_digest_is_of_the_raw_bytes(tmp_path: Path) -> None:
    for kind in CONTAINERS:
        path = write(tmp_path / "t.csv", CONTENT, kind)
        digest = planned(path).digest

        assert digest.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
        assert digest.size == path.stat().st_size


def test_measuring_leaves_the_readers_place_alone(path: Path) -> None:
    with path.open("rb") as file:
        file.read(10)
        measure(file)
        assert file.read(4) == CONTENT[10:14]


@pytest.mark.parametrize("changed", [CONTENT + b"1000\n", CONTENT[:-1], CONTENT.replace(b"500", b"501")])
def test_a_resume_on_another_content_is_refused(path: Path, changed: bytes) -> None:
    plan = planned(path)
    batch = next(FileSource(plan).read(100))
    path.write_bytes(changed)

    for after in (None, batch.cursor):
        with pytest.raises(SourceChangedError) as refused:
            next(FileSource(plan).read(100, after))
        assert refused.value.code == "source-changed"
        assert "submit a new job" in str(refused.value)


def test_a_change_of_the_same_size_and_time_is_found(path: Path) -> None:
    plan = planned(path)
    path.write_bytes(CONTENT.replace(b"500", b"501"))
    os.utime(path, ns=(0, plan.digest.mtime_ns))

    with pytest.raises(SourceChangedError, match="SHA-256"):
        read(plan)


def test_a_newer_time_alone_is_no_change(path: Path) -> None:
    plan = planned(path)
    before = read(plan, 100)
    os.utime(path, ns=(0, plan.digest.mtime_ns + 10**9))

    assert read(plan, 100) == before


def test_what_is_written_while_it_is_read_is_found_before_the_next_batch(path: Path) -> None:
    batches = FileSource(planned(path)).read(100)
    next(batches)
    with path.open("ab") as file:
        file.write(b"more\n")

    with pytest.raises(SourceChangedError):
        next(batches)


def test_a_touch_while_it_is_read_changes_nothing(path: Path) -> None:
    plan = planned(path)
    undisturbed = read(plan, 100)
    found = []
    for number, batch in enumerate(FileSource(plan).read(100)):
        found.append(batch)
        os.utime(path, ns=(0, number))

    assert found == undisturbed


def test_a_file_that_is_replaced_while_it_is_read_is_read_to_its_own_end(path: Path) -> None:
    """The next lease finds the new one, and refuses it."""
    plan = planned(path)
    undisturbed = read(plan, 100)
    batches = FileSource(plan).read(100)
    found = [next(batches)]
    write(path.with_name("new.csv"), b"a\nx\n").replace(path)

    assert found + list(batches) == undisturbed
    with pytest.raises(SourceChangedError):
        read(plan, 100)


def test_two_plans_of_one_content_differ_in_hints_only(tmp_path: Path, path: Path) -> None:
    """UNI-13: the same file in two places gives the same rows under the same numbers."""
    other = write(tmp_path / "copy.csv", CONTENT)
    os.utime(other, ns=(0, 1))
    one, two = planned(path), planned(other)

    assert one.digest.is_content_of(two.digest)
    assert one.digest != two.digest
    assert [batch.rows for batch in read(one, 100)] == [batch.rows for batch in read(two, 100)]


def test_a_plan_comes_back_from_json(path: Path) -> None:
    plan = planned(path)
    assert Plan.from_state(plan.to_state()).digest == Digest.from_state(plan.digest.to_state()) == plan.digest
