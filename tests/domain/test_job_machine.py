"""Random lives of a job against an independent model; old tokens stay usable, as zombies (S5-S12, S15)."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, precondition, rule

from joblog.domain import errors as err
from joblog.domain import events as e
from joblog.domain.job import Job, fold
from joblog.domain.lease import Token
from joblog.domain.retry import RetryPolicy
from joblog.domain.spec import JobSpec
from joblog.domain.status import CLAIMABLE, ENDED, FINAL, TRANSITIONS, Status
from tests.domain.builders import (
    ADA,
    NOW,
    a_spec,
    claim,
    crash,
    frozen,
    schedule,
    state,
    through_json,
    units,
)
from tests.domain.job_model import Answer, JobModel
from tests.domain.test_snapshot import snapshot_through_json
from tests.domain.test_status import HOLDER

UNIT_EVENTS = (e.UnitAttempted, e.UnitCompleted, e.UnitSkipped, e.CheckpointAdvanced, e.ListFrozen)
WAITS = st.integers(-5, 90).map(lambda seconds: timedelta(seconds=seconds))


SPECS = st.builds(
    a_spec,
    total=st.none() | st.integers(0, 6),
    retry=st.builds(RetryPolicy, retries=st.integers(0, 3)),
    due_at=WAITS.map(NOW.__add__),
)


def is_running(machine: "JobMachine") -> bool:
    return machine.job.status is Status.RUNNING


def is_claimable(machine: "JobMachine") -> bool:
    return machine.job.status in CLAIMABLE


def is_final(machine: "JobMachine") -> bool:
    return machine.job.status in FINAL


def is_alive(machine: "JobMachine") -> bool:
    return not is_final(machine)


class JobMachine(RuleBasedStateMachine):
    tokens = Bundle("tokens")

    @initialize(target=tokens, spec=SPECS)
    def submit(self, spec: JobSpec) -> Token:
        return self.start(spec)

    @precondition(is_final)
    @rule(target=tokens, spec=SPECS)
    def submit_another(self, spec: JobSpec) -> Token:
        self.teardown()
        return self.start(spec)

    def start(self, spec: JobSpec) -> Token:
        self.now = NOW
        self.job = Job.submit(spec, now=NOW)
        self.model = JobModel(self.job.due_at, total=spec.total, attempts=spec.retry.max_attempts)
        self.finished: set[int] = set()
        self.lived: list[tuple[int, dict[str, Any]]] = []
        return Token(1, 99)

    def both(self, expected: Answer, command: Callable[[], object]) -> bool:
        """Do it; refused exactly where the model says so, and then without a trace."""
        if expected is None:
            version = self.job.version
            command()
            assert self.job.version > version
            return True
        before = frozen(self.job)
        with pytest.raises(expected):
            command()
        assert frozen(self.job) == before
        return False

    @rule(seconds=st.integers(1, 60))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @precondition(is_alive)
    @rule(target=tokens)
    def claim(self) -> Token:
        return self.claimed()

    @precondition(is_claimable)
    @rule(target=tokens)
    def wait_and_claim(self) -> Token:
        self.now = max(self.now, self.job.due_at)
        return self.claimed()

    def claimed(self) -> Token:
        self.both(self.model.claim(self.now), lambda: claim(self.job, now=self.now))
        return self.token

    @precondition(is_running)
    @rule(counts=st.booleans())
    def die(self, *, counts: bool) -> None:
        self.model.expire(self.now, counts=counts)
        self.both(None, lambda: crash(self.job, counts=counts, now=self.now))

    @rule(token=tokens)
    def come_back_as_a_zombie(self, token: Token) -> None:
        """S6: with a token of before, or of another job."""
        if self.model.is_lost(token.grant):
            for command in HOLDER:
                run, _ = HOLDER[command]
                self.both(err.LeaseLostError, partial(run, self.job, token))

    @precondition(is_running)
    @rule(ahead=st.integers(0, 2), behind=st.integers(0, 5))
    def attempt(self, ahead: int, behind: int) -> None:
        """By a process whose clock is *behind*."""
        unit, now = str(self.job.sequence + ahead), self.now - timedelta(seconds=behind)
        expected = self.model.attempt(unit)
        self.both(expected, lambda: self.job.attempt_unit(self.token, unit, now=now))

    @precondition(is_running)
    @rule(
        ahead=st.sets(st.integers(0, 3), max_size=3),
        late=st.booleans(),
        wrong=st.sampled_from([0, 0, 0, 0, 1, -9]),
        tallies=st.none() | st.fixed_dictionaries({"rows": st.integers(0, 9)}),
    )
    def complete_units(self, ahead: set[int], *, late: bool, wrong: int, tallies: dict[str, int] | None) -> None:
        """In and out of order; *late* leaves the checkpoint for a later call, *wrong* is covered by no units."""
        new = sorted({self.job.sequence + each for each in ahead} - self.finished)
        advance = (0 if late else self.grown(new)) + wrong
        names = [str(unit) for unit in new]
        if (new or advance or tallies) and self.both(
            self.model.settle(names, "done", advance, tallies),
            lambda: self.job.complete_units(self.token, units(*names), now=self.now, advance=advance, tallies=tallies),
        ):
            self.finished |= set(new)

    @precondition(is_running)
    @rule(ahead=st.integers(0, 2))
    def skip_unit(self, ahead: int) -> None:
        unit = self.job.sequence + ahead
        advance = self.grown([unit])
        if unit not in self.finished and self.both(
            self.model.settle([str(unit)], "skipped", advance),
            lambda: self.job.skip_unit(self.token, str(unit), code="bad", text="bad", now=self.now, advance=advance),
        ):
            self.finished.add(unit)

    def grown(self, new: list[int]) -> int:
        """By how many units the finished prefix grows with *new* ones."""
        end = self.job.sequence
        while end in self.finished or end in new:
            end += 1
        return end - self.job.sequence

    @property
    def token(self) -> Token:
        return Token(1, self.job.token)

    @precondition(is_running)
    @rule(ahead=st.integers(0, 2), wait=WAITS)
    def schedule_retry(self, ahead: int, wait: timedelta) -> None:
        unit, at = str(self.job.sequence + ahead), self.now + wait
        expected = self.model.retry(unit, at, self.now)
        self.both(expected, lambda: schedule(self.job, self.token, unit, at=at, now=self.now))

    @precondition(is_running)
    @rule(ahead=st.integers(0, 2), wait=st.none() | WAITS)
    def await_gate(self, ahead: int, wait: timedelta | None) -> None:
        unit, at = str(self.job.sequence + ahead), None if wait is None else self.now + wait
        expected = self.model.await_gate(unit, at, self.now)
        self.both(expected, lambda: self.job.await_gate(self.token, "crm", unit=unit, now=self.now, due_at=at))

    @precondition(is_running)
    @rule(how=st.sampled_from(["yield", "shutdown", "wait", "child", "park", "park", "fail"]), wait=st.none() | WAITS)
    def stop(self, how: str, wait: timedelta | None) -> None:
        at = None if wait is None else self.now + wait
        ends = {"wait": "waiting", "child": "waiting", "park": "paused", "fail": "failed"}.get(how, "queued")
        expected = self.model.end(ends, self.now, at)
        if how == "park":
            run = partial(self.job.park, self.token, reason="quota", text="", not_before=at)
        elif how == "fail":
            run = partial(self.job.fail, self.token, reason="bad", text="")
        else:
            run = partial(self.job.release, self.token, cause=how, due_at=at)
        self.both(expected, partial(run, now=self.now))
        self.model.waits_for_child = how == "child"

    @precondition(is_running)
    @rule()
    def complete(self) -> None:
        expected = self.model.end("completed", self.now)
        self.both(expected, lambda: self.job.complete(self.token, now=self.now))

    @rule()
    def a_child_ends(self) -> None:
        expected = self.model.wake(self.now)
        assert self.job.wake(self.job.id, Status.COMPLETED, now=self.now) is expected

    @precondition(is_alive)
    @rule(command=st.sampled_from(["pause", "pause", "resume", "resume", "resume", "retry_now", "retry_now", "cancel"]))
    def operator(self, command: str) -> None:
        expected = self.model.ask(command, self.now)
        self.both(expected, lambda: getattr(self.job, command)(ADA, now=self.now))

    @invariant()
    def the_job_is_what_the_model_says(self) -> None:
        assert {fact: getattr(self.job, fact) for fact in self.model.facts} | {"tries": None} == (
            self.model.facts | {"tries": None}
        )
        assert {unit: tuple(tried) for unit, tried in self.job.tries.items()} == self.model["tries"]
        assert self.job.token == len(self.model.grants)
        assert (self.job.lease is None) == (self.job.status is not Status.RUNNING)
        self.lived.append((self.job.version, state(self.job)))

    @invariant()
    def the_log_keeps_its_promises(self) -> None:
        check_log(self.job.pending_events)

    def teardown(self) -> None:
        happened = [through_json(event) for event in self.job.pending_events]
        for version, lived in self.lived:
            assert state(replay(happened[:version])) == lived
        for version in range(1, len(happened) + 1):
            taken = snapshot_through_json(replay(happened[:version]))
            assert state(replay([taken, *happened[version:]])) == state(self.job)


def replay(happened: list[Any]) -> Job:
    job = fold(None, happened)
    assert job is not None
    return job


def check_log(log: list[Any]) -> None:
    """S5 to S12, judged by the events alone."""
    job: Job | None = None
    newest, sequence, settled, not_before, last = 0, 0, 0, NOW - timedelta(days=1), NOW
    for number, event in enumerate(log, 1):
        before = job.status if job else Status.QUEUED
        job = event.mutate(job)
        assert job is not None
        assert event.originator_version == number
        assert event.timestamp >= last
        assert job.status is before or job.status in TRANSITIONS[before]
        last = event.timestamp
        if isinstance(event, UNIT_EVENTS):
            assert before is Status.RUNNING
        if before in ENDED:
            assert isinstance(event, e.Resumed)
        match event:
            case e.Claimed():
                assert event.token == newest + 1
                assert event.timestamp >= not_before
                newest = event.token
            case e.UnitCompleted() | e.UnitSkipped():
                settled += 1
            case e.CheckpointAdvanced():
                assert sequence <= event.sequence <= settled
                sequence = event.sequence
            case e.Completed():
                assert sequence == settled
            case e.Resumed(cause="retry"):
                not_before = event.due_at
            case e.Woken():
                not_before = event.timestamp
        assert job.due_at >= not_before
        not_before = job.due_at


TestJobMachine = JobMachine.TestCase
TestJobMachine.settings = settings(max_examples=4 * settings.default.max_examples, stateful_step_count=50)  # type: ignore[union-attr]
