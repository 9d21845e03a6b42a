"""The recovery report: what is in it, in which order, under which filter and search (RPT-01..22)."""

from collections.abc import Iterator
from typing import Any

import pytest

from joblog.domain.errors import InvalidFieldError
from joblog.domain.gate import GateClosed, GateLimited, GateOpened
from joblog.domain.job import Actor
from joblog.eventstore.clock import micros
from joblog.projections import queries
from joblog.workers.commands import recovery
from joblog.workers.commands.log import JobLog
from tests.clocks import MovedClock
from tests.conformance.backends import Backend, MemoryBackend
from tests.conformance.builders import ADA, claim, claimed, stored, submit
from tests.projections.viewing import runner

BOB = Actor("bob", address="::ffff:192.0.2.7", text="by hand")


@pytest.fixture
def backend() -> Iterator[Backend]:
    """Rows are folded by the same code on every store; where they are looked for there is a test on each."""
    backend = MemoryBackend("memory://", MovedClock())
    yield backend
    backend.close()


def report(log: JobLog, **options: Any) -> list[dict[str, Any]]:
    runner(log).run()
    return queries.recovery_page(log.store, **options).rows


def types(log: JobLog, **options: Any) -> list[str]:
    return [row["type"] for row in report(log, **options)]


def noted(log: JobLog, kind: str = "restore-finished", **fields: Any) -> int:
    return recovery.note(log, {"type": kind, **fields}, ADA)


# -- rows ----------------------------------------------------------------------------------------------------------------


def test_a_job_that_was_taken_back(backend: Backend) -> None:
    """RPT-02."""
    log = backend.open()
    held = claimed(log, gate="trello", tenant="acme")
    held.complete_units([("u1", 1)], cursor=1)
    held.attempt_unit("u2")
    backend.clock.move(31)
    log.expire("reaper")

    [row] = report(log)

    assert (row["type"], row["severity"], row["source"], row["done"]) == (
        "job-reclaimed-after-restart", "warning", "server", True,
    )  # fmt: skip
    assert (row["job_id"], row["operation"], row["provider"], row["tenant"]) == (
        str(held.job_id), "import", "trello@acme", "acme",
    )  # fmt: skip
    assert (row["checkpoint"], row["attempt"], row["reclaimed"], row["reason"]) == (1, 1, True, "expired")
    assert "from w by reaper" in row["detail"]
    assert "unit u2" in row["detail"]
    assert not queries.recovery_page(log.store, filter="failed").rows


def test_a_retry_says_when(log: JobLog) -> None:
    held = claimed(log)
    held.schedule_retry("u", category="network", text="reset")

    [row] = report(log)

    assert (row["type"], row["reason"], row["detail"], row["attempt"]) == ("job-retry-scheduled", "network", "reset", 1)
    assert row["next_retry_at"] == log.row(held.job_id)["due_at"]


def test_a_provider_that_gave_the_instant(log: JobLog) -> None:
    claimed(log).schedule_retry("u", category="provider", text="429", origin="delta")

    [row] = report(log)
    assert (row["type"], row["reason"]) == ("job-throttled", "provider")


def test_a_job_at_a_gate_is_no_trouble_and_commands_to_gates_are_rows(log: JobLog) -> None:
    claimed(log).await_gate("trello", unit="", due_at=None)
    until = log.now()
    events = [
        GateLimited.made("trello", 1, until, BOB, slots=2, spacing=0),
        GateClosed.made("trello", 2, until, BOB, until=until),
        GateOpened.made("trello", 3, until, BOB),
    ]
    stored(log.writer.append(log.to_append(events[0].originator_id, 0, events, "g")))

    rows = report(log)

    assert [row["type"] for row in rows] == ["gate-opened", "gate-closed", "gate-limited"]
    assert {(row["provider"], row["actor_name"], row["detail"]) for row in rows} == {
        ("trello", "bob", "gate trello: by hand")
    }
    assert rows[1]["next_retry_at"] == micros(until)


@pytest.mark.parametrize(
    ("reason", "kind", "severity"),
    [("exhausted-network", "job-attempts-exhausted", "error"), ("quota", "job-paused", "warning")],
)
def test_what_waits_for_somebody_is_not_done(log: JobLog, reason: str, kind: str, severity: str) -> None:
    """RPT-05: a claim of remediation that did not happen is never made."""
    claimed(log).park(reason=reason, text="none left")

    [row] = report(log, filter="failed")

    assert (row["type"], row["severity"], row["done"], row["reason"]) == (kind, severity, False, reason)


def test_a_failed_job_and_its_retry(log: JobLog) -> None:
    held = claimed(log)
    held.fail(reason="invalid-input", text="no such file")
    log.command("retry", held.job_id, BOB)

    retried, failed = report(log)

    assert (failed["type"], failed["done"], failed["severity"]) == ("job-failed", False, "error")
    assert (retried["type"], retried["done"], retried["source"]) == ("job-retried", True, "admin")
    assert (retried["actor_name"], retried["ipv4"], retried["ipv6"], retried["detail"]) == (
        "bob", "192.0.2.7", "", "by hand",
    )  # fmt: skip


def test_commands_of_operators(log: JobLog) -> None:
    waiting, held = submit(log), claimed(log, queue="other")
    log.command("pause", waiting, BOB)
    log.command("resume", waiting, BOB)
    log.command("cancel", waiting, BOB)
    log.command("pause", held.job_id, BOB)
    held.release("yield")

    rows = report(log)

    assert [(row["type"], row["actor_name"], row["done"]) for row in rows] == [
        ("job-paused", "", True),
        ("job-pause-requested", "bob", True),
        ("job-cancelled", "bob", True),
        ("job-resumed", "bob", True),
        ("job-paused", "bob", True),
    ]


def test_commands_to_queues_and_a_partly_refused_one(log: JobLog) -> None:
    """RPT-06: one row for each success, one failed row for the whole request."""
    jobs = [submit(log) for _ in range(2)]
    log.command("pause", jobs[0], ADA)
    log.control_queue("default", "pause", BOB)
    log.control_queue("default", "limit", BOB, slots=3)
    log.command_queue("default", "pause", BOB)

    kinds = types(log)

    assert kinds.count("job-paused") == 2
    assert kinds.count("queue-paused") == kinds.count("queue-limited") == 1
    assert kinds.count("queue-pause-all-requested") == 1
    failed = types(log, filter="failed")
    assert failed in ([], ["queue-command-refused-for-some"])


def test_a_plain_restart_and_plain_work_have_no_row(backend: Backend) -> None:
    """RPT-34."""
    log = backend.open()
    held = claimed(log)
    held.complete_units([("a", 1)])
    held.release("shutdown")
    log = backend.reopen(log)
    claim(log)[0].complete()

    assert report(log) == []


def test_the_epoch(log: JobLog) -> None:
    log.raise_epoch(ADA, reason="restored from monday")

    [row] = report(log)
    assert (row["type"], row["database"], row["detail"]) == ("log-epoch-raised", "log", "restored from monday")


def test_a_note_by_hand(log: JobLog) -> None:
    """RPT-01, RPT-03, RPT-31: any type; the source says that it is by hand."""
    fields = {"database": "boards", "detail": "12 cards", "severity": "warning", "done": False, "deleted": True}
    position = noted(log, "my-own-tool", **fields, ids=["a", 7, None, "b"], titles=["Plan"], source="else")

    [row] = report(log)

    assert row["position"] == position
    assert (row["type"], row["database"], row["detail"], row["severity"]) == (
        "my-own-tool",
        "boards",
        "12 cards",
        "warning",
    )
    assert (row["source"], row["actor_name"], row["done"], row["deleted"]) == ("manual", "ada", False, True)
    assert (row["ids"], row["titles"]) == (["a", "7", "b"], ["Plan"])
    assert row["at"] == row["recorded_at"]


@pytest.mark.parametrize("kind", [None, "", "  ", 7, ["x"]])
def test_a_note_without_a_type_is_refused(log: JobLog, kind: Any) -> None:
    with pytest.raises(InvalidFieldError, match="type"):
        recovery.note(log, {"type": kind}, ADA)
    assert log.store.head() == 0


def test_the_same_request_notes_once(log: JobLog) -> None:
    actor = Actor("ada", request_id="request-0123456789abcdef")
    assert recovery.note(log, {"type": "x"}, actor) == recovery.note(log, {"type": "x"}, actor) == 1
    assert types(log) == ["x"]


def test_what_a_guard_refused_is_named_in_the_security_stream_only(log: JobLog) -> None:
    """SSR-07."""
    claimed(log).fail(reason="destination-refused", text="http://10.0.0.1/secret-host refused")

    [row] = report(log)
    assert "secret-host" not in str(row)
