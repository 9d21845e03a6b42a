"""An export is the stored bytes, whole or not there; an import makes the same log of it."""

import gzip
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joblog.domain.errors import (
    CorruptLogError,
    DamagedExportError,
    InvalidFieldError,
    StoreError,
    StoreNotEmptyError,
    TamperedError,
)
from joblog.domain.lease import Token
from joblog.eventstore.append import Append, EventRow
from joblog.eventstore.entries import from_line, to_line
from joblog.eventstore.proof_rows import proof_rows
from joblog.projections.proof.check import check_log
from joblog.projections.proof.report import KnownHead
from joblog.projections.proof.tree import stored_tree
from joblog.projections.transfer import export as export_module
from joblog.projections.transfer import lines as lines_module
from joblog.projections.transfer import offline, take_in
from joblog.projections.transfer.export import export
from joblog.projections.transfer.lines import packed
from joblog.projections.transfer.manifest import Manifest, manifest_of
from joblog.projections.transfer.offline import check_export
from joblog.projections.transfer.take_in import import_log
from joblog.projections.verify import row_differences, unit_differences
from joblog.workers.commands.log import JobLog
from tests.clocks import MovedClock
from tests.conformance.backends import Backend, MemoryBackend, SqlBackend, SqliteBackend
from tests.conformance.builders import ADA, a_spec, armed, claim, claimed, stored, submit, whole_log
from tests.conformance.conftest import make
from tests.projections.dying import Killed, dying_at
from tests.projections.proof.logs import SIGNER, grow, grow_and_sign

ROOT = Path(__file__).parents[3]
NAMES = ("log.ndjson", "log.ndjson.gz")


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (export_module, lines_module, offline):
        monkeypatch.setattr(module, "CHUNK", 50)


def plain(file: Path) -> bytes:
    data = file.read_bytes()
    return gzip.decompress(data) if file.suffix == ".gz" else data


# -- lines -------------------------------------------------------------------------------------------------------------

ENTRIES = st.tuples(
    st.integers(1, 2**63 - 1), st.binary(min_size=16, max_size=16), st.integers(1, 2**63 - 1),
    st.text().map(str.encode), st.binary(),
)  # fmt: skip


@given(ENTRIES)
def test_from_a_line_come_the_same_bytes_again(entry: tuple[int, bytes, int, bytes, bytes]) -> None:
    line = to_line(entry)

    assert line.count(b"\n") == 1
    assert len(line.splitlines()) == 1
    assert tuple(from_line(line)) == entry


@pytest.mark.parametrize("line", ["", "{}", "[1]", '{"position": 1}', "null"])
def test_what_is_no_line(line: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        from_line(line.encode())


# -- export ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_an_export_is_every_event_with_a_manifest(backend: Backend, tmp_path: Path, name: str) -> None:
    log, file = backend.open(), tmp_path / name
    grow_and_sign(log, 70, 120)
    grow(log, 10)
    seen: list[tuple[int, int]] = []

    made = export(log.store, file, report=lambda done, end: seen.append((done, end)))

    assert [from_line(line).position for line in plain(file).splitlines()] == list(range(1, 131))
    assert (made.first, made.last, made.count, len(made.chunks), len(made.heads)) == (1, 130, 130, 3, 2)
    assert made == Manifest.load(manifest_of(file))
    assert made.root == stored_tree(log.store).root(130).hex()
    assert seen == [(50, 130), (100, 130), (130, 130)]
    assert check_export(file).findings == []
    assert sorted(path.name for path in tmp_path.glob("log.nd*")) == [name, f"{name}.manifest.json"]
    assert export(log.store, file, last=130) == made  # there already


def test_a_range_is_checked_on_its_own(backend: Backend, tmp_path: Path) -> None:
    log, file = backend.open(), tmp_path / "part.ndjson.gz"
    kept = grow_and_sign(log, 60, 90, 200)
    made = export(log.store, file, first=71, last=140)

    report = check_export(file, kept)

    assert (report.findings, report.checked, report.heads, report.signed) == ([], 70, 1, 90)
    assert [note.split("\n")[1] for note in made.heads] == ["90"]
    with pytest.raises(InvalidFieldError, match="another export"):
        export(log.store, file, first=71, last=141)


@pytest.mark.parametrize(("first", "last"), [(0, 3), (3, 2), (1, 6), (6, None)])
def test_what_is_no_range(backend: Backend, tmp_path: Path, first: int, last: int | None) -> None:
    log = backend.open()
    grow(log, 5)

    with pytest.raises(InvalidFieldError, match="positions 1 to 5"):
        export(log.store, tmp_path / "x.ndjson", first=first, last=last)


def test_a_standby_is_exported_without_writing_to_it(sqlite_url: str, tmp_path: Path) -> None:
    with JobLog.open(sqlite_url) as log:
        grow(log, 120)
    with JobLog.open(sqlite_url, read_only=True) as reader:
        made = export(reader.store, tmp_path / "x.ndjson", first=101)
        assert proof_rows(reader.store).tree_size() == 0

    assert len(made.before) == (100).bit_count()
    assert check_export(tmp_path / "x.ndjson").findings == []


@pytest.mark.parametrize("name", NAMES)
def test_whatever_a_try_has_left_the_same_bytes_come_out(tmp_path: Path, name: str) -> None:
    backend = MemoryBackend("memory://", MovedClock())
    log = backend.open()
    grow(log, 180)
    whole = tmp_path / f"whole-{name}"
    export(log.store, whole)
    for point, passes in (("export.chunk", 1), ("export.chunk", 3), ("export.written", 1), ("export.published", 1)):
        file = tmp_path / f"{point}-{passes}-{name}"
        with armed(point, dying_at(passes)), pytest.raises(Killed):
            export(log.store, file)
        assert not manifest_of(file).exists()
        export(log.store, file)
        assert file.read_bytes() == whole.read_bytes()
    for cut in (0, 1, 500, 5000, -1, -30):
        file = tmp_path / f"cut{cut}-{name}"
        part = file.with_name(file.name + ".part")
        part.write_bytes(whole.read_bytes()[:cut] + (b"junk" if cut == 500 else b""))
        export(log.store, file)
        assert file.read_bytes() == whole.read_bytes()
    backend.close()


def test_a_part_of_another_range_or_log_is_not_gone_on_with(backend: Backend, tmp_path: Path) -> None:
    log, file, part = backend.open(), tmp_path / "x.ndjson", tmp_path / "x.ndjson.part"
    grow(log, 120)
    export(log.store, tmp_path / "other.ndjson", first=11)
    part.write_bytes((tmp_path / "other.ndjson").read_bytes())
    with pytest.raises(InvalidFieldError, match="another range"):
        export(log.store, file)

    lines = plain(tmp_path / "other.ndjson").splitlines(keepends=True)
    export(log.store, tmp_path / "same.ndjson")
    lines = plain(tmp_path / "same.ndjson").splitlines(keepends=True)
    part.write_bytes(b"".join([lines[0].replace(b"happened", b"vanished"), *lines[1:]]))
    with pytest.raises(InvalidFieldError, match="another log"):
        export(log.store, file)


def test_a_log_that_was_changed_is_not_exported_as_if_it_was_not(sqlite_url: str, tmp_path: Path) -> None:
    backend = SqliteBackend(sqlite_url, MovedClock())
    log = backend.open()
    grow_and_sign(log, 60)
    backend.run("DROP TRIGGER events_no_update")
    backend.run("UPDATE events SET topic = 'forged' WHERE position = 5")
    with pytest.raises(TamperedError):
        export(log.store, tmp_path / "x.ndjson")
    assert not (tmp_path / "x.ndjson").exists()

    backend.run("DROP TRIGGER events_no_delete")
    backend.run("DELETE FROM events WHERE position = 30")
    with pytest.raises(CorruptLogError):
        export(log.store, tmp_path / "y.ndjson")
    backend.close()


_EXPORT = """
import os, signal, sys
from pathlib import Path
from typing import Any
from joblog.eventstore import failpoint
from joblog.eventstore.opening import open_store
from joblog.projections.transfer import export, lines, offline
for module in (export, lines, offline):
    module.CHUNK = 50
left = [int(sys.argv[3])]
def die():
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[2]:
    failpoint.arm(sys.argv[2], die)
export.export(open_store(sys.argv[1], create=False), Path(sys.argv[4]))
"""


@pytest.mark.faults
def test_an_export_that_is_killed_goes_on(database: SqlBackend, tmp_path: Path) -> None:
    log, file = database.open(), tmp_path / "x.ndjson.gz"
    grow(log, 180)
    export(log.store, tmp_path / "whole.ndjson.gz")
    for point, passes in (("export.chunk", 2), ("export.written", 1), ("export.published", 1), ("", 0)):
        command = [sys.executable, "-c", _EXPORT, database.url, point, str(passes), str(file)]
        done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT / "src")}, check=False, timeout=300)
        assert done.returncode == (-signal.SIGKILL if point else 0)

    assert file.read_bytes() == (tmp_path / "whole.ndjson.gz").read_bytes()
    assert check_export(file).findings == []


# -- offline -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def exported(tmp_path: Path) -> tuple[Path, list[KnownHead]]:
    backend = MemoryBackend("memory://", MovedClock())
    log = backend.open()
    kept = grow_and_sign(log, 40, 120)
    export(log.store, tmp_path / "log.ndjson")
    backend.close()
    return tmp_path / "log.ndjson", kept


def edited(file: Path, edit: Callable[[list[bytes]], None]) -> None:
    lines = file.read_bytes().splitlines(keepends=True)
    edit(lines)
    file.write_bytes(b"".join(lines))


def change(lines: list[bytes]) -> None:
    lines[70] = lines[70].replace(b"happened", b"vanished")


def remove(lines: list[bytes]) -> None:
    del lines[70]


def remove_many(lines: list[bytes]) -> None:
    del lines[70:]


def swap(lines: list[bytes]) -> None:
    lines[70], lines[71] = lines[71], lines[70]


def insert(lines: list[bytes]) -> None:
    lines.insert(70, lines[3])


def append(lines: list[bytes]) -> None:
    lines.append(lines[-1].replace(b'"position":120', b'"position":121'))


def spoil(lines: list[bytes]) -> None:
    lines[70] = b"{}\n"


@pytest.mark.parametrize("edit", [change, remove, remove_many, swap, insert, append, spoil])
def test_a_file_that_was_edited_is_refused_by_place(
    exported: tuple[Path, list[KnownHead]], edit: Callable[[list[bytes]], None]
) -> None:
    file, kept = exported
    edited(file, edit)

    report = check_export(file, kept)

    assert report.findings
    first = 121 if edit is append else 71
    assert any(finding.first <= first <= finding.last for finding in report.findings)
    assert min(finding.first for finding in report.findings) >= 41  # behind the head before


def test_a_manifest_that_was_made_new_is_caught_by_a_kept_head(exported: tuple[Path, list[KnownHead]]) -> None:
    file, kept = exported
    edited(file, change)
    again = MemoryBackend("memory://", MovedClock())
    log = again.open()
    for line in file.read_bytes().splitlines():
        entry = from_line(line)
        row = EventRow(entry.version, entry.topic.decode(), entry.state)
        stored(log.writer.append(Append(UUID(bytes=entry.stream), entry.version - 1, [row], "")))
    again.store._store_id = kept[0].head.store_id
    file.unlink()
    manifest_of(file).unlink()
    export(log.store, file)
    again.close()

    assert check_export(file).findings == []
    report = check_export(file, kept)
    assert [finding[:3] for finding in report.findings] == [("contradiction", 41, 120)]
    assert report.signed == 40
    stranger = kept[0]._replace(head=kept[0].head._replace(store_id=UUID(int=1)))
    assert check_export(file, [stranger]).findings[0].kind == "contradiction"


def test_a_packed_file_that_is_torn_or_damaged(tmp_path: Path) -> None:
    backend = MemoryBackend("memory://", MovedClock())
    log, file = backend.open(), tmp_path / "log.ndjson.gz"
    grow(log, 120)
    export(log.store, file)
    data = file.read_bytes()

    file.write_bytes(data[:-10])
    assert [finding[:3] for finding in check_export(file).findings] == [("missing", 101, 120)]
    second = data.index(packed(b"")[:4], 10)
    file.write_bytes(data[: second + 20] + b"\xff\xff" + data[second + 22 :])
    report = check_export(file)
    assert report.findings
    assert min(finding.first for finding in report.findings) == 51
    backend.close()


@pytest.mark.parametrize("text", ["", "{}", "[]", "{"])
def test_without_a_whole_manifest_there_is_no_export(exported: tuple[Path, list[KnownHead]], text: str) -> None:
    file, _ = exported
    manifest_of(file).write_text(text)
    with pytest.raises(DamagedExportError, match="no whole manifest"):
        check_export(file)


def test_a_manifest_of_a_newer_form_is_refused(exported: tuple[Path, list[KnownHead]]) -> None:
    file, _ = exported
    made = json.loads(manifest_of(file).read_text())
    manifest_of(file).write_text(json.dumps(made | {"format": "joblog-export/9"}))
    with pytest.raises(DamagedExportError, match="use a newer joblog"):
        check_export(file)


# -- import ------------------------------------------------------------------------------------------------------------


def a_life(log: JobLog) -> None:
    """Jobs in many states, a queue, a newer event, and one that is not text."""
    for number in range(12):
        submit(log, f"k{number}", tenant=f"t{number % 2}", exclusive_key="x" if number == 3 else "")
    held = claim(log, limit=6)
    for number, one in enumerate(held):
        one.complete_units([(f"u{number}", {"n": number}), ("b", None)], cursor=number)
    held[0].complete()
    held[1].release("yield")
    held[2].fail(reason="invalid-input", text="no")
    log.control_queue("bulk", "pause", ADA)
    log.control_queue("other", "limit", ADA, slots=3)
    stored(log.writer.append(Append(UUID(int=5), 0, [EventRow(1, "joblog.job.unheard-of", b'{"event_id":"e"}')], "e")))
    stored(log.writer.append(Append(UUID(int=6), 0, [EventRow(1, "test.bytes", b"\xff\x00")], "")))


@pytest.fixture
def empty(database: SqlBackend, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[JobLog]:
    """An empty log of the same kind as ``database``."""
    (tmp_path / "empty").mkdir()
    for backend in make(database.kind, request, tmp_path / "empty"):
        yield backend.open()
        backend.close()


@pytest.mark.parametrize("name", NAMES)
def test_an_import_makes_the_same_log(database: SqlBackend, empty: JobLog, tmp_path: Path, name: str) -> None:
    log, file = database.open(), tmp_path / name
    a_life(log)
    made = export(log.store, file)

    assert import_log(empty.store, empty.mapper, file) == made

    assert whole_log(empty.store) == whole_log(log.store)
    assert empty.store.state()[:2] == log.store.state()[:2]
    again = tmp_path / f"again-{name}"
    export(empty.store, again)
    assert again.read_bytes() == file.read_bytes()
    assert list(row_differences(empty.store, empty.mapper)) == []
    for event in whole_log(log.store):
        assert list(unit_differences(empty.store, empty.mapper, event.stream_id)) == []
    assert empty.store.queue_rows() == log.store.queue_rows()
    assert check_log(empty.store).findings == []


def test_the_jobs_go_on_after_an_import(database: SqlBackend, empty: JobLog, tmp_path: Path) -> None:
    log, file = database.open(), tmp_path / "log.ndjson"
    held = claimed(log, "mine", exclusive_key="k")
    held.complete_units([("a", 1)], cursor=1)
    export(log.store, file)
    import_log(empty.store, empty.mapper, file)

    lease = empty.store.lease(held.job_id)
    assert lease is not None
    assert (lease.token, lease.lease_until) == (held.token, 0)
    assert [one.job_id for one in empty.expire("reaper")] == [held.job_id]
    empty.promote()
    [again] = empty.claim("w", limit=1)
    assert (again.job_id, again.job.cursor, again.token) == (held.job_id, 1, Token(1, held.token.grant + 1))
    again.complete()
    assert empty.submit(a_spec("mine", exclusive_key="k")).created is False


def test_heads_are_taken_over(database: SqlBackend, empty: JobLog, tmp_path: Path) -> None:
    log, file = database.open(), tmp_path / "log.ndjson"
    kept = grow_and_sign(log, 30, 60)
    export(log.store, file)
    import_log(empty.store, empty.mapper, file)

    assert [row.size for row in proof_rows(empty.store).heads()] == [30, 60]
    assert check_log(empty.store, kept).signed == 60
    assert all(SIGNER.verifier.opened(row.note) for row in proof_rows(empty.store).heads())


def test_only_an_empty_log_takes_an_export_and_only_a_whole_one(
    database: SqlBackend, empty: JobLog, tmp_path: Path
) -> None:
    log, file = database.open(), tmp_path / "log.ndjson"
    grow(log, 120)
    export(log.store, file)
    export(log.store, tmp_path / "late.ndjson", first=2)

    with pytest.raises(StoreNotEmptyError, match="has 120 events already"):
        import_log(log.store, log.mapper, file)
    with pytest.raises(InvalidFieldError, match="begins at 2"):
        import_log(empty.store, empty.mapper, tmp_path / "late.ndjson")
    edited(file, change)
    with pytest.raises(DamagedExportError, match="nothing was written"):
        import_log(empty.store, empty.mapper, file)
    assert empty.store.head() == 0


def test_an_import_that_dies_has_written_nothing(database: SqlBackend, empty: JobLog, tmp_path: Path) -> None:
    log, file = database.open(), tmp_path / "log.ndjson"
    a_life(log)
    export(log.store, file)
    with armed("import.before_commit", dying_at(1)), pytest.raises(Killed):
        import_log(empty.store, empty.mapper, file)
    assert empty.store.head() == 0

    import_log(empty.store, empty.mapper, file)
    assert whole_log(empty.store) == whole_log(log.store)


def test_a_store_in_memory_takes_none(exported: tuple[Path, list[KnownHead]]) -> None:
    backend = MemoryBackend("memory://", MovedClock())
    log = backend.open()
    with pytest.raises(StoreError, match="only a log in a database"):
        import_log(log.store, log.mapper, exported[0])
    backend.close()


def test_an_import_may_take_longer_than_any_lease(
    postgres_url: str, exported: tuple[Path, list[KnownHead]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every other transaction ends with a third of the lease, whoever is stopped in it."""
    settings: list[tuple[str, str]] = []

    def look(taking: take_in._Taking, cursor: Any) -> None:
        names = "'transaction_timeout', 'idle_in_transaction_session_timeout', 'statement_timeout'"
        settings.extend(cursor.execute(f"SELECT name, setting FROM pg_settings WHERE name IN ({names})").fetchall())

    monkeypatch.setattr(take_in._Taking, "_write_queues", look)
    with JobLog.open(postgres_url) as log:
        import_log(log.store, log.mapper, exported[0])
        with log.store.writing("claim") as cursor:  # type: ignore[attr-defined]
            after = cursor.execute("SHOW idle_in_transaction_session_timeout").fetchone()[0]

    assert {value for _, value in settings} == {"0"}
    assert len(settings) >= 2
    assert after == "10s"
