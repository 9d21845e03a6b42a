"""The example consumer: real processes that are killed anywhere, and a log that lies."""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from joblog.domain.errors import TamperedError
from joblog.eventstore.opening import open_store
from joblog.eventstore.proof_rows import proof_rows
from joblog.projections.proof.audit import next_entries
from joblog.projections.proof.heads import sign
from joblog.projections.proof.merkle import Frontier
from joblog.projections.proof.notes import Signer
from joblog.projections.proof.tree import build
from tests.clocks import MovedClock
from tests.conformance.backends import Backend, SqliteBackend
from tests.projections.proof.logs import SIGNER, grow, grow_and_sign

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "audit.py"
_KILLED = """
import os, runpy, signal, sys
from pathlib import Path
left = [int(sys.argv[1])]
del sys.argv[:2]
def at_each(event, args):
    if event in ("os.truncate", "os.rename", "step") or (event == "open" and str(args[0]).startswith(sys.argv[3])):
        left[0] -= 1
        if left[0] <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
real = os.fsync
def fsync(descriptor):
    sys.audit("step")
    real(descriptor)
    sys.audit("step")
os.fsync = fsync
from joblog.eventstore.opening import open_store
from joblog.projections.proof import audit
from joblog.projections.proof.notes import Verifier
import cryptography.hazmat.primitives.asymmetric.ed25519
sys.addaudithook(at_each)
runpy.run_path(sys.argv[0], run_name="__main__")
"""


class Log:
    """A signed log, and the consumer in processes of its own."""

    def __init__(self, folder: Path) -> None:
        self.backend = SqliteBackend(f"sqlite:///{folder / 'joblog.db'}", MovedClock())
        self.log = self.backend.open()
        self.folder = folder / "audit"
        self.folder.mkdir()
        self.key = folder / "key.pub"
        self.key.write_text(str(SIGNER.verifier))

    def consume(self, *, kill_at: int | None = None) -> "subprocess.CompletedProcess[str]":
        program = [str(EXAMPLE)] if kill_at is None else ["-c", _KILLED, str(kill_at), str(EXAMPLE)]
        command = [sys.executable, *program, self.backend.url, str(self.key), str(self.folder)]
        environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)

    def taken(self) -> list[int]:
        file = self.folder / "copy.ndjson"
        return [json.loads(line)["position"] for line in file.read_text().splitlines()] if file.exists() else []


@pytest.fixture
def signed(tmp_path: Path) -> Log:
    made = Log(tmp_path)
    grow_and_sign(made.log, 150, 330)
    grow(made.log, 20)
    return made


def test_it_takes_what_is_signed_and_keeps_few_hashes(signed: Log) -> None:
    done = signed.consume()

    assert (done.returncode, done.stdout) == (0, "checked and taken: 330\n")
    assert signed.taken() == list(range(1, 331))
    state = json.loads((signed.folder / "state.json").read_text())
    assert (state["size"], len(state["hashes"])) == (330, (330).bit_count())
    sign(signed.log.store, SIGNER, None)
    assert signed.consume().stdout == "checked and taken: 350\n"
    assert signed.taken() == list(range(1, 351))


@pytest.mark.faults
def test_killed_at_any_step_it_loses_and_repeats_nothing(tmp_path: Path) -> None:
    """Each process is killed at a later step than the one before, until one reaches the end."""
    log = Log(tmp_path)
    grow_and_sign(log.log, 130)
    for step in range(1, 30):
        done = log.consume(kill_at=step)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
    else:
        pytest.fail("never at the end")

    assert step > 5
    assert log.taken() == list(range(1, 131))


@pytest.mark.faults
def test_killed_at_any_moment_it_loses_and_repeats_nothing(signed: Log) -> None:
    chance = random.Random(5)
    for _ in range(5):
        command = [sys.executable, str(EXAMPLE), signed.backend.url, str(signed.key), str(signed.folder)]
        process = subprocess.Popen(
            command, env=os.environ | {"PYTHONPATH": str(ROOT / "src")}, stdout=subprocess.DEVNULL
        )
        stopper = threading.Timer(chance.uniform(0.05, 0.6), process.kill)
        stopper.start()
        process.wait(300)
        stopper.cancel()

    assert signed.consume().returncode == 0
    assert signed.taken() == list(range(1, 331))


def edit(log: Log, *statements: str) -> None:
    with closing(sqlite3.connect(log.backend.path, isolation_level=None)) as driver:
        driver.execute("DROP TRIGGER IF EXISTS events_no_update")
        driver.execute("DROP TRIGGER IF EXISTS events_no_delete")
        for sql in statements:
            driver.execute(sql)


def test_it_stops_at_the_first_event_that_was_tampered_with(signed: Log) -> None:
    edit(
        signed,
        "UPDATE events SET topic = 'forged' WHERE position IN (205, 206)",
        "DELETE FROM events WHERE position = 207",
    )

    done = signed.consume()

    assert done.returncode == 1
    assert done.stderr.startswith("STOP at position 205: position 205 is not what was signed")
    assert signed.taken() == list(range(1, 201))  # whole pages before it, nothing of its own
    assert signed.consume().stderr.startswith("STOP at position 205")


# -- every way to lie, in this process ---------------------------------------------------------------------------------


def read_all(log: Log, frontier: Frontier, limit: int = 50) -> int:
    store = open_store(log.backend.url, read_only=True)
    try:
        while next_entries(store, frontier, SIGNER.verifier, limit=limit):
            pass
    finally:
        store.close()
    return frontier.size


def stopped(log: Log, frontier: Frontier | None = None) -> TamperedError:
    with pytest.raises(TamperedError) as caught:
        read_all(log, frontier or Frontier())
    return caught.value


def test_a_missing_event_is_named(signed: Log) -> None:
    edit(signed, "DELETE FROM events WHERE position = 33")

    assert stopped(signed).position == 33


def test_a_tree_that_was_changed_with_the_event_does_not_help(signed: Log) -> None:
    edit(
        signed,
        "UPDATE events SET topic = 'forged' WHERE position = 77",
        "DELETE FROM tree_tiles",
        "DELETE FROM tracking",
    )
    build(signed.log.store)
    frontier = Frontier()

    assert stopped(signed, frontier).position == 1  # the first page already: it does not lead to the head
    assert (frontier.size, frontier.hashes) == (0, [])


def test_a_past_that_was_changed_after_it_was_taken_is_noticed(signed: Log) -> None:
    frontier = Frontier()
    assert read_all(signed, frontier) == 330
    edit(
        signed,
        "UPDATE events SET topic = 'forged' WHERE position = 77",
        "DELETE FROM tree_tiles",
        "DELETE FROM tracking",
    )
    edit(signed, "DELETE FROM tree_heads")
    sign(signed.log.store, SIGNER, None)

    assert stopped(signed, frontier).position == 331


@pytest.mark.parametrize("sql", ["DELETE FROM tree_heads", "DELETE FROM tree_heads WHERE size = 330"])
def test_heads_that_were_taken_away_are_missed(signed: Log, sql: str) -> None:
    frontier = Frontier()
    read_all(signed, frontier)
    edit(signed, sql)

    assert "the log was put back" in str(stopped(signed, frontier))


def test_a_head_of_another_key_is_refused(signed: Log) -> None:
    grow(signed.log, 5)
    sign(signed.log.store, Signer("log.example", bytes(32)), None)

    assert "no signature" in str(stopped(signed))


def test_a_tree_that_was_taken_away_proves_nothing(signed: Log) -> None:
    edit(signed, "DELETE FROM tree_tiles")

    assert stopped(signed).position == 1


def test_a_head_at_the_size_that_was_taken_is_held_against_it(signed: Log) -> None:
    frontier = Frontier()
    read_all(signed, frontier)
    frontier.hashes[0] = bytes(32)

    assert stopped(signed, frontier).position == 331


def test_without_heads_nothing_is_taken(backend: Backend) -> None:
    log = backend.open()
    grow(log, 5)

    assert next_entries(log.store, Frontier(), SIGNER.verifier) == []


def test_every_store_is_read_alike(backend: Backend) -> None:
    log = backend.open()
    grow_and_sign(log, 20, 40)
    frontier = Frontier()
    found = []
    while entries := next_entries(log.store, frontier, SIGNER.verifier, limit=7):
        found += entries

    assert [tuple(entry) for entry in found] == [tuple(row) for row in proof_rows(log.store).entries(0, 100, 40)]
