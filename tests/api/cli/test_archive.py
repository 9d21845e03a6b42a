"""`archive` and `archives`, and what every other command says of what was archived."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from joblog.workers.commands.log import JobLog
from tests.api.cli.terminal import ADA, Answer, claimed, joblog, level, submit, work

Cli = Callable[..., Answer]
NOW = "2999-01-01T00:00Z"


def ended(log: JobLog, cli: Cli, tmp_path: Path, count: int = 2) -> list[str]:
    """Jobs that are completed, one that is cancelled and one that waits; all of it is signed."""
    jobs = []
    for number in range(count):
        jobs.append(submit(log, f"done-{number}"))
        held = claimed(log)
        work(held, 1, 2)
        held.complete({"rows": 10})
    jobs.append(submit(log, "withdrawn"))
    log.command("cancel", log.store.find_jobs(status="queued")[0]["id"], ADA)
    submit(log, "waiting")
    if not (tmp_path / "key").exists():
        joblog("heads", "keygen", str(tmp_path / "key"))
    assert cli("heads", "sign", "--key", str(tmp_path / "key")).code == 0
    return jobs


def an_archive(cli: Cli, tmp_path: Path, *more: str) -> Answer:
    return cli("archive", "--before", "0", "--to", str(tmp_path / "archives"), *more)


def test_finished_jobs_are_archived_and_listed(log: JobLog, cli: Cli, tmp_path: Path) -> None:
    jobs = ended(log, cli, tmp_path)

    dry = an_archive(cli, tmp_path, "--dry-run")
    assert (dry.code, dry.lines) == (0, ["would archive 16 events of 3 jobs, positions 1 to 16"])
    assert not (tmp_path / "archives").exists()
    made = an_archive(cli, tmp_path, "--json").document
    again = an_archive(cli, tmp_path)

    assert (made["streams"], made["events"], made["first"], made["last"], made["more"]) == (3, 16, 1, 16, False)
    assert made["position"] == log.store.head()
    assert again.lines == ["nothing to archive: no job that ended before then is covered by a signed head"]
    assert sorted(path.name for path in (tmp_path / "archives").iterdir()) == [
        ".lock",
        f"{made['archive']}.ndjson.gz",
        f"{made['archive']}.ndjson.gz.manifest.json",
    ]
    [one] = cli("archives", "--json").document["items"]
    assert one == {
        "name": made["archive"],
        "position": made["position"],
        "first": 1,
        "last": 16,
        "events": 16,
        "digest": made["digest"],
        "folder": str(tmp_path / "archives"),
        "here": True,
    }
    [head, line] = cli("archives").lines
    assert head.split() == ["ARCHIVE", "POSITIONS", "EVENTS", "HERE", "FOLDER"]
    assert line.split() == [made["archive"], "1", "to", "16", "16", "yes", str(tmp_path / "archives")]
    assert cli("show", jobs[0], "--events").code == 0
    assert "moved into archive" in cli("tail", "--after", "16", "--no-follow").out


#: Commands that read bodies of archived jobs; {job} is one of them.
COMMANDS = {
    "show": ("show", "{job}", "--json"),
    "show in lines": ("show", "{job}"),
    "show events": ("show", "{job}", "--events", "--json"),
    "export": ("export", "-o", "{file}", "--to", "16", "--json"),
    "verify the job table": ("projections", "verify", "jobs", "--units"),
    "rebuild the job table": ("projections", "rebuild", "jobs"),
    "rebuild a view": ("projections", "rebuild", "versions"),
    "diff a view": ("projections", "diff", "jobs"),
}
#: Those that answer without.
CALM = {
    "list": ("list", "--json"),
    "why": ("why", "{job}", "--json"),
    "doctor": ("doctor", "--json"),
    "tail": ("tail", "--after", "0", "--no-follow"),
    "tail in JSON": ("tail", "--after", "0", "--no-follow", "--json"),
    "tail of a job": ("tail", "--job", "{job}", "--no-follow", "--cloudevents"),
    "verify": ("verify",),
    "verify a job": ("verify", "--job", "{job}"),
}


def said(cli: Cli, command: tuple[str, ...], job: str, file: Path) -> Answer:
    return cli(*(part.format(job=job, file=file) for part in command))


def test_every_command_says_the_same_with_the_archive_and_names_it_without(
    log: JobLog, cli: Cli, tmp_path: Path
) -> None:
    job = ended(log, cli, tmp_path)[0]
    cli("projections", "run", "--once")
    shown = {name: said(cli, COMMANDS[name], job, tmp_path / "a").out for name in ("show", "show events")}
    name = an_archive(cli, tmp_path, "--json").document["archive"]

    assert {key: said(cli, COMMANDS[key], job, tmp_path / "b").out for key in shown} == shown
    for key, command in (COMMANDS | CALM).items():
        answer = said(cli, command, job, tmp_path / f"{key}.ndjson")
        assert (answer.code, answer.err.count("Traceback")) == (0, 0), (key, answer)
    (tmp_path / "archives").rename(tmp_path / "attic")
    for key, command in COMMANDS.items():
        answer = said(cli, command, job, tmp_path / f"{key}-without.ndjson")
        assert (answer.code, answer.refusal) == (6, "archive-missing"), (key, answer)
        assert f"archive {name} is not at hand" in answer.err
        assert answer.out.strip() in {"", "{"} or key == "show in lines", (key, answer)
    for key, command in CALM.items():
        assert said(cli, command, job, tmp_path / "x").code == 0, key
    assert list(tmp_path.glob("export-without*")) == []
    for key, command in COMMANDS.items():
        answer = said(cli, ("--archives", str(tmp_path / "attic"), *command), job, tmp_path / f"{key}-attic.ndjson")
        assert answer.code == 0, (key, answer)
    assert cli("archives", "--json").document["items"][0]["here"] is False
    assert level(cli("doctor", "--json"), "archives") == "warn"
    assert level(cli("doctor", "--json", "--archives", str(tmp_path / "attic")), "archives") == "ok"
    moved = cli("archives", "moved", name, "--to", str(tmp_path / "attic"))
    assert moved.lines == [f"{name} is looked for in {tmp_path / 'attic'}: it is there"]
    assert said(cli, COMMANDS["show"], job, tmp_path / "x").out == shown["show"]


def test_whoever_follows_is_told_which_archive_has_it(log: JobLog, cli: Cli, tmp_path: Path) -> None:
    ended(log, cli, tmp_path, 1)
    name = an_archive(cli, tmp_path, "--json").document["archive"]
    (tmp_path / "archives").rename(tmp_path / "attic")

    lines = cli("tail", "--after", "0", "--no-follow").lines
    documents = [json.loads(line) for line in cli("tail", "--after", "0", "--no-follow", "--json").lines]
    consumed = [json.loads(line) for line in cli("tail", "--consumer", "c", "--no-follow", "--json").lines]
    clouds = [json.loads(line) for line in cli("tail", "--after", "0", "--no-follow", "--cloudevents").lines]

    assert len(lines) == len(documents) == len(clouds) == log.store.head()
    assert consumed == documents
    assert lines[0].endswith(f"joblog.job.submitted: in archive {name}")
    first: dict[str, Any] = documents[0]
    assert (first["position"], first["topic"], first["archive"]) == (1, "joblog.job.submitted", name)
    assert (first["data"], first["time"], first["event_id"], first["cursor"]) == (None, None, None, "1:1")
    assert (clouds[0]["type"], clouds[0]["archive"], clouds[0]["data"]) == ("joblog.job.submitted", name, None)
    assert clouds[0]["id"] == f"{first['stream']}/1"
    assert "archive" not in documents[-1]
    assert cli("consumers", "--json").document["items"][0]["behind"] == 0


def test_verify_says_what_was_checked_by_leaves_only(log: JobLog, cli: Cli, tmp_path: Path) -> None:
    ended(log, cli, tmp_path)
    name = an_archive(cli, tmp_path, "--json").document["archive"]
    here = cli("verify", "--head", f"{tmp_path}/key.heads")
    (tmp_path / "archives").rename(tmp_path / "attic")

    away = cli("verify", "--head", f"{tmp_path}/key.heads")

    assert (here.code, len(here.lines)) == (0, 2)
    assert (away.code, away.lines[1]) == (0, f"16 events in archive {name}, checked by their leaf hashes only")
    assert away.lines[2].startswith("proven up to 17 ")
    assert cli("verify", "--json").document["archived"] == {name: 16}


def test_a_run_is_bounded_and_says_what_is_left(log: JobLog, cli: Cli, tmp_path: Path) -> None:
    ended(log, cli, tmp_path)

    first = an_archive(cli, tmp_path, "--most", "8")
    small = an_archive(cli, tmp_path, "--most", "1")

    assert first.lines[1:] == ["there is more: run it again"]
    assert small.lines[-1] == "2 jobs with more events than one archive may have: give a higher --most"
    assert "9 events of 2 jobs" in an_archive(cli, tmp_path, "--dry-run").out


@pytest.mark.parametrize(
    ("before", "way_out"),
    [("2999-01-01T00:00Z", "an instant that has passed"), ("yesterday", "is no instant"), ("+5m", "has not come")],
)
def test_an_instant_that_makes_no_sense_is_refused(log: JobLog, cli: Cli, before: str, way_out: str) -> None:
    submit(log)

    answer = cli("archive", "--before", before, "--to", "archives")

    assert (answer.code, answer.refusal) == (2, "invalid-field")
    assert way_out in answer.err


def test_what_is_not_signed_is_not_archived(log: JobLog, cli: Cli, tmp_path: Path) -> None:
    submit(log)
    claimed(log).complete()

    answer = an_archive(cli, tmp_path)

    assert (answer.code, answer.refusal) == (2, "invalid-field")
    assert "joblog heads sign" in answer.err
    ended(log, cli, tmp_path, 0)
    submit(log, "later")
    held = claimed(log)
    while held.job.key != "later":
        held = claimed(log)
    held.complete()
    assert an_archive(cli, tmp_path, "--json").document["streams"] == 2
    assert an_archive(cli, tmp_path, "--json").document["streams"] == 0


def test_a_head_of_another_key_covers_nothing(sqlite_log: JobLog, on_file: Cli, tmp_path: Path) -> None:
    ended(sqlite_log, on_file, tmp_path)
    joblog("heads", "keygen", str(tmp_path / "other"))

    refused = an_archive(on_file, tmp_path, "--key", str(tmp_path / "other.pub"))

    assert (refused.code, refused.refusal) == (5, "bad-signature")
    assert an_archive(on_file, tmp_path, "--key", str(tmp_path / "key.pub"), "--json").document["streams"] == 3


def test_what_was_moved_is_asked_for_in_full(sqlite_log: JobLog, on_file: Cli) -> None:
    submit(sqlite_log)

    assert on_file("archives", "moved", "x").code == 2
    assert on_file("archives", "moved", "x", "--to", "y").refusal == "invalid-field"
    assert on_file("archives").lines[0].split()[0] == "ARCHIVE"


def test_a_backup_and_a_restore_name_the_archives(sqlite_log: JobLog, on_file: Cli, tmp_path: Path) -> None:
    ended(sqlite_log, on_file, tmp_path)
    name = an_archive(on_file, tmp_path, "--json").document["archive"]
    made = on_file("backup", str(tmp_path / "backups"))
    assert made.lines[1] == f"it needs 1 archive besides: {name}"
    assert on_file("backup", str(tmp_path / "backups"), "--list", "--json").document["items"][0]["archives"] == [name]
    other = ("--db", f"sqlite:///{tmp_path / 'restored.db'}")

    restored = joblog(*other, "restore", str(tmp_path / "backups"), "--reason", "a test")

    assert restored.lines[1] == f"it needs 1 archive besides: {name}"
    assert joblog(*other, "verify").code == 0
    assert joblog(*other, "projections", "verify", "jobs", "--units").code == 0
    (tmp_path / "archives").rename(tmp_path / "attic")
    assert joblog(*other, "projections", "verify", "jobs", "--units").refusal == "archive-missing"
    assert joblog(*other, "verify").code == 0
