"""``joblog gates``: seen, closed, opened, limited, and explained, on both databases."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from joblog.api.cli.session import user
from joblog.domain import identity
from joblog.eventstore.gates import GateEntry, GateLimits
from joblog.workers.commands.log import JobLog
from tests.api.cli.terminal import Answer, claimed, row, submit

Cli = Callable[..., Answer]
REQUEST = "open-the-crm-2030-01-01"


def told(log: JobLog, seconds: float = 3600) -> str:
    """A job that a provider told to wait, and so its gate is closed."""
    held = claimed(log)
    until = log.now() + timedelta(seconds=seconds)
    log.store.close_gate("crm", log.store.now() + int(seconds * 1_000_000), by=str(held.job_id), reason="429 (delta)")
    held.schedule_retry("a", category="provider", text="http-429", next_attempt_at=until, origin="delta")
    return str(held.job_id)


def gate_events(log: JobLog, gate: str = "crm") -> list[str]:
    return [event.topic for event in log.store.read(identity.gate_stream(gate))]


def test_nothing_is_said_of_gates_that_nobody_used(log: JobLog, cli: Cli) -> None:
    assert log.store.gates() == []
    answer = cli("gates")

    assert (answer.code, len(answer.lines)) == (0, 1)
    assert "No gate" in answer.err
    assert cli("gates", "list", "--json").document == {"items": []}


def test_a_closed_gate_is_shown_with_who_was_told_so(log: JobLog, cli: Cli) -> None:
    submit(log)
    job_id = told(log)

    [item] = cli("gates", "--json").document["items"]

    assert (item["gate"], item["closed"], item["closed_by"], item["closed_reason"]) == (
        "crm", True, job_id, "429 (delta)",
    )  # fmt: skip
    assert datetime.fromisoformat(item["closed_until"]) > log.now()
    assert "closed until" in cli("gates").out


def test_requests_and_turns_are_counted(log: JobLog, cli: Cli) -> None:
    submit(log)
    held = claimed(log)
    for number in range(3):
        limits = GateLimits(slots=4, spacing=3_600_000_000)
        log.store.enter_gate(GateEntry("crm", f"{number}", held.job_id, held.token, limits))

    [item] = cli("gates", "--json").document["items"]

    assert (item["requests"], item["turns"], item["slots"], item["spacing_seconds"]) == (1, 2, 4, 3600)
    assert item["set_by"] == "code"


def test_opening_a_gate_is_recorded_and_lets_what_waits_go(log: JobLog, cli: Cli) -> None:
    submit(log)
    told(log)
    behind = submit(log, "behind", gate="crm")
    assert [held.job_id for held in log.claim("w", limit=9)] == []

    answer = cli("gates", "open", "crm", "--reason", "they called")

    assert answer.out == "gate crm is open\n"
    assert [str(held.job_id) for held in log.claim("w", limit=9)] == [behind]
    [event] = log.mapper.decode_all(identity.gate_stream("crm"), log.store.read(identity.gate_stream("crm")))
    assert (event.TOPIC, event.actor, event.text) == ("joblog.gate.opened", user(), "they called")


def test_opening_with_resume_starts_just_the_jobs_that_a_long_closure_has_paused(log: JobLog, cli: Cli) -> None:
    jobs = {}
    until = log.now() + timedelta(days=3)
    for name, gate, reason in (("a", "crm", "provider-waits"), ("b", "mail", "provider-waits"), ("c", "crm", "quota")):
        jobs[name] = submit(log, name)
        claimed(log).park(reason=reason, text="", not_before=until, gate=gate)
        log.store.close_gate(gate, log.store.now() + 10**12, by=jobs[name], reason="")

    answer = cli("gates", "open", "crm", "--resume")

    assert answer.out == "gate crm is open; 1 job resumed\n"
    assert [row(log, job_id)["status"] for job_id in jobs.values()] == ["queued", "paused", "paused"]
    assert [str(held.job_id) for held in log.claim("w", limit=9)] == [jobs["a"]]
    assert cli("gates", "open", "crm", "--resume", "--json").document["resumed"] == 0


def test_an_unknown_gate_is_not_opened(log: JobLog, cli: Cli) -> None:
    assert log is not None
    answer = cli("gates", "open", "crn")

    assert (answer.code, answer.refusal) == (3, "gate-not-found")


def test_a_gate_is_closed_for_a_while_and_never_for_less(log: JobLog, cli: Cli) -> None:
    assert log is not None
    first = cli("gates", "close", "crm", "--for", "2h", "--reason", "they asked us", "--json").document
    again = cli("gates", "close", "crm", "--for", "1h", "--json").document

    assert first["closed_until"] == again["closed_until"]
    assert (first["closed_by"], first["closed_reason"]) == (user(), "they asked us")
    longer = cli("gates", "close", "crm", "--until", "2199-01-01T00:00Z", "--json").document
    assert longer["closed_until"] == "2199-01-01T00:00:00Z"
    assert gate_events(log) == ["joblog.gate.closed"] * 3


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("close", "crm"), 2),
        (("close", "crm", "--for", "1h", "--until", "+1h"), 2),
        (("close", "crm", "--for", "soon"), 2),
        (("close", "crm", "--until", "2001-01-01T00:00Z"), 2),
        (("set", "crm"), 2),
        (("set", "crm", "--slots", "-1"), 2),
        (("set", "crm", "--spacing", "2d"), 2),
    ],
)
def test_what_can_not_be_meant_is_refused_and_changes_nothing(
    log: JobLog, cli: Cli, args: list[str], code: int
) -> None:
    assert cli("gates", *args).code == code
    assert log.store.gates() == []
    assert gate_events(log) == []


def test_limits_that_an_operator_sets_stand(log: JobLog, cli: Cli) -> None:
    answer = cli("gates", "set", "crm", "--slots", "2", "--spacing", "0.12s")
    assert answer.out == "gate crm lets 2 requests pass at once, 0.12 s apart\n"

    document = cli("gates", "set", "crm", "--slots", "none", "--json").document

    assert (document["slots"], document["spacing_seconds"], document["set_by"]) == (None, 0.12, "operator")
    [state] = log.store.gates("crm")
    assert (state.row.slots, state.row.spacing, state.row.pinned) == (None, 120_000, 1)
    assert gate_events(log) == ["joblog.gate.limited"] * 2


def test_a_limit_does_not_open_a_closed_gate(log: JobLog, cli: Cli) -> None:
    submit(log)
    told(log)

    assert cli("gates", "set", "crm", "--slots", "2", "--json").document["closed"] is True


def test_the_same_request_id_is_done_once(log: JobLog, cli: Cli) -> None:
    cli("gates", "close", "crm", "--for", "1h")
    for _ in range(2):
        assert cli("gates", "open", "crm", "--request-id", REQUEST).code == 0
    cli("gates", "close", "crm", "--for", "1h")
    assert cli("gates", "open", "crm", "--request-id", REQUEST, "--json").document["closed"] is True

    assert gate_events(log).count("joblog.gate.opened") == 1
    assert cli("gates", "open", "crm", "--request-id", "short").refusal == "invalid-field"


# -- why -------------------------------------------------------------------------------------------------------------


def test_why_names_the_gate_until_when_and_the_job_that_closed_it(log: JobLog, cli: Cli) -> None:
    submit(log)
    closer = told(log)
    behind = submit(log, "behind", gate="crm")

    document = cli("why", behind, "--json").document

    [reason] = document["reasons"]
    assert reason["code"] == "gate-closed"
    assert f"job {closer} was told so" in reason["text"]
    assert "429 (delta)" in reason["text"]
    [position] = reason["evidence"]
    assert log.store.log(position - 1, 1)[0].topic == "joblog.job.retry-scheduled"
    assert reason["until"] is not None


def test_why_names_the_operator_who_closed_it(log: JobLog, cli: Cli) -> None:
    cli("gates", "close", "crm", "--for", "1h", "--reason", "they asked us")
    behind = submit(log, gate="crm")

    [reason] = cli("why", behind, "--json").document["reasons"]

    assert f"{user()} closed it" in reason["text"]
    assert "they asked us" in reason["text"]
    assert log.store.log(reason["evidence"][0] - 1, 1)[0].topic == "joblog.gate.closed"


def test_why_tells_of_a_turn_that_is_kept(log: JobLog, cli: Cli) -> None:
    job_id = submit(log)
    claimed(log).await_gate("crm", unit="", due_at=log.now() + timedelta(hours=1))

    [reason] = cli("why", job_id, "--json").document["reasons"]

    assert reason["code"] == "turn-kept"
    assert "gate crm" in reason["text"]
    assert "waits without a worker until gate crm" in cli("show", job_id, "--events").out
