"""Bodies of finished streams move into archives; nobody who reads the log sees a difference while they are at hand."""

from pathlib import Path

import pytest

from joblog.domain.errors import ArchiveMissingError
from joblog.domain.log_events import Archived
from joblog.eventstore.archive_rows import archive_rows
from joblog.eventstore.bodies import archive_of
from tests.conformance.backends import Backend
from tests.conformance.builders import whole_log
from tests.projections.archive.scene import archived, emptied, remove, scene, told


def test_whole_streams_that_ended_for_good_are_archived_and_the_log_reads_the_same(
    backend: Backend, tmp_path: Path
) -> None:
    made = scene(backend.open(), backend)
    before = whole_log(made.log.store)

    done = archived(made, tmp_path / "archives")

    assert set(done.plan.streams) == made.ended == emptied(made.log.store)
    after = whole_log(made.log.store)
    assert after[:-1] == before
    assert (after[-1].topic, after[-1].position) == (Archived.TOPIC, done.position)
    event = made.log.mapper.decode(after[-1].stream_id, *after[-1][2:])
    mine = [one for one in before if one.stream_id in made.ended]
    assert (event.first, event.last, event.events) == (mine[0].position, mine[-1].position, len(mine))
    assert (event.streams, event.actor) == (len(made.ended), "ada")


def test_without_the_archive_the_log_says_which_one_it_needs(backend: Backend, tmp_path: Path) -> None:
    made = scene(backend.open(), backend)
    before = whole_log(made.log.store)
    done = archived(made, tmp_path / "archives")
    assert done.manifest is not None
    remove(tmp_path / "archives")

    with pytest.raises(ArchiveMissingError, match=done.manifest.name):
        whole_log(made.log.store)

    for had, one in zip(before, told(made.log), strict=False):
        assert one[:4] == had[:4]
        assert archive_of(one.state) == (done.manifest.name if one.stream_id in made.ended else "")
        assert one.state == (b"" if one.stream_id in made.ended else had.state)


def test_a_second_run_finds_nothing_and_one_with_a_small_bound_goes_on(backend: Backend, tmp_path: Path) -> None:
    made = scene(backend.open(), backend)
    before = whole_log(made.log.store)

    runs = [archived(made, tmp_path / "archives", most=20) for _ in range(5)]

    assert [len(one.plan.streams) for one in runs if one.manifest] == [2, 2]
    assert [one.plan.left for one in runs[:3]] == [True, False, False]
    assert len(archive_rows(made.log.store).archives()) == 2
    assert whole_log(made.log.store)[: len(before)] == before
