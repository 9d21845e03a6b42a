"""What is true of SQLite only: pragmas, the writer lock, checkpoints, files that are refused, forks."""

import fcntl
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import quote

import pytest

from joblog.domain.errors import (
    CorruptLogError,
    InvalidFieldError,
    SchemaMissingError,
    SchemaTooNewError,
    StoreClosedError,
    StoreError,
    StoreForkedError,
    StoreUnavailableError,
    UnsafeStoreError,
)
from joblog.eventstore.opening import open_store, wal_reset_case
from joblog.eventstore.sqlite_setup import APPLICATION_ID
from joblog.eventstore.sqlite_store import SqliteStore
from joblog.workers.commands.log import JobLog
from tests.conformance.builders import (
    BOUND,
    Beside,
    Side,
    a_spec,
    an_append,
    armed,
    assert_whole,
    stored,
    whole_log,
)

ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "joblog.db"


@pytest.fixture
def log(path: Path) -> Iterator[JobLog]:
    with JobLog.open(f"sqlite:///{path}") as log:
        yield log


def store_of(log: JobLog) -> SqliteStore:
    assert isinstance(log.store, SqliteStore)
    return log.store


def run_python(code: str, *args: str) -> "subprocess.Popen[str]":
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-c", code, *args]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


# -- connections -------------------------------------------------------------------------------------------------------

PRAGMAS = {
    "journal_mode": "wal",
    "synchronous": 2,
    "wal_autocheckpoint": 0,
    "recursive_triggers": 1,
    "foreign_keys": 1,
    "busy_timeout": 1000,
}


def test_every_connection_is_set_up(log: JobLog) -> None:
    """Writers, readers of several threads, the checkpointer: FULL, or a power cut loses what was acknowledged."""
    store = store_of(log)
    log.submit(a_spec())
    log.renew(log.claim("w"))
    store.checkpoint()
    has_looked, go_on = Event(), Event()

    def look_and_stay() -> None:
        store.head()
        has_looked.set()
        go_on.wait(BOUND)

    reader = Side(look_and_stay)
    assert has_looked.wait(BOUND)

    opened = [pinned for pinned in store._pinned if pinned.cursor is not None]
    found = [{name: one.open().execute(f"PRAGMA {name}").fetchone()[0] for name in PRAGMAS} for one in opened]
    go_on.set()
    reader.result()

    assert len(opened) >= 6
    assert found == [PRAGMAS] * len(opened)


@pytest.mark.parametrize("name", ["foreign_keys", "recursive_triggers", "wal_autocheckpoint"])
def test_a_pragma_that_does_not_hold_is_noticed(path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    connect = sqlite3.connect

    class Deaf(sqlite3.Connection):
        def execute(self, sql: str, *more: Any) -> sqlite3.Cursor:
            return super().execute("SELECT 1" if sql.startswith(f"PRAGMA {name}=") else sql, *more)

    monkeypatch.setattr(sqlite3.dbapi2, "connect", lambda *a, **k: connect(*a, **{**k, "factory": Deaf}))

    with pytest.raises(UnsafeStoreError, match=name):
        JobLog.open(f"sqlite:///{path}")


def test_a_thread_that_ends_gives_its_connection_back(log: JobLog) -> None:
    store = store_of(log)
    before = len(store._pinned)

    for _ in range(20):
        Side(store.head).result()

    assert len(store._pinned) == before


# -- files that are refused --------------------------------------------------------------------------------------------


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsafeStoreError, match="does not exist"):
        open_store(f"sqlite:///{tmp_path / 'no' / 'joblog.db'}")


def test_a_symbolic_link_is_refused(log: JobLog, path: Path) -> None:
    """Two names for one database are two locks."""
    link = path.with_name("link.db")
    link.symlink_to(path)

    with pytest.raises(UnsafeStoreError, match="symbolic link"):
        open_store(f"sqlite:///{link}")


def test_a_writer_lock_that_is_a_link_is_refused(path: Path) -> None:
    path.with_name("joblog.db.writer").symlink_to("/dev/null")

    with pytest.raises((OSError, StoreError)):
        open_store(f"sqlite:///{path}")


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite:///"])
def test_a_database_in_memory_is_refused(url: str) -> None:
    with pytest.raises(InvalidFieldError, match="memory"):
        open_store(url)


@pytest.mark.parametrize("url", ["mysql://x/y", "nonsense", "", "sqlite", "file:x.db"])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(InvalidFieldError):
        open_store(url)


def foreign(path: Path, *statements: str) -> bytes:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return path.read_bytes()


@pytest.mark.parametrize(
    "statements", [("CREATE TABLE mine (x)",), ("PRAGMA application_id = 77", "CREATE TABLE x (y)")]
)
def test_somebody_elses_database_is_refused_and_left_as_it_is(path: Path, statements: tuple[str, ...]) -> None:
    """Its journal mode too: a change of that would stay."""
    before = foreign(path, *statements)

    with pytest.raises(UnsafeStoreError, match="something else"):
        open_store(f"sqlite:///{path}")

    assert path.read_bytes() == before
    assert sorted(other.name for other in path.parent.iterdir()) == ["joblog.db"]


def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(path: Path) -> None:
    path.write_bytes(b"no database at all, but more than a page of it\n" * 200)
    before = path.read_bytes()

    with pytest.raises((UnsafeStoreError, CorruptLogError)):
        open_store(f"sqlite:///{path}")

    assert path.read_bytes() == before


def test_an_empty_file_becomes_a_log(path: Path) -> None:
    path.touch()

    with JobLog.open(f"sqlite:///{path}") as log:
        log.submit(a_spec())
        [application] = store_of(log).sql_rows("PRAGMA application_id")[0]

    assert application == APPLICATION_ID


@pytest.mark.parametrize("name", ["a b.db", "ä🙂.db", "a%20b?x=1#y.db", "percent%.db"])
def test_a_path_of_any_characters_works(tmp_path: Path, name: str) -> None:
    path = tmp_path / name

    with JobLog.open(f"sqlite:///{quote(str(path))}") as log:
        log.submit(a_spec())

    assert path.is_file()


def test_a_missing_schema_is_said_where_it_may_not_be_made(path: Path) -> None:
    with pytest.raises(SchemaMissingError):
        open_store(f"sqlite:///{path}", create=False)


def test_a_schema_for_newer_code_only_is_refused(log: JobLog, path: Path) -> None:
    log.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE log_state SET min_code = 999, schema_version = 999")
        connection.commit()

    with pytest.raises(SchemaTooNewError, match="999"):
        open_store(f"sqlite:///{path}")


def test_a_newer_schema_that_old_code_may_use_is_served(log: JobLog, path: Path) -> None:
    """``min_code``: each migration only adds for one release."""
    log.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE log_state SET schema_version = 999")
        connection.commit()

    with JobLog.open(f"sqlite:///{path}") as again:
        again.submit(a_spec())


def test_processes_that_open_a_new_file_at_once_make_one_log(path: Path) -> None:
    code = """
import sys
from joblog.workers.commands.log import JobLog
sys.stdin.readline()
with JobLog.open(sys.argv[1]) as log:
    print(log.store.state().store_id)
"""
    with ExitStack() as stack:
        rivals = [stack.enter_context(run_python(code, f"sqlite:///{path}")) for _ in range(4)]
        for rival in rivals:
            assert rival.stdin is not None
            rival.stdin.write("go\n")
            rival.stdin.flush()
        said = {rival.communicate(timeout=60)[0] for rival in rivals}

    assert [rival.returncode for rival in rivals] == [0] * 4
    assert len(said) == 1


# -- the writer lock and checkpoints -----------------------------------------------------------------------------------


def is_locked(path: Path) -> bool:
    with path.with_name(path.name + ".writer").open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


WRITES: dict[str, tuple[str, Callable[[JobLog], Any]]] = {
    "append": ("append.before_commit", lambda log: log.writer.append(an_append())),
    "claim": ("claim.before_commit", lambda log: log.claim("w")),
    "renew": ("append.before_commit", lambda log: log.renew(log.claim("w"))),
    "snapshot": ("snapshot.before_commit", lambda log: log.store.put_snapshots([])),
    "checkpoint": ("checkpoint.before", lambda log: log.store.checkpoint()),  # type: ignore[attr-defined]
    "epoch": ("append.before_commit", lambda log: log.store.raise_epoch(an_append(), 2)),
}


@pytest.mark.parametrize(("point", "write"), WRITES.values(), ids=WRITES)
def test_every_write_holds_the_writer_lock(log: JobLog, path: Path, point: str, write: Callable[[JobLog], Any]) -> None:
    log.submit(a_spec())
    locked: list[bool] = []

    with armed(point, lambda: locked.append(is_locked(path))):
        write(log)

    assert locked
    assert all(locked)
    assert not is_locked(path)


def test_a_write_waits_for_another_processes_turn(log: JobLog, path: Path) -> None:
    with path.with_name("joblog.db.writer").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        writes = [Side(lambda: log.writer.append(an_append())), Side(lambda: log.claim("w"))]
        assert not any(write.is_done(0.2) for write in writes)
    stored(writes[0].result())
    writes[1].result()


def test_a_checkpoint_keeps_every_writer_out(log: JobLog, path: Path) -> None:
    """SQLite before 3.51.3 can lose commits when one connection writes while another resets the WAL."""
    log.writer.append(an_append())
    refused: list[str] = []

    def write_beside() -> None:
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as stranger:
            try:
                stranger.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                refused.append(str(error))

    with armed("checkpoint.before", write_beside):
        store_of(log).checkpoint()

    assert refused == ["database is locked"]


def test_a_checkpoint_leaves_an_append_under_way_alone(log: JobLog) -> None:
    """Asked for by another thread, in the middle of a transaction of this process."""
    beside = Beside(store_of(log).checkpoint)

    with armed("append.events_inserted", beside):
        answer = log.writer.append(an_append(size=3))
    beside.result()

    assert stored(answer) == 1
    assert_whole(log.store)


def test_raising_the_epoch_does_not_end_an_append_turn(log: JobLog, path: Path) -> None:
    """Each lane has a descriptor of the lock of its own: one release frees nothing of another's."""
    store = store_of(log)
    store.turn(blocking=True)
    try:
        raised = Side(lambda: store.raise_epoch(an_append(), 2))
        assert not raised.is_done(0.2)
        assert is_locked(path)
    finally:
        store.end_turn()
    assert raised.result() == 1


def test_a_checkpoint_brings_the_wal_into_the_file(log: JobLog, path: Path) -> None:
    log.writer.append_many([an_append() for _ in range(200)])
    before = path.stat().st_size

    store_of(log).checkpoint()

    assert path.stat().st_size > before
    alone = path.with_name("copy.db")
    shutil.copyfile(path, alone)
    with closing(sqlite3.connect(alone)) as copy:
        assert copy.execute("SELECT count(*) FROM events").fetchone() == (200,)


def test_a_checkpoint_waits_for_no_reader(log: JobLog, path: Path) -> None:
    log.writer.append(an_append())
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM events").fetchone()
        log.writer.append(an_append())
        store_of(log).checkpoint()
        assert reader.execute("SELECT count(*) FROM events").fetchone() == (1,)

    assert log.store.head() == 2


def test_a_long_wal_is_brought_back_by_the_appends_themselves(
    log: JobLog, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("joblog.eventstore.sqlite_checkpoint.WAL_PAGES", 20)
    done: list[bool] = []

    with armed("checkpoint.after", lambda: done.append(True)):
        for _ in range(130):
            log.writer.append(an_append())

    assert done
    assert path.with_name("joblog.db-wal").stat().st_size < 130 * 4 * 4096


def test_a_connection_that_waits_for_no_disk_and_can_not_be_opened_is_a_refusal_like_any_other(
    log: JobLog, path: Path
) -> None:
    path.rename(path.with_name("away.db"))
    path.mkdir()

    with pytest.raises(StoreUnavailableError):
        log.store.leave_gate("gate", "entry")


def test_a_checkpoint_that_fails_fails_no_append(log: JobLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("joblog.eventstore.sqlite_checkpoint.WAL_PAGES", 1)

    def fail() -> None:
        raise OSError(5, "Input/output error")

    with armed("checkpoint.before", fail):
        positions = [stored(log.writer.append(an_append())) for _ in range(70)]

    assert positions == list(range(1, 71))
    stored(log.writer.append(an_append()))


def test_the_doctors_line_names_the_version_and_the_case() -> None:
    assert sqlite3.sqlite_version in wal_reset_case()
    assert "WAL-reset bug" in wal_reset_case()


# -- processes that fork or die ----------------------------------------------------------------------------------------

FORKS = """
import os, sys
from joblog.domain.errors import StoreForkedError
from joblog.workers.commands.log import JobLog
from tests.conformance.builders import an_append, stored
log = JobLog.open(sys.argv[1])
stored(log.writer.append(an_append()))
log.store.head()
child = os.fork()
if child == 0:
    refused = 0
    for call in (log.store.head, lambda: log.writer.append(an_append()), lambda: log.claim("w")):
        try:
            call()
        except StoreForkedError:
            refused += 1
    log.close()
    with JobLog.open(sys.argv[1]) as mine:
        stored(mine.writer.append(an_append()))
    os._exit(refused)
_, status = os.waitpid(child, 0)
stored(log.writer.append(an_append()))
print(os.waitstatus_to_exitcode(status), log.store.head())
log.close()
"""


def test_a_forked_child_is_refused_and_opens_its_own(path: Path) -> None:
    """What it carries is its parent's: closing it in the child would drop the parent's locks."""
    with run_python(FORKS, f"sqlite:///{path}") as parent:
        out, _ = parent.communicate(timeout=60)

    assert out.split() == ["3", "3"]


def test_a_store_carried_over_a_fork_says_so(log: JobLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_of(log), "_pid", 1)

    with pytest.raises(StoreForkedError, match="open it in the child"):
        log.store.head()
    with pytest.raises(StoreForkedError):
        log.store.track("f", 1)
    monkeypatch.undo()


DIES = """
import os, signal, sys
from joblog.eventstore import failpoint
from joblog.workers.commands.log import JobLog
from tests.conformance.builders import an_append, stored

def fork_one_that_stays():
    child = os.fork()
    if child == 0:
        os.close(1)
        signal.pause()
    print(child, flush=True)

def die():
    if forks == "within":
        fork_one_that_stays()
    os.kill(os.getpid(), signal.SIGKILL)

url, point, forks = sys.argv[1:]
log = JobLog.open(url)
stored(log.writer.append(an_append(size=2)))
if forks == "before":
    fork_one_that_stays()
failpoint.arm(point, die)
log.writer.append(an_append(size=3))
"""


@pytest.mark.parametrize(
    ("point", "head"), [("append.events_inserted", 2), ("append.before_commit", 2), ("append.after_commit", 5)]
)
def test_a_log_goes_on_after_its_process_is_killed(path: Path, point: str, head: int) -> None:
    with run_python(DIES, f"sqlite:///{path}", point, "never") as died:
        died.communicate(timeout=60)

    with JobLog.open(f"sqlite:///{path}") as log:
        assert log.store.head() == head
        assert stored(log.writer.append(an_append())) == head + 1
        assert_whole(log.store)

    assert died.returncode == -signal.SIGKILL


@pytest.mark.parametrize("forked", ["before", "within"])
def test_a_child_that_outlives_its_parent_keeps_no_lock(path: Path, forked: str) -> None:
    """A forked child has copies of every descriptor; killed in the middle of a write, its parent's lock must go."""
    with run_python(DIES, f"sqlite:///{path}", "append.events_inserted", forked) as died:
        orphan = int(died.communicate(timeout=60)[0])
    try:
        assert not is_locked(path)
        with JobLog.open(f"sqlite:///{path}") as log:
            assert stored(Side(lambda: log.writer.append(an_append())).result()) == 3
    finally:
        os.kill(orphan, signal.SIGKILL)


def test_a_closed_log_leaves_one_file_and_its_lock(log: JobLog, path: Path) -> None:
    log.submit(a_spec())
    log.close()

    with pytest.raises(StoreClosedError):
        log.store.head()
    assert sorted(file.name for file in path.parent.iterdir()) == ["joblog.db", "joblog.db.writer"]


def test_no_connection_is_closed_under_a_statement(log: JobLog) -> None:
    """It is interrupted, and waited for: a connection that vanishes while sqlite3 steps is a crash, or "no memory"."""
    store = store_of(log)
    sides: list[Side] = []
    was_early: list[bool] = []

    def close_meanwhile() -> bool:
        if not sides:
            sides.append(Side(log.close))
            was_early.append(sides[0].is_done(0.3))
        return False

    with store.reading() as connection:
        driver: Any = connection.connection.driver_connection
        driver.set_progress_handler(close_meanwhile, 1)

    with pytest.raises(StoreClosedError):
        store.head()
    assert sides[0].result() is None
    assert was_early == [False]


def test_a_file_that_is_damaged_is_said_to_be(log: JobLog, path: Path) -> None:
    log.writer.append_many([an_append() for _ in range(100)])
    log.close()
    content = bytearray(path.read_bytes())
    content[4096 : len(content)] = os.urandom(len(content) - 4096)
    path.write_bytes(bytes(content))

    with pytest.raises(CorruptLogError):
        open_store(f"sqlite:///{path}").head()


def test_a_log_that_is_read_while_another_process_writes_is_never_torn(log: JobLog, path: Path) -> None:
    code = """
import sys
from joblog.workers.commands.log import JobLog
from tests.conformance.builders import an_append, stored
with JobLog.open(sys.argv[1]) as log:
    for _ in range(60):
        stored(log.writer.append(an_append(size=3)))
"""
    lengths = []
    with run_python(code, f"sqlite:///{path}") as writer:
        while writer.poll() is None:
            lengths.append(len(whole_log(log.store)))
    lengths.append(len(whole_log(log.store)))

    assert lengths == sorted(lengths)
    assert all(length % 3 == 0 for length in lengths)
    assert lengths[-1] == 180
