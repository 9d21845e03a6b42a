"""`list` and `show`: what an operator sees of jobs, on both databases."""

from collections.abc import Callable

import pytest

from joblog.api import job_list
from joblog.workers.commands.log import JobLog
from tests.api.cli.terminal import Answer, claimed, give_up, submit, work

# -- list ------------------------------------------------------------------------------------------------------------


def ids(answer: Answer) -> list[str]:
    return [job["id"] for job in answer.document["items"]]


def test_an_empty_log_says_how_to_begin(log: JobLog, cli: Callable[..., Answer]) -> None:
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
    monkeypatch.setattr("joblog.api.history.SHOWN", 3)
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


def test_a_list_under_several_filters_is_filled_however_far_its_rows_lie_apart(
    log: JobLog, cli: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_list, "_LOOKS", 2)
    kinds = ("rare", "often", "often", "often")
    made = [submit(log, str(n), kind=kinds[n % 4], queue="xyz"[n % 3]) for n in range(36)]
    wanted = made[::12][::-1]

    first = cli("list", "--kind", "rare", "--queue", "x", "--limit", "2", "--json").document
    assert [one["id"] for one in first["items"]] == wanted[:2]
    rest = cli("list", "--kind", "rare", "--queue", "x", "--after", wanted[1], "--json")
    assert (ids(rest), rest.document["next"]) == (wanted[2:], None)


def test_a_failed_job_tells_its_reason_in_the_list(log: JobLog, cli: Callable[..., Answer]) -> None:
    submit(log)
    claimed(log).fail(reason="bad-row", text="line 7, column 'name': " + "no text " * 20, unit="rows:1")

    line = cli("list").lines[1]

    assert "✕ failed" in line
    assert "bad-row: line 7, column 'name'" in line
    assert line.endswith("…")
