"""Files of notes that others append to: each line once, whatever happens to the file or to us (RPT-23..30)."""

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from signal import SIGKILL
from typing import Any

import orjson
import pytest

from joblog.domain.errors import UnknownOutcomeError
from joblog.eventstore.clock import micros
from joblog.projections import queries
from joblog.projections.recovery_lines import LINE_LIMIT, parse
from joblog.workers.commands import recovery
from joblog.workers.commands.log import JobLog
from tests.clocks import MovedClock
from tests.conformance.backends import Backend, MemoryBackend
from tests.conformance.builders import armed, assert_whole, once
from tests.projections.viewing import runner

ROOT = Path(__file__).parents[3]


@pytest.fixture
def memory() -> Iterator[JobLog]:
    backend = MemoryBackend("memory://", MovedClock())
    yield backend.open()
    backend.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "recovery-events.jsonl"


def line(kind: str, **fields: Any) -> bytes:
    return orjson.dumps({"type": kind, **fields}) + b"\n"


def append(file: Path, *lines: bytes) -> None:
    with file.open("ab") as opened:
        opened.write(b"".join(lines))


def shown(log: JobLog) -> list[str]:
    """The types of all rows of the report, the oldest position first."""
    runner(log).run()
    rows: list[dict[str, Any]] = []
    pages = queries.recovery_page(log.store).window.pages
    for page in range(1, pages + 1):
        rows += queries.recovery_page(log.store, page=page).rows
    return [row["type"] for row in sorted(rows, key=lambda row: row["position"])]


# -- one line ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"   ",
        b"junk",
        b"null",
        b"7",
        b'"text"',
        b"[]",
        b"{}",
        b'{"type":""}',
        b'{"type":" "}',
        b'{"type":7}',
        b'{"type":null}',
        b'{"type":"x","n":NaN}',
        b'{"type":"\xff\xfe"}',
        b'{"type":"x"',
        b'{"type":"x","a":' + b"[" * 5000 + b"]" * 5000 + b"}",
        b"\x00",
    ],
)
def test_a_line_that_says_nothing_is_skipped(junk: bytes) -> None:
    assert parse(junk) is None


def test_a_line_is_bounded_in_bytes() -> None:
    """RPT-24."""
    short = b'{"type":"x","detail":"%b"}'
    fits = short % (b"d" * (LINE_LIMIT - len(short) + 2))
    assert len(fits) == LINE_LIMIT
    assert parse(fits) is not None
    assert parse(short % (b"d" * (LINE_LIMIT - len(short) + 3))) is None


@pytest.mark.parametrize(
    ("said", "done"),
    [
        ({"type": "restore-failed"}, False),
        ({"type": "Restore Failure"}, False),
        ({"type": "restore-failed", "done": True}, True),
        ({"type": "restored"}, True),
        ({"type": "restored", "done": False}, False),
        ({"type": "restored", "done": "no"}, True),
        ({"type": "failed-over"}, True),
    ],
)
def test_the_outcome_of_a_line_survives(said: dict[str, Any], *, done: bool) -> None:
    """RPT-10, RPT-29."""
    found = parse(orjson.dumps(said))
    assert found is not None
    assert found.done is done


@pytest.mark.parametrize(
    ("said", "at"),
    [
        ({"at": "2029-05-01T10:00:00Z"}, "2029-05-01T10:00:00+00:00"),
        ({"timestamp": "2029-05-01T12:00:00.5+02:00"}, "2029-05-01T10:00:00.500000+00:00"),
        ({"time": "2029-05-01 10:00:00"}, "2029-05-01T10:00:00+00:00"),
        ({"ts": 1_872_000_000}, "2029-04-27T16:00:00+00:00"),
        ({"createdAt": 1_872_000_000_000}, "2029-04-27T16:00:00+00:00"),
        ({"at": "2999-01-01T00:00:00Z"}, "2999-01-01T00:00:00+00:00"),
        ({"at": "soon", "date": "2029-05-01"}, "2029-05-01T00:00:00+00:00"),
        ({"at": 1e300}, None),
        ({"at": True}, None),
        ({"at": -1e15}, None),
        ({"at": "0001-01-01T00:00:00+14:00"}, None),
        ({}, None),
    ],
)
def test_the_instant_of_a_line(said: dict[str, Any], at: str | None) -> None:
    """RPT-26, RPT-28."""
    found = parse(orjson.dumps({"type": "x", **said}))
    assert found is not None
    assert found.happened_at == (None if at is None else datetime.fromisoformat(at))


def test_what_is_not_given_and_what_is_too_much() -> None:
    found = parse(orjson.dumps({"type": "t" * 500, "severity": "fatal", "ids": list(range(99)), "detail": "d" * 999}))
    assert found is not None
    assert (found.severity, found.source, len(found.ids), len(found.type), len(found.detail)) == (
        "info", "startup", 50, 100, 500,
    )  # fmt: skip


def test_nothing_in_a_line_can_hurt(memory: JobLog, file: Path) -> None:
    """RPT-22, RPT-23: kept as it is where that can be kept, and a secret is not kept."""
    text = '<script>"\x1b[31m\x00%s</script>'
    append(
        file, b"\xef\xbb\xbf" + line("bom"), line("x", detail=text).replace(b"\n", b"\r\n"),
        b'{"type":"first","type":"last"}\n', line("secret", detail="see https://ada:pw@host/"),
    )  # fmt: skip

    assert recovery.import_file(memory, file) == (4, 0, file.stat().st_size)

    assert shown(memory) == ["bom", "x", "last", "secret"]
    rows = {row["type"]: row for row in queries.recovery_page(memory.store).rows}
    assert rows["x"]["detail"] == text.replace("\x00", r"\u0000")
    assert "pw" not in rows["secret"]["detail"]


# -- each line once ------------------------------------------------------------------------------------------------------


def test_only_what_was_appended_is_taken_in(backend: Backend, file: Path) -> None:
    """RPT-25: also after restarts."""
    log = backend.open()
    append(file, line("a"), b"junk\n", line("b"))
    assert recovery.import_file(log, file)[:2] == (2, 1)
    for _ in range(3):
        log = backend.reopen(log)
        assert recovery.import_file(log, file)[:2] == (0, 0)

    append(file, line("c"))
    assert recovery.import_file(log, file)[:2] == (1, 0)

    assert shown(log) == ["a", "b", "c"]
    assert_whole(log.store)


def test_equal_missing_future_and_old_times_are_all_taken(memory: JobLog, file: Path) -> None:
    """RPT-26: nothing is decided by time."""
    same = {"at": "2029-12-31T23:59:59Z"}
    append(file, line("one", **same), line("two", **same))
    recovery.import_file(memory, file)
    append(
        file, line("three", **same), line("four"), line("five", at="2999-01-01T00:00:00Z"), line("six", at="1999-01-01")
    )
    recovery.import_file(memory, file)

    assert shown(memory) == ["one", "two", "three", "four", "five", "six"]
    [five] = [row for row in queries.recovery_page(memory.store).rows if row["type"] == "five"]
    assert five["at"] == micros(datetime(2999, 1, 1, tzinfo=UTC))
    assert five["recorded_at"] == micros(memory.now())


def test_a_torn_last_line_is_left_until_it_is_whole(memory: JobLog, file: Path) -> None:
    """RPT-27."""
    whole = line("torn", detail="x")
    append(file, line("a"), whole[:9])
    recovery.import_file(memory, file)
    assert shown(memory) == ["a"]
    assert recovery.import_file(memory, file)[:2] == (0, 0)

    append(file, whole[9:])
    recovery.import_file(memory, file)

    assert shown(memory) == ["a", "torn"]


def test_a_file_that_is_one_torn_line(memory: JobLog, file: Path) -> None:
    append(file, b'{"type":')
    assert recovery.import_file(memory, file) == (0, 0, 0)
    append(file, b'"x"}\n')
    assert recovery.import_file(memory, file)[0] == 1


def test_a_rotated_file_and_its_successor(memory: JobLog, file: Path) -> None:
    """What was written to the old one behind our back is read too."""
    append(file, line("a"))
    recovery.import_file(memory, file)
    append(file, line("b"))
    file.rename(file.with_name(file.name + ".1"))
    append(file, line("c"))

    assert recovery.import_file(memory, file)[:2] == (2, 0)
    assert recovery.import_file(memory, file)[:2] == (0, 0)

    assert shown(memory) == ["a", "b", "c"]


def test_a_file_that_was_truncated_and_written_anew(memory: JobLog, file: Path) -> None:
    append(file, line("a"), line("b"))
    recovery.import_file(memory, file)
    file.write_bytes(line("c"))
    recovery.import_file(memory, file)
    file.write_bytes(line("c") + line("d"))

    assert recovery.import_file(memory, file)[:2] == (1, 0)
    assert shown(memory) == ["a", "b", "c", "d"]


def test_truncated_and_begun_with_the_very_same_line(memory: JobLog, file: Path) -> None:
    append(file, line("start"), line("a"))
    recovery.import_file(memory, file)
    file.write_bytes(line("start"))
    recovery.import_file(memory, file)
    append(file, line("other"), line("b"))
    recovery.import_file(memory, file)

    assert shown(memory) == ["start", "a", "start", "other", "b"]


def test_a_copy_in_place_of_the_file_is_another_file(memory: JobLog, file: Path, tmp_path: Path) -> None:
    append(file, line("a"))
    recovery.import_file(memory, file)
    other = tmp_path / "other"
    other.write_bytes(line("z") + line("a"))
    other.replace(file)
    recovery.import_file(memory, file)

    assert shown(memory) == ["a", "z", "a"]


def test_many_lines_in_several_appends(memory: JobLog, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "BATCH", 7)
    append(file, *(line(f"n{number}") if number % 3 else b"\n" for number in range(50)))

    assert recovery.import_file(memory, file)[:2] == (33, 17)
    assert len(shown(memory)) == 33


def test_a_line_of_any_length_is_passed_over_in_bounded_memory(memory: JobLog, file: Path) -> None:
    with file.open("wb") as opened:
        opened.write(line("a"))
        opened.truncate(200_000_000)  # a hole: 200 MB of one line
        opened.seek(0, os.SEEK_END)
        opened.write(b"\n" + line("b"))
    child = (
        "import resource, sys\nfrom joblog.workers.commands import recovery\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "with open(sys.argv[1], 'rb') as opened:\n    lines = [line.text for line in recovery._lines(opened, 0)]\n"
        "assert [text is None for text in lines] == [False, True, False], lines\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    grown = subprocess.check_output([sys.executable, "-c", child, str(file)], env=environment)

    assert int(grown) < 20_000  # kB
    assert recovery.import_file(memory, file)[:2] == (2, 1)


def test_two_importers_at_once(backend: Backend, file: Path) -> None:
    log, other = backend.open(), backend.open()
    append(file, line("a"), line("b"))

    with armed("recovery.read", once_then(lambda: recovery.import_file(other, file))):
        recovery.import_file(log, file)
    append(file, line("c"))
    recovery.import_file(log, file)

    assert shown(log) == ["a", "b", "c"]


def once_then(run: Any) -> Any:
    left = [run]

    def action() -> None:
        if left:
            left.pop()()

    return action


def test_an_answer_that_was_lost(backend: Backend, file: Path) -> None:
    log = backend.open()
    append(file, line("a"), line("b"))
    with armed("append.after_commit", once(backend.lost())):
        try:
            recovery.import_file(log, file)
        except UnknownOutcomeError:
            recovery.import_file(log, file)
    recovery.import_file(log, file)

    assert shown(log) == ["a", "b"]


_IMPORT = """
import os, signal, sys
from joblog import JobLog
from joblog.eventstore import failpoint
from joblog.workers.commands import recovery

url, file, point, passes = sys.argv[1:5]
recovery.BATCH = 3
left = [int(passes)]

def die():
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)

failpoint.arm(point, die)
with JobLog.open(url) as log:
    recovery.import_file(log, file)
"""


@pytest.mark.faults
@pytest.mark.parametrize(("point", "passes"), [("recovery.read", 1), ("recovery.read", 3), ("recovery.appended", 2)])
def test_an_importer_that_is_killed(database: Backend, file: Path, point: str, passes: int) -> None:
    log = database.open()
    append(file, *(line(f"n{number}") for number in range(10)))
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}

    child = subprocess.run(
        [sys.executable, "-c", _IMPORT, database.url, str(file), point, str(passes)], env=environment, check=False
    )

    assert child.returncode == -SIGKILL
    recovery.import_file(log, file)
    assert shown(log) == [f"n{number}" for number in range(10)]
    assert_whole(log.store)


# -- an importer that fails ----------------------------------------------------------------------------------------------


def test_a_file_that_is_not_there_says_nothing(memory: JobLog, file: Path) -> None:
    assert recovery.import_file(memory, file) == (0, 0, 0)
    assert memory.store.head() == 0


def test_a_file_that_can_not_be_read_is_a_row_of_the_report(memory: JobLog, file: Path) -> None:
    """RPT-30: once, until it can be read again."""
    file.mkdir()
    for _ in range(3):
        recovery.import_file(memory, file)
    assert shown(memory) == ["recovery-import-failed"]
    [row] = queries.recovery_page(memory.store, filter="failed").rows
    assert "recovery-events.jsonl: can't be read" in row["detail"]

    file.rmdir()
    append(file, line("a"))
    recovery.import_file(memory, file)
    file.unlink()
    file.mkdir()
    recovery.import_file(memory, file)

    assert shown(memory) == ["recovery-import-failed", "a", "recovery-import-failed"]
