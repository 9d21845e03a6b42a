"""What `verify` says of archived bodies: proven, missing, tampered with, or emptied by somebody else."""

from collections.abc import Callable
from gzip import compress
from pathlib import Path
from typing import Any

import pytest

from joblog.domain.errors import ArchiveDamagedError, ArchiveMissingError, CorruptLogError
from joblog.eventstore.archive_files import file_of, manifest_of
from joblog.eventstore.archive_rows import archive_rows
from joblog.eventstore.bodies import archive_of
from joblog.eventstore.entries import from_line, to_line
from joblog.projections.archive import make as make_module
from joblog.projections.backup.make import backup
from joblog.projections.proof.check import check_log
from joblog.projections.proof.heads import sign
from joblog.projections.proof.known import check
from joblog.projections.proof.report import Report
from joblog.projections.transfer.export import export
from joblog.projections.transfer.lines import members, packed
from joblog.projections.transfer.offline import check_export
from joblog.projections.transfer.take_in import import_log
from joblog.projections.verify import row_differences
from joblog.workers.commands.log import JobLog
from tests.clocks import MovedClock
from tests.conformance.backends import Backend, MemoryBackend, SqlBackend, SqliteBackend
from tests.conformance.builders import armed, whole_log
from tests.projections.archive.scene import Scene, archived, emptied, follow, remove, scene, told
from tests.projections.archive.test_emptying import EMPTY, with_triggers_off
from tests.projections.proof.logs import SIGNER, known


def findings(report: Report) -> list[tuple[str, int, int]]:
    return [(one.kind, one.first, one.last) for one in report.findings]


def held(made: Scene) -> Report:
    """The whole log, against its signed heads."""
    return check_log(made.log.store, known(made.log.store))


def an_archive(made: Scene, folder: Path) -> str:
    done = archived(made, folder)
    assert done.manifest is not None
    sign(made.log.store, SIGNER, None)
    return done.manifest.name


def test_with_the_archive_every_body_is_checked(backend: Backend, tmp_path: Path) -> None:
    made = scene(backend.open(), backend)
    root = held(made).root
    before = made.log.store.head()
    an_archive(made, tmp_path / "archives")

    report = held(made)

    assert (report.findings, report.archived, report.checked) == ([], {}, made.log.store.head())
    assert report.signed == made.log.store.head() == before + 1
    assert report.root != root


def test_without_it_order_and_ids_are_proven_and_bodies_by_their_leaves_only(backend: Backend, tmp_path: Path) -> None:
    made = scene(backend.open(), backend)
    here = held(made).root
    name = an_archive(made, tmp_path / "archives")
    whole = held(made)
    [row] = archive_rows(made.log.store).archives()
    remove(tmp_path / "archives")

    report = held(made)

    assert (report.findings, report.archived) == ([], {name: row.events})
    assert (report.root, report.signed) == (whole.root, whole.signed)
    assert report.document()["archived"] == {name: row.events}
    part = check(made.log.store, first=1, last=made.log.store.head())
    assert (part.findings, part.archived) == ([], {name: row.events})
    job = check(made.log.store, job=made.completed[0])
    mine = archive_rows(made.log.store).places(made.completed[0])
    assert (job.findings, job.archived) == ([], {name: len(mine)})
    assert here != report.root


def rewritten(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[Path, str], None]:
    """An archive whose lines were changed, packed again in members of the same size."""

    def tamper(folder: Path, name: str) -> None:
        with file_of(folder, name).open("rb") as file:
            [lines] = [chunk.splitlines(keepends=True) for _, chunk in members(file)]
        data = packed(b"".join(change(lines)))
        manifest = manifest_of(folder, name)
        text = manifest.read_text()
        file_of(folder, name).write_bytes(data.ljust(file_of(folder, name).stat().st_size, b"\0"))
        manifest.write_text(text)

    return tamper


def other_bytes(lines: list[bytes]) -> list[bytes]:
    entry = from_line(lines[2])
    return [*lines[:2], to_line(entry._replace(state=entry.state.replace(b"default", b"defaulT"))), *lines[3:]]


def swapped(lines: list[bytes]) -> list[bytes]:
    one, other = from_line(lines[1]), from_line(lines[2])
    first, second = to_line(one._replace(state=other.state)), to_line(other._replace(state=one.state))
    return [lines[0], first, second, *lines[3:]]


def left_out(lines: list[bytes]) -> list[bytes]:
    return [*lines[:2], *lines[3:]]


def cut(folder: Path, name: str) -> None:
    file = file_of(folder, name)
    file.write_bytes(file.read_bytes()[:-30])


def no_gzip(folder: Path, name: str) -> None:
    file_of(folder, name).write_bytes(b"\0" * file_of(folder, name).stat().st_size)


def another_manifest(folder: Path, name: str) -> None:
    manifest_of(folder, name).write_bytes(manifest_of(folder, name).read_bytes() + b"\n")


TAMPERED: dict[str, Callable[[Path, str], None]] = {
    "left out": rewritten(left_out),
    "swapped": rewritten(swapped),
    "changed": rewritten(other_bytes),
    "cut": cut,
    "no gzip": no_gzip,
    "another manifest": another_manifest,
}


@pytest.mark.parametrize("tamper", TAMPERED.values(), ids=TAMPERED)
def test_a_tampered_archive_is_refused_by_position(
    backend: Backend, tmp_path: Path, tamper: Callable[[Path, str], None]
) -> None:
    made = scene(backend.open(), backend)
    before = whole_log(made.log.store)
    name = an_archive(made, tmp_path / "archives")

    tamper(tmp_path / "archives", name)

    with pytest.raises(ArchiveDamagedError) as caught:
        whole_log(made.log.store)
    assert caught.value.archive == name
    for had, one in zip(before, told(made.log), strict=False):  # a follower never gets what is not proven
        assert bytes(one.state) in {had.state, b""}
        assert one.state == had.state or archive_of(one.state) == name
    report = held(made)
    assert {one.kind for one in report.findings} <= {"changed", "archive"}
    wrong = {position for _, first, last in findings(report) for position in range(first, last + 1)}
    assert wrong == {one.position for one in told(made.log) if archive_of(one.state)}
    assert caught.value.position in {0, min(wrong)}


def test_of_a_changed_archive_only_the_changed_positions_are_refused(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = scene(backend.open(), backend)
    monkeypatch.setattr(make_module, "packed", lambda chunk: compress(chunk, compresslevel=0, mtime=0))  # leaves room
    name = an_archive(made, tmp_path / "archives")
    position = archive_rows(made.log.store).archives()[0]
    rewritten(swapped)(tmp_path / "archives", name)

    refused = [one.position for one in told(made.log) if archive_of(one.state)]

    assert len(refused) == 2
    assert position.first < min(refused)
    assert made.log.store.log(0, 1)[0].state


# -- somebody else's hand ------------------------------------------------------------------------------------------------


def empty_another(database: SqlBackend, made: Scene) -> int:
    position = archive_rows(made.log.store).places(made.running)[1].position
    with_triggers_off(
        database, "events", f"UPDATE events SET state = {EMPTY[database.kind]} WHERE position = {position}"
    )
    return position


def test_a_body_that_somebody_emptied_is_damage(database: SqlBackend, tmp_path: Path) -> None:
    made = scene(database.open(), database)
    an_archive(made, tmp_path / "archives")

    position = empty_another(database, made)

    assert findings(held(made)) == [("changed", position, position)]
    assert made.log.store.log(position - 1, 1)[0].state == b""


def test_one_that_is_passed_off_as_archived_is_too(database: SqlBackend, tmp_path: Path) -> None:
    """By a row that says its stream is in the archive."""
    made = scene(database.open(), database)
    name = an_archive(made, tmp_path / "archives")
    [row] = archive_rows(made.log.store).archives()
    position = empty_another(database, made)
    stream = made.running.hex
    value = f"x'{stream}'" if database.kind == "sqlite" else f"'{stream}'"
    with_triggers_off(database, "archived_streams", f"INSERT INTO archived_streams VALUES ({value}, {row.event})")

    assert ("archive", row.first, row.last) in findings(held(made))
    assert ("archive", row.first, row.last) in findings(check(made.log.store, job=made.running))
    with pytest.raises(ArchiveDamagedError) as caught:
        made.log.store.log(position - 1, 1)
    assert (caught.value.archive, caught.value.position) == (name, position)
    remove(tmp_path / "archives")
    assert ("archive", row.first, row.last) in findings(held(made))


@pytest.mark.parametrize(
    "column", ["digest = 'x'", "last = last + 1", "first = first - 1", "events = events + 1", "name = 'x'"]
)
def test_a_row_that_is_not_what_its_event_records_is_told(database: SqlBackend, tmp_path: Path, column: str) -> None:
    made = scene(database.open(), database)
    an_archive(made, tmp_path / "archives")

    with_triggers_off(database, "archives", f"UPDATE archives SET {column}")

    assert "archive" in {one.kind for one in held(made).findings}


@pytest.mark.parametrize("changed", ["topic = 'joblog.job.failed'", "version = version + 100"])
def test_what_the_log_keeps_of_an_archived_event_is_proven_without_the_archive(
    database: SqlBackend, tmp_path: Path, changed: str
) -> None:
    made = scene(database.open(), database)
    an_archive(made, tmp_path / "archives")
    remove(tmp_path / "archives")
    [row] = archive_rows(made.log.store).archives()
    position = archive_rows(made.log.store).places(made.completed[0])[-1].position

    with_triggers_off(database, "events", f"UPDATE events SET {changed} WHERE position = {position}")

    assert ("archive", row.first, row.last) in findings(held(made))


def test_what_the_tree_has_not_seen_is_not_archived(database: SqlBackend, tmp_path: Path) -> None:
    made = scene(database.open(), database)
    position = archive_rows(made.log.store).places(made.completed[0])[-1].position
    sql = f"UPDATE events SET state = {'x' if database.kind == 'sqlite' else ''}'7b7d' WHERE position = {position}"
    with_triggers_off(database, "events", sql)

    with pytest.raises(CorruptLogError, match=f"position {position} "):
        archived(made, tmp_path / "archives")

    assert emptied(made.log.store) == set()
    assert [path.name for path in (tmp_path / "archives").iterdir()] == [".lock"]


# -- files of the whole log ----------------------------------------------------------------------------------------------


def test_an_export_made_after_archiving_is_the_same_log_again(database: SqlBackend, tmp_path: Path) -> None:
    made = scene(database.open(), database)
    an_archive(made, tmp_path / "archives")
    logged, rows = whole_log(made.log.store), made.log.store.jobs(sorted(made.ended))
    units = {job: made.log.store.unit_states(job) for job in made.ended}
    export(made.log.store, tmp_path / "log.ndjson.gz")
    assert check_export(tmp_path / "log.ndjson.gz").findings == []
    other = SqliteBackend(f"sqlite:///{tmp_path / 'other.db'}", MovedClock())
    log = other.open()
    import_log(log.store, log.mapper, tmp_path / "log.ndjson.gz")
    remove(tmp_path / "archives")

    assert whole_log(log.store) == logged
    assert log.store.jobs(sorted(made.ended)) == rows
    assert {job: log.store.unit_states(job) for job in made.ended} == units
    assert check_log(log.store).findings == []
    assert list(row_differences(log.store, log.mapper, units=True)) == []
    log.close()


def test_an_export_without_the_archive_writes_nothing_that_looks_whole(database: SqlBackend, tmp_path: Path) -> None:
    made = scene(database.open(), database)
    an_archive(made, tmp_path / "archives")
    last = made.log.store.head()
    remove(tmp_path / "archives")

    with pytest.raises(ArchiveMissingError):
        export(made.log.store, tmp_path / "log.ndjson", last=last)
    assert list(tmp_path.glob("log.ndjson*")) == []
    here = archive_rows(made.log.store).archives()[0]
    alone = next(one.position for one in told(made.log) if one.state and here.first < one.position < here.last)
    export(made.log.store, tmp_path / "one.ndjson", first=alone, last=alone)  # nothing of it lies in the archive
    made.log.store.bodies.files.folders = (tmp_path / "elsewhere",)

    export(made.log.store, tmp_path / "log.ndjson", last=last)

    assert check_export(tmp_path / "log.ndjson").findings == []


def test_a_backup_says_which_archives_it_needs(database: SqlBackend, tmp_path: Path) -> None:
    """On SQLite; on PostgreSQL it is an export, which holds all bodies and needs none."""
    made = scene(database.open(), database)
    assert backup(made.log.store, tmp_path / "earlier").manifest.archives == []
    name = an_archive(made, tmp_path / "archives")

    done = backup(made.log.store, tmp_path / "backups")

    assert done.manifest.archives == ([name] if database.kind == "sqlite" else [])
    remove(tmp_path / "archives")
    database.clock.move(1)
    if database.kind == "sqlite":
        assert backup(made.log.store, tmp_path / "backups").manifest.archives == [name]
    else:
        with pytest.raises(ArchiveMissingError):
            backup(made.log.store, tmp_path / "backups")


# -- beside it -----------------------------------------------------------------------------------------------------------


def test_workers_followers_and_rebuilds_go_on_beside_it(backend: Backend, tmp_path: Path) -> None:
    """At every step of an archive another process commits, follows and reads."""
    from joblog.eventstore import failpoint
    from joblog.projections.rebuild import rebuild

    made = scene(backend.open(), backend)
    beside: JobLog = backend.open()
    passed: list[str] = []

    def work(point: str) -> Callable[[], None]:
        def run() -> None:
            if point not in passed:
                passed.append(point)
                one = submit_and_run(beside, point)
                assert beside.job(one).status == "completed"
                follow(beside)
                rebuild(beside.store, beside.mapper, point)
                assert whole_log(beside.store)

        return run

    points = ["archive.written", "archive.verified", "archive.published", "archive.after_commit"]
    for point in points:
        failpoint.arm(point, work(point))
    archived(made, tmp_path / "archives")
    failpoint.disarm()

    assert passed == points
    assert emptied(made.log.store) == made.ended
    assert held(made).findings == []
    assert list(row_differences(beside.store, beside.mapper, units=True)) == []


def test_who_reads_while_it_is_not_committed_reads_what_was_there(backend: Backend, tmp_path: Path) -> None:
    made, beside = scene(backend.open(), backend), backend.open()
    before, seen = whole_log(made.log.store), []

    with armed("archive.before_commit", lambda: seen.append(whole_log(beside.store))):
        archived(made, tmp_path / "archives")

    assert seen == [before]
    assert whole_log(beside.store)[:-1] == before


def submit_and_run(log: JobLog, key: str) -> Any:
    from tests.conformance.builders import claimed

    one = claimed(log, key, queue=key)
    one.complete_units([("a", 1)])
    one.complete()
    return one.job_id


def test_memory_has_the_same_rows(tmp_path: Path) -> None:
    backend = MemoryBackend("memory://", MovedClock())
    made = scene(backend.open(), backend)
    an_archive(made, tmp_path / "archives")

    assert {one.stream_id for one in backend.store.tables.log if not one.state} == made.ended
