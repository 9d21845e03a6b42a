"""`init`, `migrate`, `projections`: looking after the log."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from joblog.workers.commands.log import JobLog
from tests.api.cli.terminal import Answer, claimed, joblog, level, submit, work

# -- schema ----------------------------------------------------------------------------------------------------------


def test_init_is_safe_to_repeat(database_url: str) -> None:
    first = joblog("--db", database_url, "init", "--json")
    again = joblog("--db", database_url, "init", "--json")

    assert first.code == again.code == 0
    assert first.document == again.document
    assert first.document["schema"] == 1
    assert "is ready" in joblog("--db", database_url, "init").out


def test_migrate_up_check_and_down(database_url: str) -> None:
    def migrate(*args: str) -> Answer:
        return joblog("--db", database_url, "migrate", *args)

    assert migrate("--check").code == 5
    assert migrate().code == 0
    assert migrate("--check", "--json").document["differences"] == []
    assert migrate("--down").code == 0
    assert joblog("--db", database_url, "list").refusal in {"schema-missing", "unsafe-store"}
    assert migrate("--check", "--down").code == 2


def test_a_log_with_events_is_never_taken_down(log: JobLog, cli: Callable[..., Answer]) -> None:
    submit(log)

    answer = cli("migrate", "--down")

    assert (answer.code, answer.refusal) == (6, "unsafe-store")


@pytest.mark.parametrize(
    ("change", "refusal"), [("min_code = 99", "schema-too-new"), ("schema_version = 0", "schema-missing")]
)
def test_a_database_of_another_version_is_refused(
    log: JobLog, cli: Callable[..., Answer], change: str, refusal: str
) -> None:
    with log.store.writing("claim") as cursor:  # type: ignore[attr-defined]
        cursor.execute(f"UPDATE log_state SET {change}")

    answer = cli("list")

    assert (answer.code, answer.refusal) == (5, refusal)
    assert cli("doctor").code == 6


# -- projections -----------------------------------------------------------------------------------------------------


def test_a_projection_is_rebuilt_verified_and_the_old_one_dropped(log: JobLog, cli: Callable[..., Answer]) -> None:
    for number in range(3):
        submit(log, str(number))
    work(claimed(log), 1, 2)

    rebuilt = cli("projections", "rebuild", "jobs", "--json").document

    assert rebuilt == {"name": "jobs", "position": log.store.head(), "generation": 1}
    assert cli("projections", "verify", "jobs", "--units", "--json").document["differences"] == 0
    assert cli("projections", "drop-old", "jobs", "--json").document == {"name": "jobs", "generation": 1}
    assert cli("projections").out.splitlines()[1].split() == ["jobs", str(log.store.head()), "0", "1"]


def test_differences_are_told_and_end_with_5(log: JobLog, cli: Callable[..., Answer]) -> None:
    job_id = submit(log)
    work(claimed(log), 1)
    with log.store.writing("claim") as cursor:  # type: ignore[attr-defined]
        cursor.execute("UPDATE jobs_0 SET kind = 'another'")
        cursor.execute("DELETE FROM unit_results")

    answer = cli("projections", "verify", "jobs", "--units", "--json")

    assert answer.code == 5
    assert answer.document["differences"] == 2
    assert answer.document["items"][0] == {"job": job_id, "what": "kind", "stored": "another", "log": "demo.kind"}
    lines = cli("projections", "verify", "jobs", "--units").lines
    assert lines[0] == f"job {job_id}: kind is 'another', the log says 'demo.kind'"
    assert lines[-1].startswith("2 differences")


def test_a_missing_row_is_a_difference_and_a_rebuild_mends_it(log: JobLog, cli: Callable[..., Answer]) -> None:
    submit(log)
    with log.store.writing("claim") as cursor:  # type: ignore[attr-defined]
        cursor.execute("DELETE FROM jobs_0")

    assert "row is None" in cli("projections", "verify", "jobs").out
    assert cli("projections", "rebuild", "jobs").code == 0
    assert cli("projections", "verify", "jobs").code == 0


def test_a_rebuild_that_runs_or_died_is_shown(log: JobLog, cli: Callable[..., Answer]) -> None:
    submit(log)
    log.store.track("audit", 1)
    log.store.rebuild_begin("somebody", 60_000_000)

    (jobs, *views, audit) = cli("projections", "--json").document["items"]

    assert {view["position"] for view in views} == {0}

    assert jobs["rebuild"]["owner"] == "somebody"
    assert (audit["name"], audit["behind"]) == ("audit", 0)
    assert cli("projections", "rebuild", "jobs").refusal == "rebuild-running"
    log.store.rebuild_begin("somebody", -1)
    assert "dead" in cli("projections").out
    assert level(cli("doctor", "--json"), "rebuild") == "warn"


def test_only_known_projections(log: JobLog, cli: Callable[..., Any]) -> None:
    for action in ("rebuild", "verify", "drop-old"):
        assert cli("projections", action, "nosuch").code == 2


@pytest.mark.parametrize("command", [["init"], ["migrate"], ["migrate", "--check"], ["list"]])
def test_a_server_that_does_not_answer(command: list[str]) -> None:
    answer = joblog("--db", "postgresql://ada:hunter2@127.0.0.1:1/x", *command)

    assert (answer.code, answer.refusal) == (75, "store-unavailable")
    assert "hunter2" not in answer.err


@pytest.mark.parametrize("command", [["init"], ["migrate"], ["list"], ["doctor"]])
def test_a_path_that_leads_through_a_file(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "file").touch()

    answer = joblog("--db", "sqlite:///file/joblog.db", *command)

    assert answer.code == 6
    assert "Traceback" not in answer.err
