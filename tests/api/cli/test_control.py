"""What operators do to jobs, queues and the log, on both databases."""

from collections.abc import Callable
from uuid import UUID

import pytest

from joblog.api.cli.session import user
from joblog.workers.commands.log import JobLog
from tests.api.cli.terminal import ADA, Answer, claimed, submit

REQUEST = "nightly-cleanup-2030-01-01"


def last(log: JobLog, job_id: str) -> dict[str, object]:
    event: dict[str, object] = vars(log.mapper.decode_all(UUID(job_id), log.store.read(UUID(job_id)))[-1])
    return event


def test_each_action_is_done_and_recorded_with_who_and_why(log: JobLog, cli: Callable[..., Answer]) -> None:
    job_id = submit(log)

    assert cli("pause", job_id, "--reason", "wait for mira").out == f"job {job_id} is paused\n"
    event = last(log, job_id)
    assert (event["actor"], event["text"], event["reason"]) == (user(), "wait for mira", "operator")
    assert cli("resume", job_id).out == f"job {job_id} is queued\n"
    assert cli("pause", job_id).code == 0
    assert cli("retry", job_id).out == f"job {job_id} is queued\n"
    assert cli("cancel", job_id, "--cleanup").out == f"job {job_id} is cancelled\n"
    assert last(log, job_id)["cleanup"] is True


def test_a_running_job_is_asked(log: JobLog, cli: Callable[..., Answer]) -> None:
    job_id = submit(log)
    claimed(log)

    answer = cli("cancel", job_id)

    assert answer.out == f"job {job_id} is asked to cancel; it stops at its next boundary\n"
    assert log.store.job(UUID(job_id))["status"] == "running"  # type: ignore[index]


def test_the_same_request_id_answers_the_same(log: JobLog, cli: Callable[..., Answer]) -> None:
    job_id, other = submit(log, "1"), submit(log, "2")

    first = cli("pause", job_id, "--request-id", REQUEST, "--json").document
    again = cli("pause", job_id, "--request-id", REQUEST, "--json").document

    assert first | {"repeated": True} == again
    assert "(answered before)" in cli("pause", job_id, "--request-id", REQUEST).out
    assert cli("pause", other, "--request-id", REQUEST).refusal == "request-id-reused"
    assert cli("pause", other, "--request-id", "short").refusal == "invalid-field"


def test_a_stale_version_is_refused(log: JobLog, cli: Callable[..., Answer]) -> None:
    job_id = submit(log)

    stale = cli("pause", job_id, "--if-version", "7")

    assert (stale.code, stale.refusal) == (4, "version-conflict")
    assert cli("pause", job_id, "--if-version", "1").code == 0


def test_a_wrong_state_is_refused(log: JobLog, cli: Callable[..., Answer]) -> None:
    answer = cli("resume", submit(log))

    assert (answer.code, answer.refusal, answer.out) == (4, "wrong-state", "")


def test_several_jobs_each_have_their_answer(log: JobLog, cli: Callable[..., Answer]) -> None:
    good, bad, unknown = submit(log, "1"), submit(log, "2"), "f" * 32
    log.command("cancel", UUID(bad), ADA)

    answer = cli("pause", good, bad, unknown, "--json")

    assert answer.code == 7
    assert (answer.document["done"], answer.document["refused"]) == (1, 2)
    assert [item.get("code", "done") for item in answer.document["items"]] == ["done", "wrong-state", "job-not-found"]
    assert cli("resume", good, "--request-id", REQUEST).code == 0
    assert cli("pause", good, bad, "--request-id", REQUEST).code == 2
    assert cli("pause", bad, bad).code == 4
    assert cli("pause", good, submit(log, "3")).out.count("is paused") == 2


def test_a_whole_queue_and_nothing_else(log: JobLog, cli: Callable[..., Answer]) -> None:
    mine = [submit(log, str(number), queue="hooks") for number in range(3)]
    other = submit(log, "other")

    answer = cli("pause", "--queue", "hooks", "--all", "--json", "--request-id", REQUEST)

    assert {key: answer.document[key] for key in ("queue", "action", "done", "refused", "superseded")} == {
        "queue": "hooks",
        "action": "pause",
        "done": 3,
        "refused": 0,
        "superseded": False,
    }
    assert {row["status"] for row in log.store.jobs([UUID(job) for job in mine]).values()} == {"paused"}
    assert log.store.job(UUID(other))["status"] == "queued"  # type: ignore[index]
    assert cli("pause", "--queue", "hooks", "--all", "--request-id", REQUEST).out.startswith("3 jobs of queue hooks")
    assert cli("resume", "--queue", "hooks", "--all").code == 0


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["--all"],
        ["--queue", "hooks"],
        ["0000", "--all"],
        ["0000", "--queue", "hooks", "--all"],
        ["--queue", "hooks", "--all", "--if-version", "1"],
    ],
)
def test_a_command_to_all_must_be_meant(log: JobLog, cli: Callable[..., Answer], args: list[str]) -> None:
    job_id = submit(log, queue="hooks")

    assert cli("cancel", *args).code == 2
    assert log.store.job(UUID(job_id))["status"] == "queued"  # type: ignore[index]


# -- queues ----------------------------------------------------------------------------------------------------------


def test_a_queue_is_paused_limited_and_resumed(log: JobLog, cli: Callable[..., Answer]) -> None:
    submit(log, "1", queue="hooks")
    submit(log, "2", queue="bulk")
    claimed(log, queues=("bulk",))

    assert cli("queues", "pause", "hooks").out == "queue hooks is paused\n"
    assert "at most 3 of its jobs run at once" in cli("queues", "limit", "bulk", "3").out
    bulk, hooks = cli("queues", "list", "--json").document["items"]
    assert (bulk["running"], bulk["slots"], bulk["ready"]) == (1, 3, 0)
    assert (hooks["paused"], hooks["ready"]) == (True, 1)
    assert hooks["oldest_due_at"] is not None
    assert "‖ paused" in cli("queues").out
    assert cli("queues", "resume", "hooks", "--json").document["paused"] is False
    assert cli("queues", "limit", "bulk", "none", "--json").document["slots"] is None


def test_a_queue_command_is_done_once(log: JobLog, cli: Callable[..., Answer]) -> None:
    first = cli("queues", "pause", "hooks", "--request-id", REQUEST, "--json").document
    cli("queues", "resume", "hooks")

    assert cli("queues", "pause", "hooks", "--request-id", REQUEST, "--json").document == first
    assert log.store.queue_rows()["hooks"]["paused"] is False


@pytest.mark.parametrize("slots", ["many", "-1", "1.5", ""])
def test_a_limit_is_a_count(log: JobLog, cli: Callable[..., Answer], slots: str) -> None:
    assert cli("queues", "limit", "--", "hooks", slots).code == 2
    assert log.store.queue_rows() == {}


def test_no_queue_at_all(log: JobLog, cli: Callable[..., Answer]) -> None:
    assert "No queue holds anything" in cli("queues").err


# -- epoch -----------------------------------------------------------------------------------------------------------


def test_an_epoch_is_raised_with_a_reason(log: JobLog, cli: Callable[..., Answer]) -> None:
    submit(log)

    assert cli("epoch", "raise").code == 2
    assert cli("epoch", "raise", "--reason", "restored", "--json").document == {"epoch": 2, "position": 2}
    assert f"epoch 2 begins, says {user()}: restored" in cli("tail", "--after", "0", "--no-follow").out


def test_units_that_were_passed_over_are_retried_as_jobs_of_their_own(log: JobLog, cli: Callable[..., Answer]) -> None:
    submit(log)
    held = claimed(log)
    held.skip_unit("rows:7", code="bad-row", text="no number")
    assert cli("retry", str(held.job_id), "--skipped").code == 4  # it has not ended
    held.complete()

    made = cli("retry", str(held.job_id), "--skipped")
    again = cli("retry", str(held.job_id), "--unit", "rows:7", "--json").document

    job_id = again["items"][0]["id"]
    assert made.out == f"job {job_id} retries it\n"
    assert again == {"id": str(held.job_id), "action": "retry", "items": [{"id": job_id, "created": False}]}
    assert log.job(UUID(job_id)).parent_id == str(held.job_id)


@pytest.mark.parametrize("more", [["--all", "--queue", "default"], ["--if-version", "3"]])
def test_passed_over_units_are_those_of_one_job(log: JobLog, cli: Callable[..., Answer], more: list[str]) -> None:
    job_id = submit(log)

    assert cli("retry", *([] if "--all" in more else [job_id]), "--skipped", *more).code == 2
