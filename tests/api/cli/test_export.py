"""`export`, `import-log`, `verify --file`: the log as a file."""

from collections.abc import Callable
from pathlib import Path

from joblog.workers.commands.log import JobLog
from tests.api.cli.terminal import Answer, claimed, joblog, submit, work

Cli = Callable[..., Answer]


def test_a_log_goes_through_a_file_into_another_database(log: JobLog, cli: Cli, tmp_path: Path) -> None:
    submit(log)
    work(claimed(log), 1, 2)
    file = str(tmp_path / "log.ndjson.gz")
    made = cli("export", "-o", file, "--json").document
    other = ("--db", f"sqlite:///{tmp_path / 'other.db'}")

    assert (made["first"], made["last"], made["count"]) == (1, 6, 6)
    assert "6 events, positions 1 to 6" in cli("export", "--output", file, "--to", "6", "--replica").out
    assert joblog(*other, "init").code == 0
    taken = joblog(*other, "import-log", file, "--json").document
    assert (taken["count"], taken["root"], taken["store_id"]) == (6, made["root"], made["store_id"])
    assert joblog(*other, "import-log", file).refusal == "store-not-empty"
    assert joblog(*other, "verify", "--json").document["root"] == made["root"]
    assert joblog(*other, "projections", "verify", "jobs", "--units").code == 0


def test_a_file_is_checked_without_any_database(log: JobLog, cli: Cli, tmp_path: Path) -> None:
    for number in range(4):
        submit(log, str(number))
    key, file = tmp_path / "key", tmp_path / "log.ndjson"
    joblog("heads", "keygen", str(key))
    cli("heads", "sign", "--key", str(key))
    submit(log, "4")
    cli("export", "-o", str(file))
    nowhere = ("--db", "sqlite:////nowhere/at/all.db")

    good = joblog(*nowhere, "verify", "--file", str(file), "--key", f"{key}.pub", "--head", f"{key}.heads")
    assert (good.code, good.lines[1]) == (0, "proven up to 4 by a head from outside; 1 event not yet")
    bare = joblog(*nowhere, "verify", "--file", str(file))
    assert (bare.code, bare.lines[1].split(";")[0]) == (0, "self-consistent up to 4, 1 event not yet signed")

    file.write_bytes(file.read_bytes().replace(b"mira", b"myra", 1))
    bad = joblog(*nowhere, "verify", "--file", str(file), "--head", f"{key}.heads", "--json")
    assert bad.code == 5
    assert {finding["kind"] for finding in bad.document["items"]} == {"changed", "contradiction"}
    assert joblog(*nowhere, "verify", "--file", str(tmp_path / "none")).refusal == "damaged-export"
    assert cli("export", "-o", str(tmp_path / "x"), "--from", "9").refusal == "invalid-field"
