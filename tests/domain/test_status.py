"""The transition table, walked through the commands (STA-01)."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from joblog.domain.errors import LeaseHeldError, LeaseLostError, StateError, WrongStateError
from joblog.domain.job import Job
from joblog.domain.lease import Token
from joblog.domain.status import CLAIMABLE, ENDED, FINAL, TRANSITIONS, Status
from tests.domain.builders import (
    ADA,
    NOW,
    claim,
    crash,
    every_event,
    frozen,
    in_status,
    lives,
    schedule,
    state,
    through_json,
    units,
)

Command = Callable[[Job, Token], object]

QUEUED, RUNNING, WAITING, PAUSED = Status.QUEUED, Status.RUNNING, Status.WAITING, Status.PAUSED
COMPLETED, FAILED, CANCELLED = Status.COMPLETED, Status.FAILED, Status.CANCELLED

#: command -> (where it is allowed, where it leads, what else answers)
HOLDER: dict[str, tuple[Command, Status]] = {
    "release (yield)": (lambda job, token: job.release(token, cause="yield", now=NOW), QUEUED),
    "release (wait)": (lambda job, token: job.release(token, cause="wait", now=NOW), WAITING),
    "schedule_retry": (schedule, WAITING),
    "park": (lambda job, token: job.park(token, reason="quota", text="", now=NOW), PAUSED),
    "fail": (lambda job, token: job.fail(token, reason="bad", text="", now=NOW), FAILED),
    "complete": (lambda job, token: job.complete(token, now=NOW), COMPLETED),
    "freeze_list": (lambda job, token: job.freeze_list(token, "l", count=1, digest="d", now=NOW), RUNNING),
    "attempt_unit": (lambda job, token: job.attempt_unit(token, "a", now=NOW), RUNNING),
    "complete_units": (lambda job, token: job.complete_units(token, units("a"), now=NOW), RUNNING),
    "skip_unit": (lambda job, token: job.skip_unit(token, "a", code="bad", text="", now=NOW), RUNNING),
}
ANYONE: dict[str, tuple[Command, dict[Status, Status]]] = {
    "claim": (lambda job, _: claim(job), dict.fromkeys((QUEUED, WAITING), RUNNING)),
    "expire": (lambda job, _: crash(job), {RUNNING: QUEUED}),
    "pause": (lambda job, _: job.pause(ADA, now=NOW), {QUEUED: PAUSED, WAITING: PAUSED, RUNNING: RUNNING}),
    "resume": (lambda job, _: job.resume(ADA, now=NOW), {PAUSED: QUEUED, FAILED: QUEUED}),
    "retry_now": (lambda job, _: job.retry_now(ADA, now=NOW), {PAUSED: QUEUED, FAILED: QUEUED}),
    "cancel": (
        lambda job, _: job.cancel(ADA, now=NOW),
        dict.fromkeys((QUEUED, WAITING, PAUSED), CANCELLED) | {RUNNING: RUNNING},
    ),
}


def refusal(command: str, status: Status) -> type[StateError]:
    if command in HOLDER:
        return LeaseLostError
    return LeaseHeldError if (command, status) == ("claim", RUNNING) else WrongStateError


def is_allowed(before: Status, after: Status) -> bool:
    return before is after or after in TRANSITIONS[before]


@pytest.mark.parametrize("status", Status)
def test_every_status_says_where_it_leads_and_why(status: Status) -> None:
    for following, cause in TRANSITIONS[status].items():
        assert isinstance(following, Status)
        assert cause.strip()


def test_the_sets_of_statuses_follow_from_the_table() -> None:
    assert {status for status in Status if RUNNING in TRANSITIONS[status]} == CLAIMABLE
    assert {COMPLETED, CANCELLED} == FINAL
    assert FINAL | {FAILED} == ENDED


@pytest.mark.parametrize("command", [*HOLDER, *ANYONE])
@pytest.mark.parametrize("status", Status)
def test_a_command_leads_where_the_table_says_or_changes_nothing(status: Status, command: str) -> None:
    """STA-01, STA-03, STA-15."""
    if command in HOLDER:
        run, leads_to = HOLDER[command]
        targets = {RUNNING: leads_to}
    else:
        run, targets = ANYONE[command]
    job, token = in_status(status)
    before, version = frozen(job), job.version

    if status in targets:
        run(job, token)
        assert job.status is targets[status]
        assert is_allowed(status, job.status)
        assert job.version > version
        return

    with pytest.raises(refusal(command, status)) as refused:
        run(job, token)
    assert frozen(job) == before
    if isinstance(refused.value, WrongStateError):
        assert (refused.value.status, refused.value.version) == (status.value, version)
        assert f"while {status.value} (version {version})" in str(refused.value)


def test_every_edge_of_the_table_is_walked_by_a_command() -> None:
    walked = {(RUNNING, leads_to) for _, leads_to in HOLDER.values()}
    walked |= {edge for _, targets in ANYONE.values() for edge in targets.items()}
    walked.add((RUNNING, CANCELLED))  # in two events: released, then cancelled

    edges = {(before, after) for before, following in TRANSITIONS.items() for after in following}
    assert {edge for edge in walked if edge[0] is not edge[1]} == edges


def test_each_event_moves_along_the_table() -> None:
    """Also the two events of one command, such as released and then paused."""
    for live in lives():
        job: Job | None = None
        for event in map(through_json, live.pending_events):
            before = job.status if job else QUEUED
            job = event.mutate(job)
            assert job is not None
            assert is_allowed(before, job.status), type(event).__name__
        assert job is not None
        assert state(job) == state(live)
    assert every_event()


@pytest.mark.parametrize("status", [PAUSED, COMPLETED, FAILED, CANCELLED])
def test_what_stands_still_never_runs_by_itself(status: Status) -> None:
    """STA-02: not even a year later."""
    job, _ = in_status(status)

    with pytest.raises(WrongStateError, match="can't claim it while"):
        claim(job, now=NOW + timedelta(days=365))


@pytest.mark.parametrize("status", sorted(FINAL))
def test_nothing_at_all_follows_a_final_status(status: Status) -> None:
    """STA-08, S12."""
    for command in (*HOLDER, *ANYONE):
        job, token = in_status(status)
        before = frozen(job)
        run = HOLDER[command][0] if command in HOLDER else ANYONE[command][0]
        with pytest.raises(StateError):
            run(job, token)
        assert frozen(job) == before
