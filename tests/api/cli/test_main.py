"""The command itself: quick to start, plain in what it refuses."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import click
import pytest

from joblog.api.cli import main
from joblog.api.cli.main import COMMANDS, cli
from joblog.workers.commands.log import JobLog
from tests.api.cli.terminal import command, environment, joblog, run, submit

ENTRIES = {name: entry for section in COMMANDS.values() for name, entry in section.items()}
HEAVY = ("sqlalchemy", "eventsourcing", "orjson", "alembic", "aiohttp", "psycopg", "asyncio", "msgspec")


@pytest.mark.parametrize("name", ENTRIES)
def test_the_overview_says_what_the_command_says(name: str) -> None:
    made = cli.get_command(click.Context(cli), name)

    assert made is not None
    assert made.name == name
    assert made.get_short_help_str(200) == ENTRIES[name].help


def every_command(group: click.Group, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], click.Command]]:
    found: list[tuple[tuple[str, ...], click.Command]] = []
    for name in group.list_commands(click.Context(group)):
        made = group.get_command(click.Context(group), name)
        assert made is not None
        found.append(((*path, name), made))
        if isinstance(made, click.Group):
            found += every_command(made, (*path, name))
    return found


@pytest.mark.parametrize(("path", "made"), every_command(cli), ids=str)
def test_every_command_answers_in_json_and_takes_a_database(path: tuple[str, ...], made: click.Command) -> None:
    options = {option for parameter in made.params for option in parameter.opts}

    assert path == ("epoch",) or {"--db", "--json", "--quiet", "--app"} <= options


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["submit", "--help"], ["doctor", "--help"]])
def test_help_imports_nothing_heavy(args: list[str]) -> None:
    code = (
        "import sys; from joblog.api.cli.main import run; code = run(sys.argv[1:]);"
        f"print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *args], env=environment(), capture_output=True, text=True, check=True
    )

    assert done.stderr.strip() == "[]"


def test_help_costs_little() -> None:
    spent: list[float] = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert run("--help").code == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    assert min(spent) < 0.15  # the processor's seconds: those of the clock depend on who else is there


def test_the_version_is_told() -> None:
    assert run("--version").out.startswith("joblog ")


def test_options_stand_before_or_behind_the_command(sqlite_log: JobLog, sqlite_url: str) -> None:
    submit(sqlite_log)

    before = joblog("--db", sqlite_url, "--json", "list").document
    behind = joblog("list", "--json", "--db", sqlite_url).document

    assert before == behind
    assert len(before["items"]) == 1


def test_the_environment_names_the_database(
    sqlite_log: JobLog, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(sqlite_log)
    monkeypatch.setenv("JOBLOG_DB", sqlite_url)

    assert len(joblog("list", "--json").document["items"]) == 1
    assert joblog("list", "--db", "sqlite:///elsewhere.db").refusal == "schema-missing"


@pytest.mark.parametrize("args", [["nosuch"], ["list", "--limit", "0"], ["submit"], ["pause"], ["list", "--nosuch"]])
def test_wrong_usage_ends_with_2_and_the_way_to_help(args: list[str]) -> None:
    answer = run(*args)

    assert answer.code == 2
    assert answer.refusal == "usage"
    assert "--help" in answer.err


@pytest.mark.parametrize("args", [[], ["epoch"]])
def test_a_bare_group_shows_its_help(args: list[str]) -> None:
    answer = run(*args)

    assert answer.code == 2
    assert answer.err.startswith("Usage: joblog")
    assert "raise" in answer.err or "submit" in answer.err


@pytest.mark.parametrize(
    "url",
    ["mysql://u:hunter2@host/x", "hunter2", "postgresql://u:hunter2@127.0.0.1:1/x", "sqlite:///:memory:", "sqlite://"],
)
def test_a_database_that_can_not_be_used_is_refused_without_repeating_it(url: str) -> None:
    answer = joblog("--db", url, "list")

    assert answer.code in {2, 75}
    assert answer.refusal in {"invalid-field", "store-unavailable"}
    assert "hunter2" not in answer.out + answer.err


def test_looking_into_the_wrong_folder_makes_no_log(tmp_path: Path) -> None:
    answer = joblog("list")

    assert answer.code == 5
    assert answer.refusal == "schema-missing"
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_ours_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(main.cli, "main", broken)

    with pytest.raises(ZeroDivisionError):
        main.run(["list"])


def test_an_interrupt_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise click.Abort

    monkeypatch.setattr(main.cli, "main", interrupted)

    assert main.run(["list"]) == 130


def test_a_reader_that_goes_away_ends_it_in_silence(sqlite_log: JobLog, sqlite_url: str) -> None:
    for number in range(200):
        submit(sqlite_log, str(number), tags=("x" * 200,) * 20)
    process = subprocess.Popen(
        command("--db", sqlite_url, "list", "--limit", "200", "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(PYTHONUNBUFFERED=""),
    )
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        assert process.stdout.read(1) == b"{"
        process.stdout.close()
        said = process.stderr.read()

    assert process.returncode == 1
    assert said == b""


def test_what_the_log_holds_can_not_steer_the_terminal(sqlite_log: JobLog, sqlite_url: str) -> None:
    job_id = submit(sqlite_log, "\u202egnp.exe")
    reason = "\x1b[2J\u2028bell\x07"

    assert joblog("pause", job_id, "--reason", reason, "--db", sqlite_url).code == 0
    for args in (
        ["list"],
        ["show", job_id],
        ["show", job_id, "--events"],
        ["why", job_id],
        ["tail", "--after", "0", "--no-follow"],
    ):
        out = joblog("--db", sqlite_url, *args).out
        assert not {"\x1b", "\x07", "\u202e", "\u2028"} & set(out)
    assert json.loads(joblog("show", job_id, "--json", "--db", sqlite_url).out)["job"]["reason_text"] == reason


@pytest.mark.parametrize("args", [["init"], ["migrate"], ["up"], ["list"]])
def test_a_folder_that_can_not_be_written_to_is_refused_with_the_way_out(args: list[str], tmp_path: Path) -> None:
    code = (
        "import os, sys; from importlib import import_module; from joblog.api.cli.main import COMMANDS, run;"
        "[import_module(f'joblog.api.cli.{entry.module}') for section in COMMANDS.values() for entry in section.values()];"
        "import joblog.workers.worker, joblog.workers.operations.import_file, joblog.eventstore.migrate, alembic.command;"
        "import sqlalchemy.dialects.sqlite, encodings.idna;"
        "os.geteuid() or os.seteuid(65534); sys.exit(run(sys.argv[1:]))"  # root may write everywhere
    )
    (tmp_path / "joblog.db").touch(mode=0o444)
    tmp_path.chmod(0o555)

    done = subprocess.run(
        [sys.executable, "-c", code, *args],
        env=environment(),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )

    assert done.returncode == 6, done.stderr
    assert "code: unsafe-store" in done.stderr
    assert "another --db" in done.stderr
