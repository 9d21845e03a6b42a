"""`list`, `show`, `why`: what an operator sees of jobs, on both databases."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from joblog.domain.status import Status
from joblog.workers.commands.log import JobLog
from tests.api.cli.terminal import ADA, Answer, claimed, give_up, submit, work

# -- list ------------------------------------------------------------------------------------------------------------


def ids(answer: Answer) -> list[str]:
    return [job["id"] for job in answer.document["items"]]


def test_an_empty_log_says_how_to_begin(log: JobLog, cli: Callable[..., Answer]) -> None:  # noqa: ARG001 - made empty
    answer = cli("list")

    assert answer.lines[0].split() == ["JOB", "STATUS", "KIND", "QUEUE", "DONE", "UPDATED", "REASON"]
    assert "No jobs yet." in answer.err
    assert "joblog submit" in answer.err


def test_pages_follow_each_other_by_key(log: JobLog, cli: Callable[..., Answer]) -> None:
    made = [submit(log, str(number)) for number in range(7)]

    seen: list[str] = []
    after: list[str] = []
    while True:
        answer = cli("list", "--limit", "3", "--json", *after)
        seen += ids(answer)
        if (following := answer.document["next"]) is None:
            break
        submit(log, f"meanwhile-{len(seen)}")  # newer jobs do not move the pages
        after = ["--after", following]

    assert seen == made[::-1]


def test_filters_apply_together(log: JobLog, cli: Callable[..., Answer]) -> None:
    wanted = submit(log, "1", kind="a", queue="hooks", tenant="t")
    submit(log, "2", kind="b", queue="hooks", tenant="t")
    submit(log, "3", kind="a", queue="bulk", tenant="t")
    submit(log, "4", kind="a", queue="hooks", tenant="u")

    filters = ["--kind", "a", "--queue", "hooks", "--tenant", "t", "--status", "queued"]

    assert ids(cli("list", "--json", *filters)) == [wanted]
    assert cli("list", "--kind", "none-such").err == "Nothing matches.\n"


def test_the_next_page_is_named_for_people_too(log: JobLog, cli: Callable[..., Answer]) -> None:
    first = submit(log, "1")
    second = submit(log, "2")

    answer = cli("list", "--limit", "1")

    assert answer.err == f"more: --after {second}\n"
    assert first in cli("list", "--after", second).out


# -- ids -------------------------------------------------------------------------------------------------------------


def test_the_beginning_of_an_id_is_enough(log: JobLog, cli: Callable[..., Answer]) -> None:
    job_id = submit(log)

    assert job_id in cli("show", job_id[:8]).out
    assert job_id in cli("why", job_id[:13].upper()).out


@pytest.mark.parametrize(
    ("text", "code", "refusal"),
    [
        ("ffffffff", 3, "job-not-found"),
        ("fff", 2, "invalid-field"),
        ("no-id", 2, "invalid-field"),
        ("0" * 32, 3, "job-not-found"),
    ],
)
def test_an_id_that_is_none(log: JobLog, cli: Callable[..., Answer], text: str, code: int, refusal: str) -> None:
    submit(log)

    for command in ("show", "why", "pause"):
        answer = cli(command, text)
        assert (answer.code, answer.refusal) == (code, refusal)


def test_the_beginning_of_several_ids_is_refused(log: JobLog, cli: Callable[..., Answer]) -> None:
    seen: set[str] = set()
    for number in range(600):  # of 65,536 beginnings two soon meet
        beginning = submit(log, str(number))[:4]
        if beginning in seen:
            break
        seen.add(beginning)

    answer = cli("cancel", beginning)

    assert (answer.code, answer.refusal) == (2, "invalid-field")


# -- show ------------------------------------------------------------------------------------------------------------


def test_the_history_says_who_died_where_and_who_went_on(log: JobLog, cli: Callable[..., Answer]) -> None:
    job_id = submit(log)
    held = claimed(log, "host-1")
    work(held, 1, 2, 3)
    held.attempt_unit("rows:4")
    give_up(log, held, "host-2")
    held = claimed(log, "host-2")
    work(held, 4, 5)
    held.complete({"rows": 25})

    lines = [line.split("  ", 1)[1] for line in cli("show", job_id).out.partition("\n\n")[2].splitlines()]

    assert lines[:2] == ["submitted by mira: demo.kind in queue default, priority 5", "claimed by host-1 (attempt 1)"]
    assert lines[2] == "3 units done, to checkpoint 3"
    assert lines[3].startswith("host-1 died in unit rows:4; it had held the job since ")
    assert lines[3].endswith("; host-2 took it back; crash 1 at this checkpoint")
    assert lines[4:] == ["claimed by host-2 (attempt 2)", "2 units done, to checkpoint 5", "completed"]


def test_the_head_says_what_the_job_is(log: JobLog, cli: Callable[..., Answer]) -> None:
    job_id = submit(log, total=4)
    held = claimed(log)
    work(held, 1)

    out = cli("show", job_id).out

    for said in (
        "● running",
        "demo.kind  (queue default",
        '{"n": 1}',
        "1 of 4 done",
        "rows 5",
        "host-1",
        "owner      mira",
    ):
        assert said in out


def test_events_are_shown_one_by_one(log: JobLog, cli: Callable[..., Answer]) -> None:
    job_id = submit(log)
    submit(log, "other")
    work(claimed(log), 1)

    lines = cli("show", job_id, "--events").out.partition("EVENT\n")[2].splitlines()

    assert [line.split()[1] for line in lines] == ["1", "2", "3", "4"]
    assert lines[2].endswith("unit rows:1 done (1 in all)")


def test_a_long_life_is_cut_at_its_beginning(
    log: JobLog, cli: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("joblog.api.cli.history.SHOWN", 3)
    job_id = submit(log)
    for worker, units in (("host-1", (1, 2)), ("host-2", (3, 4))):
        held = claimed(log, worker)
        work(held, *units)
        held.release("shutdown")

    history = cli("show", job_id, "--json").document["history"]

    assert history[0]["text"].startswith("… ")
    assert [turn["text"] for turn in history[1:]] == [
        "handed back: the worker was told to stop",
        "claimed by host-2 (attempt 2)",
        "2 units done, to checkpoint 4",
        "handed back: the worker was told to stop",
    ]


def test_an_event_of_newer_code_is_shown_as_it_is(log: JobLog, cli: Callable[..., Answer]) -> None:
    from uuid import UUID

    from joblog.eventstore.append import Append, EventRow

    job_id = submit(log)
    state = b'{"timestamp": "2030-01-01T00:00:00+00:00", "event_id": "x", "colour": "blue"}'
    append = Append(UUID(job_id), 1, [EventRow(2, "joblog.job.painted", state)], "x")
    log.writer.append(append)

    shown, events = cli("show", job_id), cli("show", job_id, "--events", "--json").document["events"]

    assert "joblog.job.painted: written by a newer joblog" in shown.out
    assert "run a newer joblog" in shown.err
    assert events[1]["data"] == {"colour": "blue"}


# -- why -------------------------------------------------------------------------------------------------------------


def reasons(answer: Answer) -> list[str]:
    return [reason["code"] for reason in answer.document["reasons"]]


def test_why_a_job_is_not_running_yet(log: JobLog, cli: Callable[..., Answer]) -> None:
    later = submit(log, "1", due_at=log.now() + timedelta(hours=2), queue="hooks")
    keyed = [submit(log, str(number), exclusive_key="table") for number in (2, 3)]
    log.control_queue("hooks", "pause", ADA)
    held = claimed(log)
    waits = next(job for job in keyed if job != str(held.job_id))

    assert reasons(cli("why", later, "--json")) == ["not-due", "queue-paused"]
    assert "paused by ada" in cli("why", later).out
    assert reasons(cli("why", waits, "--json")) == ["exclusive-key-held"]
    assert f"key 'table' is held by job {held.job_id}, which runs on host-1" in cli("why", waits).out


def test_why_a_due_job_waits(log: JobLog, cli: Callable[..., Answer]) -> None:
    job_id = submit(log, "1")
    assert reasons(cli("why", job_id, "--json")) == ["no-worker"]
    log.control_queue("default", "limit", ADA, slots=1)
    held = claimed(log)
    queued = submit(log, "2")

    assert reasons(cli("why", queued, "--json")) == ["queue-full"]
    log.control_queue("default", "limit", ADA, slots=None)
    assert reasons(cli("why", queued, "--json")) == ["in-line"]
    assert str(held.job_id) == job_id


def test_why_a_gate_keeps_a_job_out(log: JobLog, cli: Callable[..., Answer]) -> None:
    job_id = submit(log, gate="provider")
    log.store.set_gate("provider", 0, log.store.now() + 60_000_000)

    assert reasons(cli("why", job_id, "--json")) == ["gate-closed", "gate-full"]


def test_why_a_job_runs(log: JobLog, cli: Callable[..., Answer]) -> None:
    job_id = submit(log)
    held = claimed(log)
    work(held, 1)
    log.command("pause", held.job_id, ADA)

    answer = cli("why", job_id, "--json")

    assert reasons(answer) == ["running", "progress", "pause-requested"]
    assert "host-1 runs it" in answer.document["text"]


def test_why_a_failed_unit_is_tried_again_later(log: JobLog, cli: Callable[..., Answer]) -> None:
    job_id = submit(log)
    held = claimed(log)
    at = log.now() + timedelta(minutes=5)
    held.schedule_retry("rows:1", category="network", text="connection reset", next_attempt_at=at, origin="date")

    answer = cli("why", job_id, "--json")

    assert reasons(answer) == ["retry-scheduled"]
    assert answer.document["reasons"][0]["until"] == at.isoformat().replace("+00:00", "Z")
    assert "Unit rows:1 failed on attempt 1 (network: connection reset)" in answer.document["text"]


def test_why_a_job_sleeps(log: JobLog, cli: Callable[..., Answer]) -> None:
    job_id = submit(log)
    claimed(log).release("wait", due_at=log.now() + timedelta(hours=1))

    assert reasons(cli("why", job_id, "--json")) == ["asleep"]


def test_why_a_parent_waits_for_its_child(log: JobLog, cli: Callable[..., Answer]) -> None:
    parent = submit(log)
    held = claimed(log)
    child = submit(log, "child", parent_id=held.job_id, kind="child.kind")
    held.release("child", due_at=log.now() + timedelta(minutes=1))

    assert f"child, job {child} (child.kind), which is queued" in cli("why", parent).out


def test_why_a_job_stands_still(log: JobLog, cli: Callable[..., Answer]) -> None:
    job_id = submit(log)
    log.command("pause", next(iter(log.store.jobs([claimed(log).job_id]))), ADA)
    held = log.store.lease(log.store.find_jobs(limit=1)[0]["id"])
    assert held is not None
    log.reclaim(held, "host-2")

    answer = cli("why", job_id, "--json")

    assert reasons(answer) == ["operator"]
    assert f"joblog resume {job_id}" in answer.document["text"]


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.FAILED, Status.CANCELLED])
def test_why_a_job_ended(log: JobLog, cli: Callable[..., Answer], status: Status) -> None:
    job_id = submit(log)
    held = claimed(log)
    if status is Status.COMPLETED:
        work(held, 1)
        held.complete()
    elif status is Status.FAILED:
        held.fail(reason="bad-row", text="line 7", unit="rows:1")
    else:
        log.command("cancel", held.job_id, ADA)
        held.release("shutdown")

    answer = cli("why", job_id, "--json")

    assert reasons(answer) == ["bad-row" if status is Status.FAILED else status.value]
    assert ("joblog retry" in answer.document["text"]) is (status is Status.FAILED)


def test_a_job_in_the_outbox_reads_as_queued(sqlite_log: JobLog, on_file: Callable[..., Answer]) -> None:
    from joblog.domain.spec import JobSpec

    with sqlite_log.store.engine.begin() as connection:  # type: ignore[attr-defined]
        job_id = str(sqlite_log.submit_in(connection, JobSpec("demo.kind", key="k")))

    assert reasons(on_file("why", job_id, "--json")) == ["in-outbox"]
    assert "in the outbox" in on_file("show", job_id).out
    document = on_file("show", job_id, "--json").document
    assert (document["job"]["status"], document["job"]["in_outbox"], document["history"]) == ("queued", True, [])


def test_why_only_newer_code_goes_on(log: JobLog, cli: Callable[..., Answer]) -> None:
    job_id = submit(log)
    with log.store.writing("claim") as cursor:  # type: ignore[attr-defined]
        cursor.execute("UPDATE jobs_0 SET vocabulary = 99")

    assert reasons(cli("why", job_id, "--json"))[0] == "newer-code"


def test_why_a_dead_workers_job_stands_still(log: JobLog, cli: Callable[..., Answer]) -> None:
    job_id = submit(log)
    claimed(log)
    log.raise_epoch(ADA, reason="voids every lease")

    assert reasons(cli("why", job_id, "--json")) == ["lease-expired", "progress"]
    assert cli("show", job_id, "--json").document["job"]["lease"]["seconds_left"] <= 0


def test_why_a_parked_job_waits_even_when_it_is_resumed(log: JobLog, cli: Callable[..., Answer]) -> None:
    job_id = submit(log)
    claimed(log).park(reason="retry-after", text="429", not_before=log.now() + timedelta(days=2))

    assert reasons(cli("why", job_id, "--json")) == ["retry-after", "not-due"]


def test_why_a_parent_goes_on_when_its_child_has_ended(log: JobLog, cli: Callable[..., Answer]) -> None:
    parent = submit(log)
    held = claimed(log)
    held.release("child", due_at=log.now() + timedelta(minutes=1))

    assert "Its child has ended" in cli("why", parent).out


def test_a_failed_job_tells_its_reason_in_the_list(log: JobLog, cli: Callable[..., Answer]) -> None:
    submit(log)
    claimed(log).fail(reason="bad-row", text="line 7, column 'name': " + "no text " * 20, unit="rows:1")

    line = cli("list").lines[1]

    assert "✕ failed" in line
    assert "bad-row: line 7, column 'name'" in line
    assert line.endswith("…")
