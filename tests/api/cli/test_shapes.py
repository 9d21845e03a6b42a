"""The JSON of jobs and events is for ever: keys are only added, and then here too."""

from collections.abc import Callable
from datetime import datetime

from joblog.workers.commands.log import JobLog
from tests.api.cli.terminal import Answer, claimed, submit, work

JOB = {
    "id", "kind", "queue", "tenant", "owner", "key", "priority", "exclusive_key", "gate", "status", "wish", "outcome",
    "reason", "reason_text", "worker", "attempt", "unit_attempt", "crashes", "reclaims", "failures", "done", "skipped",
    "total", "due_at", "created_at", "updated_at", "started_at", "last_attempt_at", "finished_at", "checkpoint", "version",
    "parent_id", "tags", "in_outbox",
}  # fmt: skip
SHOWN = JOB | {"args", "cursor", "tallies", "result", "errors", "errors_dropped", "cycle", "unit", "lease"}
EVENT = {"position", "version", "topic", "time", "event_id", "data"}


def test_a_list(log: JobLog, cli: Callable[..., Answer]) -> None:
    submit(log, tags=("a", "b"))

    document = cli("list", "--json").document

    assert document.keys() == {"items", "next", "position"}
    (job,) = document["items"]
    assert job.keys() == JOB
    assert (job["status"], job["tags"], job["total"], job["in_outbox"]) == ("queued", ["a", "b"], None, False)
    assert datetime.fromisoformat(job["created_at"]).utcoffset() is not None
    assert job["created_at"].endswith("Z")


def test_a_job(log: JobLog, cli: Callable[..., Answer]) -> None:
    job_id = submit(log)
    held = claimed(log)
    work(held, 1, 2)

    document = cli("show", job_id, "--json", "--events").document

    assert document.keys() == {"job", "history", "events"}
    assert document["job"].keys() == SHOWN
    assert document["job"]["lease"].keys() == {"worker", "epoch", "token", "seconds_left"}
    assert 0 < document["job"]["lease"]["seconds_left"] <= 30
    assert document["job"]["tallies"] == {"rows": 10}
    assert [turn.keys() for turn in document["history"]] == [{"time", "version", "topic", "text"}] * 3
    assert [event.keys() for event in document["events"]] == [EVENT | {"job"}] * 6
    assert document["events"][0]["data"]["args"] == {"n": 1}


def test_the_log(log: JobLog, cli: Callable[..., Answer]) -> None:
    job_id = submit(log)

    (line,) = [Answer(0, line, "").document for line in cli("tail", "--after", "0", "--no-follow", "--json").lines]

    assert line.keys() == EVENT | {"stream", "epoch", "cursor"}
    assert (line["position"], line["stream"], line["cursor"]) == (1, job_id, "1:1")
    assert line["topic"] == "joblog.job.submitted"


def test_a_command(log: JobLog, cli: Callable[..., Answer]) -> None:
    job_id = submit(log)

    document = cli("pause", job_id, "--json").document

    assert document == {
        "id": job_id,
        "action": "pause",
        "status": "paused",
        "wish": "",
        "version": 2,
        "repeated": False,
    }


def test_a_reason(log: JobLog, cli: Callable[..., Answer]) -> None:
    document = cli("why", submit(log), "--json").document

    assert document.keys() == {"id", "status", "text", "reasons"}
    assert document["reasons"][0].keys() == {"code", "text", "until", "evidence"}


def test_the_health(log: JobLog, cli: Callable[..., Answer]) -> None:
    document = cli("doctor", "--json").document

    assert document.keys() == {"database", "ok", "checks"}
    assert {tuple(check) for check in document["checks"]} == {("name", "level", "text", "hint")}


def test_queues_and_projections(log: JobLog, cli: Callable[..., Answer]) -> None:
    submit(log)

    (queue,) = cli("queues", "--json").document["items"]
    (jobs, *views) = cli("projections", "list", "--json").document["items"]

    assert queue.keys() == {"queue", "paused", "slots", "running", "ready", "ready_is_exact", "oldest_due_at"}
    assert jobs.keys() == {"name", "position", "behind", "generation", "rebuild"}
    for view in views:
        assert view.keys() == jobs.keys() | {"seconds", "owner", "stopped_at", "reason"}
