"""Backups: whole or not there, and a restore that is told to everybody by its epoch (SNP-01…14)."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from joblog.domain.errors import (
    CorruptLogError,
    DamagedExportError,
    InvalidFieldError,
    LogRewoundError,
    StoreBusyError,
    StoreError,
    StoreFullError,
)
from joblog.eventstore.clock import SystemIds
from joblog.eventstore.mapper import OrjsonMapper, OrjsonTranscoder
from joblog.projections.backup.generations import DIARY, MANIFEST, Folder, load
from joblog.projections.backup.make import backup
from joblog.projections.backup.restore import Request, Restored, SqliteRestore, choose
from joblog.projections.feed.consumers import Consumer
from joblog.projections.proof.check import check_log
from joblog.projections.recovery_lines import parse
from joblog.projections.transfer.take_in import import_log
from joblog.projections.verify import row_differences
from joblog.workers.commands.log import JobLog
from tests.clocks import MovedClock
from tests.conformance.backends import MemoryBackend, SqlBackend, SqliteBackend
from tests.conformance.builders import armed, claimed, submit, whole_log
from tests.projections.proof.logs import grow, grow_and_sign

ROOT = Path(__file__).parents[3]
WHY = Request("ada", "disk died", "")


class Killed(BaseException):
    """What a test raises where a process would be killed."""


def die() -> None:
    raise Killed


@pytest.fixture
def source(tmp_path: Path) -> Iterator[SqliteBackend]:
    backend = SqliteBackend(f"sqlite:///{tmp_path / 'joblog.db'}", MovedClock())
    yield backend
    backend.close()


def restore(backend: SqliteBackend, folder: Path, request: Request = WHY, name: str = "") -> Restored:
    restoring = SqliteRestore(Path(backend.path), OrjsonMapper(OrjsonTranscoder()), backend.clock, SystemIds())
    return restoring.run(choose(folder, name), request)


def diary(folder: Path) -> list[tuple[str, bool]]:
    """What was noted; each line is one that the recovery report can take in."""
    lines = (folder / DIARY).read_bytes().splitlines()
    assert all(parse(line) for line in lines)
    return [(json.loads(line)["type"], json.loads(line)["done"]) for line in lines]


# -- backup ------------------------------------------------------------------------------------------------------------


def test_a_backup_is_the_whole_log_with_a_manifest(source: SqliteBackend, tmp_path: Path) -> None:
    log, folder = source.open(), tmp_path / "backups"
    submit(log, "a")
    grow_and_sign(log, 20)

    made = backup(log.store, folder, reason="nightly")

    about = load(made.path).manifest
    assert made.manifest == about
    assert (about.kind, about.epoch, about.head, about.reason, about.schema_version) == ("sqlite", 1, 20, "nightly", 1)
    assert about.root == check_log(log.store).root.hex()
    assert about.created_at == source.clock.now().isoformat()
    assert sorted(path.name for path in made.path.iterdir()) == ["log.db.gz", MANIFEST]
    assert diary(folder) == [("backup", True)]
    assert sorted(path.name for path in folder.iterdir()) == [".lock", made.name, DIARY]


def test_the_newest_are_kept(source: SqliteBackend, tmp_path: Path) -> None:
    log, folder, names = source.open(), tmp_path / "backups", []
    for _ in range(4):
        grow(log, 2)
        source.clock.move(60)
        names.append(backup(log.store, folder, keep=2).name)

    assert [one.name for one in Folder(folder).generations()] == names[-2:]
    assert [path.name for path in sorted(folder.iterdir()) if path.is_dir()] == names[-2:]
    with pytest.raises(InvalidFieldError):
        backup(log.store, folder, keep=0)


def test_writers_go_on_meanwhile_and_the_copy_is_of_one_moment(source: SqliteBackend, tmp_path: Path) -> None:
    log, writer, stop = source.open(), source.open(), Event()
    grow(log, 50)

    def write() -> None:
        while not stop.is_set():
            grow(writer, 4, size=2)
        writer.store.release_thread()

    thread = Thread(target=write)
    thread.start()
    try:
        heads = []
        for _ in range(3):
            source.clock.move(1)
            heads.append(backup(log.store, tmp_path / "backups").manifest.head)
    finally:
        stop.set()
        thread.join()

    assert 50 <= heads[0] <= heads[1] <= heads[2] <= log.store.head()


@pytest.mark.parametrize("point", ["backup.copied", "backup.packed", "backup.verified"])
def test_a_backup_that_is_killed_is_none_and_the_next_one_is(source: SqliteBackend, tmp_path: Path, point: str) -> None:
    log, folder = source.open(), tmp_path / "backups"
    grow(log, 5)
    first = backup(log.store, folder, keep=1)
    source.clock.move(60)
    with armed(point, die), pytest.raises(Killed):
        backup(log.store, folder, keep=1)

    assert [one.name for one in Folder(folder).generations()] == [first.name]
    assert backup(log.store, folder, keep=1).name != first.name
    assert len(Folder(folder).generations()) == 1


_BACKUP = """
import os, signal, sys
from pathlib import Path
from joblog.eventstore import failpoint
from joblog.eventstore.opening import open_store
from joblog.projections.backup.make import backup
failpoint.arm(sys.argv[2], lambda: os.kill(os.getpid(), signal.SIGKILL))
backup(open_store(sys.argv[1], create=False), Path(sys.argv[3]), keep=1)
"""


@pytest.mark.faults
def test_killed_for_real_at_every_arrow(database: SqlBackend, tmp_path: Path) -> None:
    log, folder = database.open(), tmp_path / "backups"
    grow(log, 5)
    database.clock.move(60)
    for point in ("backup.copied", "backup.packed", "backup.verified", "backup.published"):
        command = [sys.executable, "-c", _BACKUP, database.url, point, str(folder)]
        done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT / "src")}, check=False, timeout=300)
        assert done.returncode == -signal.SIGKILL
        assert len(Folder(folder).generations()) == (point == "backup.published")

    database.clock.move(60)
    assert backup(log.store, folder, keep=1).manifest.head == 5
    assert len([path for path in folder.iterdir() if path.is_dir()]) == 1


def test_a_damaged_log_never_takes_the_place_of_a_good_backup(source: SqliteBackend, tmp_path: Path) -> None:
    log, folder = source.open(), tmp_path / "backups"
    grow_and_sign(log, 10)
    first = backup(log.store, folder, keep=1)
    source.run("DROP TRIGGER events_no_update")
    source.run("UPDATE events SET topic = 'forged' WHERE position = 4")
    source.clock.move(60)

    with pytest.raises(CorruptLogError, match="position 4: not as first written"):
        backup(log.store, folder, keep=1)

    assert [one.name for one in Folder(folder).generations()] == [first.name]
    assert diary(folder) == [("backup", True), ("backup-failed", False)]


def test_room_is_looked_for_first(source: SqliteBackend, tmp_path: Path) -> None:
    log, folder = source.open(), tmp_path / "backups"
    grow(log, 10)
    with pytest.raises(StoreFullError, match="nothing was written"):
        backup(log.store, folder, free=lambda _: 1000)
    assert Folder(folder).generations() == []
    assert diary(folder) == [("backup-failed", False)]


def test_two_at_once_are_refused(source: SqliteBackend, tmp_path: Path) -> None:
    log, folder = source.open(), tmp_path / "backups"
    grow(log, 1)
    seen: list[BaseException] = []

    def second() -> None:
        with pytest.raises(StoreBusyError, match="another backup") as caught:
            backup(log.store, folder)
        seen.append(caught.value)

    with armed("backup.copied", second):
        assert backup(log.store, folder).manifest.head == 1
    assert len(seen) == 1


def test_a_log_in_memory_has_no_backup(tmp_path: Path) -> None:
    backend = MemoryBackend("memory://", MovedClock())
    with pytest.raises(StoreError, match="in memory"):
        backup(backend.open().store, tmp_path / "backups")
    backend.close()


@pytest.mark.parametrize("text", ["", "{}", '{"format": 1}'])
def test_a_folder_without_a_whole_manifest_is_no_candidate(source: SqliteBackend, tmp_path: Path, text: str) -> None:
    log, folder = source.open(), tmp_path / "backups"
    grow(log, 1)
    made = backup(log.store, folder)
    (made.path / MANIFEST).write_text(text)

    assert Folder(folder).generations() == []
    with pytest.raises(DamagedExportError, match="no whole backup"):
        choose(folder)
    with pytest.raises(DamagedExportError, match="no whole manifest"):
        choose(folder, made.name)


def test_a_backup_of_a_newer_form_is_refused(source: SqliteBackend, tmp_path: Path) -> None:
    log = source.open()
    grow(log, 1)
    made = backup(log.store, tmp_path / "backups")
    about = json.loads((made.path / MANIFEST).read_text())
    (made.path / MANIFEST).write_text(json.dumps(about | {"format": "joblog-backup/9"}))
    with pytest.raises(DamagedExportError, match="use a newer joblog"):
        load(made.path)


# -- restore -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def backed_up(source: SqliteBackend, tmp_path: Path) -> Path:
    """A folder with a backup of a log that has gone on since, and is closed now."""
    log = source.open()
    held = claimed(log, "mine")
    held.complete_units([("a", 1)], cursor=1)
    consumer = Consumer.open(log.store, "audit")
    backup(log.store, tmp_path / "backups")
    held.complete_units([("b", 1)], cursor=2)
    consumer.read()
    consumer.commit()
    log.close()
    return tmp_path / "backups"


def test_a_restore_begins_a_new_epoch_and_keeps_what_was_there(source: SqliteBackend, backed_up: Path) -> None:
    made = restore(source, backed_up)

    log = source.open()
    assert (made.head, made.epoch, made.is_new) == (4, 2, True)
    assert (log.store.state().epoch, log.store.head()) == (2, 5)
    last = whole_log(log.store)[-1]
    assert (last.topic, json.loads(last.state)["reason"]) == ("joblog.log.epoch-raised", "disk died")
    assert list(row_differences(log.store, log.mapper)) == []
    assert made.kept is not None
    with JobLog.open(f"sqlite:///{made.kept}", read_only=True) as kept:
        assert (kept.store.state().epoch, kept.store.head()) == (1, 6)
    assert diary(backed_up) == [("backup", True), ("restore", True)]
    assert not list(Path(source.path).parent.glob("*.restoring*"))


def test_nobody_goes_on_as_if_nothing_had_happened(source: SqliteBackend, backed_up: Path) -> None:
    log = source.open()
    [lease] = [log.store.lease(event.stream_id) for event in whole_log(log.store)[:1]]
    assert lease is not None
    log.close()
    restore(source, backed_up)

    log = source.open()
    audit = Consumer.open(log.store, "audit")
    with pytest.raises(LogRewoundError):
        audit.read()
    assert audit.rejoin().epoch == 2
    assert [one.job_id for one in log.expire("reaper")] == [lease.job_id]
    log.promote()
    [held] = log.claim("w", limit=1)
    assert (held.job.cursor, held.token.epoch) == (1, 2)


def test_a_process_that_has_the_log_open_keeps_a_restore_away(source: SqliteBackend, backed_up: Path) -> None:
    log = source.open()
    head = log.store.head()

    with pytest.raises(StoreBusyError, match="is in use"):
        restore(source, backed_up)

    assert log.store.head() == head
    assert diary(backed_up)[-1] == ("restore-failed", False)
    log.close()
    assert restore(source, backed_up).is_new


def test_the_same_request_is_carried_out_once(source: SqliteBackend, backed_up: Path) -> None:
    request = WHY._replace(request_id="restore-2030-01-01-abcdef")
    first = restore(source, backed_up, request)
    log = source.open()
    grow(log, 3)
    log.close()

    for _ in range(2):
        again = restore(source, backed_up, request)
        assert (again.is_new, again.epoch, again.head) == (False, first.epoch, first.head)
    assert source.open().store.head() == 8


def test_a_new_place_is_filled(source: SqliteBackend, backed_up: Path, tmp_path: Path) -> None:
    other = SqliteBackend(f"sqlite:///{tmp_path / 'other.db'}", source.clock)

    made = restore(other, backed_up, WHY._replace(request_id="x" * 20))

    assert (made.kept, made.epoch) == (None, 2)
    assert other.open().store.head() == 5
    other.close()


def test_an_older_one_by_name(source: SqliteBackend, backed_up: Path) -> None:
    [old] = Folder(backed_up).generations()
    log = source.open()
    source.clock.move(60)
    backup(log.store, backed_up)
    log.close()

    assert restore(source, backed_up, name=old.name).head == 4
    source.clock.move(60)
    assert restore(source, backed_up).head == 6


@pytest.mark.parametrize("point", ["restore.verified", "restore.raised", "restore.kept"])
def test_killed_before_the_replacement_the_log_is_what_it_was(
    source: SqliteBackend, backed_up: Path, point: str
) -> None:
    with armed(point, die), pytest.raises(Killed):
        restore(source, backed_up)
    log = source.open()
    assert (log.store.state().epoch, log.store.head()) == (1, 6)
    log.close()
    source.clock.move(1)

    assert restore(source, backed_up).epoch == 2


def test_killed_after_the_replacement_it_is_restored_once(source: SqliteBackend, backed_up: Path) -> None:
    request = WHY._replace(request_id="restore-2030-01-01-abcdef")
    with armed("restore.replaced", die), pytest.raises(Killed):
        restore(source, backed_up, request)

    assert restore(source, backed_up, request).is_new is False
    assert source.open().store.state().epoch == 2


@pytest.mark.parametrize("where", [100, -100])
def test_a_damaged_backup_is_not_restored(source: SqliteBackend, backed_up: Path, where: int) -> None:
    [made] = Folder(backed_up).generations()
    file = made.path / made.manifest.file
    data = bytearray(file.read_bytes())
    data[where] ^= 0xFF
    file.write_bytes(data)

    with pytest.raises(DamagedExportError):
        restore(source, backed_up)
    file.write_bytes(file.read_bytes()[:-50])
    with pytest.raises(DamagedExportError):
        restore(source, backed_up)

    log = source.open()
    assert (log.store.state().epoch, log.store.head()) == (1, 6)
    assert diary(backed_up)[-1] == ("restore-failed", False)


def test_a_backup_that_holds_something_else_than_it_says_is_not_restored(
    source: SqliteBackend, backed_up: Path
) -> None:
    [made] = Folder(backed_up).generations()
    about = json.loads((made.path / MANIFEST).read_text())
    (made.path / MANIFEST).write_text(json.dumps(about | {"root": "00" * 32}))

    with pytest.raises(DamagedExportError, match="does not hold what its manifest says"):
        restore(source, backed_up)


def test_a_damaged_target_is_left_alone(source: SqliteBackend, backed_up: Path) -> None:
    path = Path(source.path)
    data = b"no database at all" * 500
    path.write_bytes(data)

    with pytest.raises(StoreError):
        restore(source, backed_up)

    assert path.read_bytes() == data
    path.rename(path.with_name("damaged"))
    assert restore(source, backed_up).epoch == 2


# -- PostgreSQL --------------------------------------------------------------------------------------------------------


def test_the_events_of_a_postgresql_are_backed_up_and_taken_in(
    postgres_url: str, tmp_path: Path, make_empty: Callable[[], JobLog]
) -> None:
    with JobLog.open(postgres_url) as log:
        submit(log, "a")
        grow(log, 20)
        made = backup(log.store, tmp_path / "backups", reason="nightly")
        events = whole_log(log.store)
    empty = make_empty()

    assert (made.manifest.kind, made.manifest.head) == ("export", 21)
    with pytest.raises(InvalidFieldError, match="import-log"):
        SqliteRestore(tmp_path / "x.db", empty.mapper, empty.clock, SystemIds()).run(made, WHY)
    import_log(empty.store, empty.mapper, made.path / made.manifest.file)
    assert whole_log(empty.store) == events


@pytest.fixture
def make_empty(tmp_path: Path) -> Iterator[Callable[[], JobLog]]:
    logs: list[JobLog] = []

    def make() -> JobLog:
        logs.append(JobLog.open(f"sqlite:///{tmp_path / 'empty.db'}"))
        return logs[-1]

    yield make
    for log in logs:
        log.close()


def test_the_copy_holds_what_events_do_not(source: SqliteBackend, backed_up: Path) -> None:
    """Leases, unit results, receipts, consumers: all tables."""
    with closing(sqlite3.connect(source.path)) as driver:
        tables = [name for (name,) in driver.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    restore(source, backed_up)
    with closing(sqlite3.connect(source.path)) as driver:
        counts: dict[str, Any] = {name: driver.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables}
    assert (counts["unit_results"], counts["leases"], counts["consumers"], counts["events"]) == (1, 1, 1, 5)
