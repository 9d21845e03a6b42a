"""`why`: each condition that keeps a job from going on, on both databases."""

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest

from joblog.api.explain import reasons as reasons_of
from joblog.domain.spec import JobSpec
from joblog.domain.status import Status
from joblog.workers.commands.log import JobLog
from tests.api.cli.terminal import ADA, Answer, claimed, submit, work


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


def test_why_a_job_whose_holders_died_twice_runs_alone(log: JobLog, cli: Callable[..., Answer]) -> None:
    job_id = submit(log)
    for _ in range(2):
        claimed(log)
        lease = log.store.lease(UUID(job_id))
        assert lease is not None
        log.reclaim(lease, "another")
    assert reasons(cli("why", job_id, "--json")) == ["no-worker"]
    submit(log, "2", priority=1)
    claimed(log)

    assert reasons(cli("why", job_id, "--json")) == ["runs-alone"]
    assert "2 of its holders died at this checkpoint, so it runs alone" in cli("why", job_id).out


def test_why_a_parked_job_waits_even_when_it_is_resumed(log: JobLog, cli: Callable[..., Answer]) -> None:
    job_id = submit(log)
    claimed(log).park(reason="retry-after", text="429", not_before=log.now() + timedelta(days=2))

    assert reasons(cli("why", job_id, "--json")) == ["retry-after", "not-due"]


def test_why_a_parent_goes_on_when_its_child_has_ended(log: JobLog, cli: Callable[..., Answer]) -> None:
    parent = submit(log)
    held = claimed(log)
    held.release("child", due_at=log.now() + timedelta(minutes=1))

    assert "Its child has ended" in cli("why", parent).out


def test_another_job_is_named_only_to_who_sees_it(log: JobLog) -> None:
    """A tenant's token learns that it waits, not for whom."""
    job_id, theirs = UUID(submit(log, gate="provider")), UUID(submit(log, "theirs", owner="eve"))
    log.store.close_gate("provider", log.store.now() + 60_000_000, by=str(theirs), reason="their quota")
    row = log.row(job_id)

    [told] = [reason.text for reason in reasons_of(log, row)]
    [kept] = [reason.text for reason in reasons_of(log, row, lambda other: other["owner"] != "eve")]

    assert str(theirs) in told
    assert "quota" in told
    assert str(theirs) not in kept
    assert "quota" not in kept
    assert kept.startswith("Its gate provider is closed until")
