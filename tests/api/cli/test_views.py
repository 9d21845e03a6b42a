"""`projections` of the views that follow the log, and `recovery`."""

from collections.abc import Callable
from pathlib import Path
from signal import SIGTERM
from threading import Event
from typing import Any

import pytest

from joblog.api.cli import projections_check, recovery
from joblog.domain.job import Actor
from joblog.projections import queries
from joblog.projections.views import VIEWS
from joblog.workers.commands.log import JobLog
from tests.api.cli.terminal import APP, SECONDS, Answer, claimed, run, started, submit, work

Cli = Callable[..., Answer]


def test_the_names_are_those_of_the_views() -> None:
    assert ("jobs", *VIEWS) == projections_check.NAMES
    assert recovery._FILTERS == queries.FILTERS


def test_followed_once_then_listed(log: JobLog, cli: Cli) -> None:
    submit(log)
    work(claimed(log), 1, 2)

    caught_up = cli("projections", "run", "--once", "--json").document

    assert caught_up == {"events": log.store.head(), "head": log.store.head()}
    items = {item["name"]: item for item in cli("projections", "list", "--json").document["items"]}
    assert items.keys() == {"jobs", *VIEWS}
    assert {(item["position"], item["behind"]) for item in items.values()} == {(log.store.head(), 0)}
    submit(log, "another")
    assert cli("projections").lines[2].split()[:3] == ["counters", f"{log.store.head() - 1}", "1"]


def test_the_doctor_says_how_far_they_are(log: JobLog, cli: Cli) -> None:
    submit(log)
    cli("projections", "run", "--once")
    submit(log, "another")

    checks = {check["name"]: check for check in cli("doctor", "--json").document["checks"]}
    assert (checks["views"]["level"], checks["views"]["text"]) == ("ok", "at most 1 event behind")
    assert "follower" not in checks


def test_rebuilt_verified_and_dropped(log: JobLog, cli: Cli) -> None:
    submit(log)
    cli("projections", "run", "--once")

    rebuilt = cli("projections", "rebuild", "recovery", "--json").document
    verified = cli("projections", "verify", "recovery", "--json").document

    assert rebuilt == {"name": "recovery", "position": 1, "generation": 1}
    assert (verified["differences"], verified["position"]) == (0, 1)
    assert verified["stored_digest"] == verified["folded_digest"]
    assert cli("projections", "drop-old", "recovery", "--json").document == {"name": "recovery", "generation": 1}
    assert cli("projections", "drop-old", "counters").code == 0


def test_all_are_verified_without_a_name(log: JobLog, cli: Cli) -> None:
    submit(log)
    cli("projections", "run", "--once")

    everything = cli("projections", "verify", "--json")

    assert everything.code == 0
    assert [item["name"] for item in everything.document["items"]] == ["jobs", *VIEWS]
    assert cli("projections", "verify").lines[0] == "jobs: 1 row up to position 1, as the log says"


def test_differing_rows_are_printed_and_end_with_5(log: JobLog, cli: Cli) -> None:
    job_id = submit(log)
    cli("projections", "run", "--once")
    with log.store.writing("claim") as cursor:  # type: ignore[attr-defined]
        cursor.execute("UPDATE due_jobs SET queue = 'other'")
        cursor.execute("DELETE FROM job_counts")

    diff = cli("projections", "diff", "schedule")
    document = cli("projections", "diff", "counters", "--json").document

    assert diff.code == 5
    assert diff.lines == [
        f"due_jobs {job_id}: queue is 'other', the log says 'default'",
        "1 difference up to position 1",
    ]
    assert (document["differences"], document["items"][0]["stored"]) == (2, None)  # of the tenant, and of all
    assert cli("projections", "verify").code == 5
    assert cli("projections", "verify", "versions").code == 0
    assert cli("projections", "diff", "jobs").code == 0


def test_a_stopped_view_is_shown_with_its_reason(log: JobLog, cli: Cli) -> None:
    from tests.workers.commands.builders import future

    future(log, log.store.log(0, 1)[0].stream_id if log.store.head() else _uuid(submit(log)))
    cli("projections", "run", "--once")

    assert "stopped at 2: UnknownEventError" in cli("projections").out
    found = [check for check in cli("doctor", "--json").document["checks"] if check["name"] == "view"]
    assert {check["level"] for check in found} == {"warn"}
    assert len(found) == len(VIEWS)
    assert cli("projections", "rebuild", "counters").refusal == "view-stopped"


def _uuid(text: str) -> Any:
    from uuid import UUID

    return UUID(text)


def test_a_worker_keeps_the_views(sqlite_url: str) -> None:
    with JobLog.open(sqlite_url) as log:
        submit(log)
        assert run("--db", sqlite_url, "worker", "--until-idle", *APP).code == 0
        assert sum(queries.counters(log.store).values()) == 1
        assert queries.lag(log.store)[0].events == 0
        submit(log, "again")
        assert run("--db", sqlite_url, "worker", "--until-idle", "--no-follow", *APP).code == 0
        assert queries.lag(log.store)[0].events > 0


def test_a_process_of_its_own_follows_until_it_is_told_to_stop(sqlite_url: str) -> None:
    with JobLog.open(sqlite_url) as log, started("--db", sqlite_url, "projections", "run") as process:
        submit(log)
        tick = Event()
        for _ in range(int(SECONDS / 0.05)):
            if queries.counters(log.store) == {("queued",): 1}:
                break
            tick.wait(0.05)
        process.send_signal(SIGTERM)

        assert process.wait(SECONDS) == 143
        assert queries.counters(log.store) == {("queued",): 1}
        assert not any(one.leads for one in queries.lag(log.store))


# -- recovery ------------------------------------------------------------------------------------------------------------


def test_an_empty_report_still_has_its_head(log: JobLog, cli: Cli) -> None:
    """RPT-07, RPT-19."""
    answer = cli("recovery")

    assert answer.lines[0].split()[:4] == ["DONE", "DATE", "EVENT", "USER"]
    assert "page 1 of 1, 0 rows" in answer.err
    submit(log)
    assert "joblog projections run" in cli("recovery").err


def test_a_page_of_the_report(log: JobLog, cli: Cli) -> None:
    job_id = submit(log)
    held = claimed(log)
    held.park(reason="quota", text="100% \x1b[31m used")
    log.command("resume", held.job_id, Actor("bob", address="2001:db8::1"))
    cli("projections", "run", "--once")

    answer = cli("recovery")

    resumed, paused = answer.lines[1:]
    assert resumed.split()[:2] == ["✓", "yes"]
    assert paused.split()[:2] == ["⚠", "no"]
    assert "\x1b" not in answer.out
    assert "2001:db8::1" in resumed
    document = cli("recovery", "list", "--filter", "failed", "--search", "100%", "--json").document
    assert (document["total"], document["page"], document["pages"]) == (1, 1, 1)
    assert (document["items"][0]["job_id"], document["items"][0]["done"]) == (job_id, False)
    assert document["items"][0]["at"].endswith("Z")
    assert cli("recovery", "--filter", "none").code == 2


def test_pages_of_ten(log: JobLog, cli: Cli) -> None:
    for number in range(12):
        assert cli("recovery", "note", f"n{number}").code == 0
    cli("projections", "run", "--once")

    assert len(cli("recovery").lines) == 11
    assert len(cli("recovery", "--page", "2").lines) == 3
    assert len(cli("recovery", "--page", "x").lines) == 11
    assert cli("recovery", "--page", "99", "--json").document["page"] == 2


def test_notes_by_hand(log: JobLog, cli: Cli) -> None:
    note = ("recovery", "note", "restore", "--failed", "--deleted", "--request-id", "request-0123456789abcdef")
    assert cli(*note, "--json").document == cli(*note, "--json").document == {"position": 1}
    cli("projections", "run", "--once")

    [row] = cli("recovery", "--json").document["items"]
    assert (row["type"], row["done"], row["deleted"], row["source"]) == ("restore", False, True, "manual")
    assert "🗑" in cli("recovery").out
    assert cli("recovery", "note", " ").refusal == "invalid-field"


def test_files_are_taken_in_once(log: JobLog, cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "recovery-events.jsonl"
    file.write_text('{"type":"restored"}\njunk\n', encoding="utf-8")

    assert cli("recovery", "import", str(file), "--json").document["items"] == [
        {"file": str(file), "taken": 1, "skipped": 1}
    ]
    assert cli("recovery", "import", str(file)).lines == [f"{file}: 0 lines taken in, 0 that say nothing"]


@pytest.mark.parametrize("command", [["projections", "run", "--once"], ["recovery"], ["projections", "verify"]])
def test_nothing_is_made_where_there_is_no_log(tmp_path: Path, command: list[str]) -> None:
    answer = run("--db", f"sqlite:///{tmp_path}/none.db", *command)
    assert (answer.code, list(tmp_path.glob("none*"))) == (5, [])
