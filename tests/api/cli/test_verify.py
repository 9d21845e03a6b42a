"""`heads` and `verify`: what the log promised, held against what it is."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from joblog.api.cli import heads as heads_module
from joblog.domain.errors import StoreUnavailableError
from joblog.projections.proof.known import thinned
from joblog.workers.commands.log import JobLog
from tests.api.cli.terminal import Answer, claimed, joblog, submit, work

Cli = Callable[..., Answer]


@pytest.fixture
def key(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    answer = joblog("heads", "keygen", str(folder / "key"), "--name", "log.example", "--json")
    assert answer.document["public"] == (folder / "key.pub").read_text().strip()
    return folder / "key"


def forge(url: str, *statements: str) -> None:
    """Do what only somebody with the file can do."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as driver:
        for sql in ("DROP TRIGGER events_no_update", "DROP TRIGGER events_no_delete", *statements):
            driver.execute(sql)


def test_a_log_is_signed_and_proven(log: JobLog, cli: Cli, key: Path) -> None:
    assert cli("heads", "sign", "--key", str(key)).out == "the log is empty: there is nothing to sign\n"
    job_id = submit(log)
    work(claimed(log), 1)
    signed = cli("heads", "sign", "--json", "--key", f"file:{key}").document
    again = cli("heads", "sign", "--json", "--key", str(key)).document
    submit(log, "2")

    assert (signed["size"], signed["new"], again["new"]) == (4, True, False)
    assert cli("heads", "show").out == signed["note"] == Path(f"{key}.heads").read_text()
    assert cli("heads", "show", "--json").document == {"note": signed["note"]}
    assert [one["size"] for one in cli("heads", "--json").document["items"]] == [4]
    assert signed["root"][:16] in cli("heads", "list").out

    kept = cli("verify", "--head", f"{key}.heads")
    whole = cli("verify", "--key", f"{key}.pub", "--json").document
    part = cli("verify", "--from", "2", "--to", "3", "--head", f"{key}.heads", "--json").document
    job = cli("verify", "--job", job_id, "--key", Path(f"{key}.pub").read_text(), "--json").document
    assert (kept.code, kept.lines) == (
        0,
        ["5 events of 5 checked, epoch 1", "proven up to 4 by a head from outside; 1 event not yet"],
    )
    assert (whole["proven"], whole["unsigned"], whole["findings"], whole["heads"]) == (4, 1, 0, 1)
    assert (part["checked"], part["proven"], job["checked"], job["proven"]) == (2, 4, 4, 4)
    assert cli("verify", "--from", "9").code == 0


def test_without_anything_from_outside_no_more_is_said_than_is_known(log: JobLog, cli: Cli, key: Path) -> None:
    for number in range(3):
        submit(log, str(number))
    bare = cli("verify")
    cli("heads", "sign", "--key", str(key))
    submit(log, "4")
    signed = cli("verify")

    assert bare.lines[1].startswith("self-consistent up to 0, 3 events not yet signed; nothing from outside")
    assert signed.lines[1].startswith("self-consistent up to 3, 1 event not yet signed; nothing from outside")


def test_a_tampered_log_is_refused_and_nothing_is_signed_on_it(
    sqlite_log: JobLog, on_file: Cli, sqlite_url: str, key: Path
) -> None:
    for number in range(6):
        submit(sqlite_log, str(number))
    on_file("heads", "sign", "--key", str(key))
    forge(
        sqlite_url,
        "UPDATE events SET topic = 'forged' WHERE position IN (2, 3)",
        "DELETE FROM events WHERE position = 5",
    )

    answer = on_file("verify", "--head", f"{key}.heads")

    assert answer.code == 5
    assert answer.lines[:2] == [
        "changed: positions 2 to 3: not as first written; a signed head proves it",
        "missing: position 5: not there any more",
    ]
    assert "this is not the log that was written" in answer.out
    submit(sqlite_log, "more")
    assert on_file("heads", "sign", "--key", str(key)).code == 0  # what was signed before is not looked at again
    forge_again = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)
    with closing(forge_again) as driver:
        driver.execute("DELETE FROM tree_tiles")
        driver.execute("DELETE FROM tracking")
        driver.execute("DELETE FROM tree_heads")
    refused = on_file("heads", "sign", "--key", str(key))
    assert (refused.code, refused.refusal) == (5, "corrupt-log")


def test_a_head_that_was_put_back_or_forged_is_an_alarm(
    sqlite_log: JobLog, on_file: Cli, sqlite_url: str, key: Path, tmp_path: Path
) -> None:
    for number in range(6):
        submit(sqlite_log, str(number))
    on_file("heads", "sign", "--key", str(key))
    forge(
        sqlite_url,
        "UPDATE tree_heads SET note = replace(note, char(10) || '6' || char(10), char(10) || '5' || char(10))",
    )

    answer = on_file("verify", "--key", f"{key}.pub")
    assert answer.code == 5
    assert "signature" in answer.lines[0]
    assert "does not hold" in answer.lines[0]

    forge_trees = [
        "DELETE FROM events WHERE position > 4",
        "DELETE FROM tree_tiles",
        "DELETE FROM tree_heads",
        "DELETE FROM tracking",
    ]
    with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)) as driver:
        for sql in forge_trees:
            driver.execute(sql)
    refused = on_file("heads", "sign", "--key", str(key))
    assert (refused.code, refused.refusal) == (5, "head-contradicted")
    assert on_file("verify", "--head", f"{key}.heads").code == 5


def test_what_is_no_key_and_no_head(log: JobLog, cli: Cli, key: Path, tmp_path: Path) -> None:
    submit(log)
    (tmp_path / "junk").write_text("junk\n")

    assert cli("heads", "sign").refusal == "invalid-field"
    assert cli("heads", "sign", "--key", str(tmp_path / "junk")).refusal == "invalid-field"
    assert cli("heads", "show").refusal == "invalid-field"
    assert joblog("heads", "keygen", str(key)).refusal == "invalid-field"
    assert cli("verify", "--key", "a+b").refusal == "invalid-field"
    assert cli("verify", "--key", str(tmp_path / "none")).refusal == "invalid-field"
    assert cli("verify", "--head", str(tmp_path / "none")).refusal == "invalid-field"
    assert cli("verify", "--head", str(tmp_path / "junk")).code == 5


def test_signing_at_intervals(sqlite_log: JobLog, on_file: Cli, key: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each wait is a turn: something is appended, nothing is, the database is away, the operator has seen enough."""
    submit(sqlite_log)
    real, turns = heads_module._sign, iter(["append", "nothing", "away", "end"])

    def wait(seconds: float) -> None:
        assert seconds == 60
        turn.append(next(turns))
        if turn[-1] == "append":
            submit(sqlite_log, "2")
        if turn[-1] == "end":
            raise KeyboardInterrupt

    def sign(*args: Any, quiet: bool) -> None:
        if turn and turn[-1] == "away":
            raise StoreUnavailableError("gone")
        real(*args, quiet=quiet)

    turn: list[str] = []
    monkeypatch.setattr(heads_module, "_wait", wait)
    monkeypatch.setattr(heads_module, "_sign", sign)
    monkeypatch.setenv("JOBLOG_SIGNING_KEY", str(key))

    answer = on_file("heads", "sign", "--every", "60")

    assert [line.split(",")[0] for line in answer.lines] == ["signed: 1 events", "signed: 2 events"]
    assert "gone; trying again" in answer.err


@pytest.mark.parametrize(("count", "kept"), [(0, 0), (1, 1), (1000, 1000), (1001, 501), (5000, 1000)])
def test_not_every_head_of_many_years_is_looked_at_but_the_newest_is(count: int, kept: int) -> None:
    heads: list[Any] = list(range(count))
    found = list(thinned(heads))

    assert len(found) == kept
    assert found == sorted(found)
    assert found[-1:] == heads[-1:]
