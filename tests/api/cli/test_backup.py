"""`backup` and `restore`: whole copies of the log."""

from collections.abc import Callable
from pathlib import Path

from joblog.workers.commands.log import JobLog
from tests.api.cli.terminal import Answer, joblog, submit

Cli = Callable[..., Answer]


def test_a_log_is_backed_up_and_restored(sqlite_log: JobLog, on_file: Cli, tmp_path: Path) -> None:
    folder = str(tmp_path / "backups")
    submit(sqlite_log, "1")
    made = on_file("backup", folder, "--reason", "nightly", "--json").document
    submit(sqlite_log, "2")
    assert (made["head"], made["kind"], made["reason"]) == (1, "sqlite", "nightly")
    assert made["name"] in on_file("backup", folder, "--list").out
    assert on_file("backup", folder, "--list", "--json").document["items"] == [made]

    refused = on_file("restore", folder, "--reason", "test")
    assert (refused.code, refused.refusal) == (75, "store-busy")
    sqlite_log.close()
    restored = on_file("restore", folder, "--reason", "test", "--request-id", "r" * 20, "--json").document
    assert (restored["head"], restored["epoch"], restored["new"]) == (1, 2, True)
    assert Path(restored["kept"]).is_file()
    again = on_file("restore", folder, "--reason", "test", "--request-id", "r" * 20)
    assert "nothing was done" in again.out
    assert "is in place, epoch 3 begins behind position 1" in on_file("restore", folder, "--reason", "again").out
    assert on_file("verify").code == 0
    assert on_file("restore", str(tmp_path / "none"), "--reason", "x").refusal == "damaged-export"


def test_into_a_server_only_events_are_taken(log: JobLog, cli: Cli, tmp_path: Path, postgres_url: str) -> None:
    submit(log)
    assert "verified" in cli("backup", str(tmp_path / "backups")).out
    assert (
        joblog("--db", postgres_url, "restore", str(tmp_path / "backups"), "--reason", "x").refusal == "invalid-field"
    )
