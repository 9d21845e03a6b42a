"""Random lives of many jobs, driven through the public door: everything that can happen to a row happens in them."""

from contextlib import suppress
from datetime import timedelta
from typing import Any

import orjson
from hypothesis import strategies as st

from joblog.domain.errors import JobLogError
from joblog.domain.job import Actor, Job
from joblog.domain.retry import RetryPolicy
from joblog.domain.spec import JobSpec
from joblog.eventstore.schema import HINTS
from joblog.eventstore.store import RowChange
from joblog.projections.job_table import micros
from joblog.workers.commands.held import Held
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import whole_log

Rows = dict[Any, dict[str, Any]]
ADA = Actor("ada")
ACTIONS = (
    "submit", "child", "claim", "claim", "attempt", "complete units", "late units", "advance", "skip", "freeze", "retry later",
    "yield", "wait", "park", "fail", "complete", "pause", "resume", "retry", "cancel", "bulk", "pause queue", "tick", "expire",
    "reboot", "promote", "wait for a child", "await gate",
)  # fmt: skip
STEPS = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 11)), min_size=5, max_size=30)


class History:
    """A log under random commands; what is refused changes nothing."""

    def __init__(self, backend: Backend, log: JobLog) -> None:
        self.backend, self.log = backend, log
        self.held: list[Held] = []
        self.jobs: list[Any] = []

    def do(self, action: str, number: int) -> None:
        with suppress(JobLogError):
            getattr(self, "do_" + action.replace(" ", "_"))(number)

    def _submit(self, number: int, **more: Any) -> None:
        spec = JobSpec(
            "import",
            {"n": number},
            tenant=f"t{number % 2}",
            priority=number % 10,
            exclusive_key="x" if number % 5 == 0 else "",
            gate="g" if number % 3 == 0 else "",
            total=3 if number % 4 == 0 else None,
            due_at=self.log.now() + timedelta(seconds=number % 3),
            retry=RetryPolicy(first_seconds=1, retries=number % 3),
            tags=("x",),
            **more,
        )
        self.jobs.append(self.log.submit(spec).job_id)

    def do_submit(self, number: int) -> None:
        self._submit(number)

    def do_child(self, number: int) -> None:
        if self.jobs:
            self._submit(number, parent_id=self.jobs[number % len(self.jobs)])

    def do_claim(self, number: int) -> None:
        self.log.promote()
        self.held += self.log.claim(f"w{number}", limit=1 + number % 3)

    def one(self, number: int) -> Held | None:
        """A job that is held, or was; a late holder is refused."""
        return self.held[-1 - number % min(len(self.held), 4)] if self.held else None

    def with_held(self, number: int, command: str, *args: Any, **more: Any) -> None:
        if (held := self.one(number)) is not None:
            getattr(held, command)(*args, **more)

    def do_attempt(self, number: int) -> None:
        self.with_held(number, "attempt_unit", f"u{number}")

    def do_complete_units(self, number: int) -> None:
        units = [(f"u{number}-{n}", n) for n in range(1 + number % 2)]
        self.with_held(number, "complete_units", units, cursor={"at": number}, tallies={"rows": number})

    def do_late_units(self, number: int) -> None:
        self.with_held(number, "complete_units", [(f"late{number}", None)], advance=0, cursor=number)

    def do_advance(self, number: int) -> None:
        self.with_held(number, "complete_units", [], advance=1)

    def do_skip(self, number: int) -> None:
        self.with_held(number, "skip_unit", f"s{number}", code="bad-row", text="line\0")

    def do_freeze(self, number: int) -> None:
        self.with_held(number, "freeze_list", "rows", count=number, digest="d")

    def do_retry_later(self, number: int) -> None:
        self.with_held(number, "schedule_retry", f"u{number}", category="network", text="reset")

    def do_yield(self, number: int) -> None:
        self.with_held(number, "release", "yield")

    def do_wait(self, number: int) -> None:
        due_at = self.log.now() + timedelta(seconds=number)
        self.with_held(number, "release", "child" if number % 2 else "wait", due_at=due_at)

    def do_await_gate(self, number: int) -> None:
        due_at = self.log.now() + timedelta(seconds=number) if number % 2 else None
        self.with_held(number, "await_gate", f"g{number}", unit=f"u{number}" if number % 3 else "", due_at=due_at)

    def do_wait_for_a_child(self, number: int) -> None:
        if (parent := self.one(number)) is not None:
            self._submit(number, parent_id=parent.job_id)
            parent.release("child", due_at=self.log.now() + timedelta(seconds=60))
            for held in self.log.claim("w", limit=2):
                held.complete()

    def do_park(self, number: int) -> None:
        not_before = self.log.now() + timedelta(seconds=number) if number % 2 else None
        self.with_held(number, "park", reason="quota", text="none left", not_before=not_before)

    def do_fail(self, number: int) -> None:
        self.with_held(number, "fail", reason="invalid-input", text="no such file", unit="u")

    def do_complete(self, number: int) -> None:
        self.with_held(number, "complete", {"n": number})

    def _command(self, action: str, number: int) -> None:
        if self.jobs:
            self.log.command(action, self.jobs[number % len(self.jobs)], ADA)

    def do_pause(self, number: int) -> None:
        self._command("pause", number)

    def do_resume(self, number: int) -> None:
        self._command("resume", number)

    def do_retry(self, number: int) -> None:
        self._command("retry", number)

    def do_cancel(self, number: int) -> None:
        self._command("cancel", number)

    def do_bulk(self, number: int) -> None:
        self.log.command_queue("default", ("pause", "resume", "retry")[number % 3], ADA)

    def do_pause_queue(self, number: int) -> None:
        self.log.control_queue("default", "pause" if number % 4 == 0 else "resume", ADA)

    def do_tick(self, number: int) -> None:
        self.backend.clock.move(number)

    def do_expire(self, number: int) -> None:
        self.backend.clock.move(31)
        self.log.expire(f"reaper{number}")

    def do_reboot(self, number: int) -> None:
        if self.log.store.boot_id():
            self.backend.clock.reboot()
        self.log.expire(f"reaper{number}")

    def do_promote(self, number: int) -> None:
        self.log.promote(1 + number)


def rows_of(log: JobLog) -> Rows:
    """Every job's row, without the hints of the claim index."""
    jobs = {event.stream_id for event in whole_log(log.store)}
    return {job: bare(row) for job, row in log.store.jobs(list(jobs)).items()}


def bare(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in HINTS}


def applied(rows: Rows, changes: list[RowChange]) -> Rows:
    """What a store makes of the changes: whole new rows, columns of rows that are there, nothing else."""
    made = {job: dict(row) for job, row in rows.items()}
    for job_id, is_new, row in changes:
        if is_new:
            assert job_id not in made
            made[job_id] = bare(row)
        elif job_id in made:
            made[job_id] |= bare(row)
    return made


def as_row(job: Job) -> dict[str, Any]:
    """The row that the job itself would write: told by its replay, not by the projection."""
    instants = {"started_at": job.started_on, "last_attempt_at": job.last_attempt_on, "finished_at": job.finished_on}
    same = (
        "id", "version", "kind", "tenant", "owner", "queue", "priority", "gate", "exclusive_key", "parent_id", "key",
        "args_digest", "outcome", "reason", "reason_text", "token", "attempt", "unit_attempt", "crashes", "reclaims",
        "failures", "done", "skipped", "total", "sequence",
    )  # fmt: skip
    row = {name: getattr(job, name) for name in same}
    row |= {name: None if at is None else micros(at) for name, at in instants.items()}
    row |= {"created_at": micros(job.created_on), "updated_at": micros(job.modified_on), "due_at": micros(job.due_at)}
    row |= {"status": job.status.value, "wish": job.wish.value, "worker": job.lease.worker if job.lease else ""}
    row |= {"tags": orjson.dumps(job.tags).decode(), "vocabulary": 1}
    return row | {"cursor": None if job.cursor is None else orjson.dumps(job.cursor).decode()}
