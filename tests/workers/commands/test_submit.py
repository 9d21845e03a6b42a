"""Handing in one job: once per (tenant, kind, key), whatever happens to the answer."""

from datetime import datetime, timedelta
from uuid import UUID, uuid4

import pytest

from joblog.domain.errors import (
    InvalidFieldError,
    JobNotFoundError,
    KeyConflictError,
    SecretInInputError,
    StoreUnavailableError,
    TooLargeError,
    UnknownOutcomeError,
)
from joblog.domain.spec import JobSpec
from joblog.eventstore import failpoint
from joblog.workers.commands.log import JobLog
from tests.clocks import START
from tests.conformance.backends import Backend
from tests.conformance.builders import armed, claim, claimed, ids, once, whole_log
from tests.workers.commands.builders import HOUR, SECOND, events, last, topics


def test_a_job_is_in_the_log_once_it_is_submitted(log: JobLog) -> None:
    spec = JobSpec("import", {"file": "a.csv"}, key="k", tags=("x", "y"), total=3)

    answer = log.submit(spec)

    assert answer == (spec.job_id, True, 1)
    job, row = log.job(spec.job_id), log.row(spec.job_id)
    assert (job.kind, job.args, job.key, job.tags, job.total) == ("import", {"file": "a.csv"}, "k", ["x", "y"], 3)
    assert (row["kind"], row["status"], row["total"], row["tags"]) == ("import", "queued", 3, '["x","y"]')
    assert [held.kind for held in claim(log)] == ["import"]


def test_the_same_again_is_the_same_job(log: JobLog) -> None:
    log.submit(JobSpec("other", key="k"))
    first = log.submit(JobSpec("import", {"n": 1}, key="k"))

    again = log.submit(JobSpec("import", {"n": 1}, key="k", priority=0, queue="quick"))

    assert again == (first.job_id, False, first.position) == (first.job_id, False, 2)
    assert log.row(first.job_id)["priority"] == 5
    assert log.store.head() == 2


def test_the_same_again_finds_a_job_that_has_ended(log: JobLog) -> None:
    spec = JobSpec("import", key="k")
    log.submit(spec)
    claim(log)[0].complete()

    assert log.submit(spec).created is False
    assert log.row(spec.job_id)["status"] == "completed"


def test_a_key_that_stands_for_other_arguments_is_refused(log: JobLog) -> None:
    first = log.submit(JobSpec("import", {"n": 1}, key="k"))

    with pytest.raises(KeyConflictError, match="'k' already stands for other arguments") as refused:
        log.submit(JobSpec("import", {"n": 2}, key="k"))

    assert refused.value.job_id == first.job_id
    assert log.job(first.job_id).args == {"n": 1}


def test_the_order_of_the_arguments_names_is_none_of_their_meaning(log: JobLog) -> None:
    log.submit(JobSpec("import", {"a": 1, "b": 2}, key="k"))

    assert log.submit(JobSpec("import", {"b": 2, "a": 1}, key="k")).created is False


@pytest.mark.parametrize("other", [{"tenant": "acme"}, {"kind": "export"}, {"key": "k2"}])
def test_another_tenant_kind_or_key_is_another_job(log: JobLog, other: dict[str, str]) -> None:
    fields = {"kind": "import", "key": "k"}
    first = log.submit(JobSpec(**fields))  # type: ignore[arg-type]

    assert log.submit(JobSpec(**fields | other)).job_id != first.job_id  # type: ignore[arg-type]


def test_without_a_key_each_is_a_job_of_its_own(log: JobLog) -> None:
    spec = JobSpec("import")

    first, second = log.submit(spec), log.submit(spec)

    assert first.job_id != second.job_id
    assert (first.created, second.created) == (True, True)
    assert log.job(first.job_id).key != log.job(second.job_id).key


def test_a_child_of_another_kind_under_the_same_key_is_refused(log: JobLog) -> None:
    """A child's id follows from parent and key alone."""
    parent = uuid4()
    log.submit(JobSpec("resize", key="k", parent_id=parent))

    assert log.submit(JobSpec("resize", key="k", parent_id=parent)).created is False
    for other in ({"kind": "send"}, {"kind": "resize", "tenant": "acme"}):
        with pytest.raises(KeyConflictError):
            log.submit(JobSpec(key="k", parent_id=parent, **other))  # type: ignore[arg-type]


def test_a_job_of_the_future_is_not_claimed_before_its_instant(log: JobLog, backend: Backend) -> None:
    """LEA-02, with the boundary."""
    job_id = log.submit(JobSpec("import", due_at=START + HOUR)).job_id

    assert log.promote() == (0, START + HOUR)
    assert claim(log) == []
    backend.clock.move(3600, micros=-1)
    assert (log.promote()[0], claim(log)) == (0, [])
    backend.clock.move(micros=1)
    assert log.promote() == (1, None)
    assert ids(claim(log)) == [job_id]


def test_instants_are_stored_in_utc(log: JobLog) -> None:
    """REC-07: a zone of its own names the same moment."""
    given = datetime.fromisoformat("2030-01-01T05:30:00+05:30")

    job_id = log.submit(JobSpec("import", due_at=given)).job_id

    assert log.job(job_id).due_at == START
    assert last(log, job_id)["due_at"].utcoffset() == timedelta(0)


def test_a_naive_instant_is_refused(log: JobLog) -> None:
    with pytest.raises(InvalidFieldError, match="due_at"):
        log.submit(JobSpec("import", due_at=datetime(2030, 1, 1)))  # noqa: DTZ001 - that is the fault


def test_what_may_not_be_kept_is_refused_before_anything_is_written(log: JobLog) -> None:
    """REC-02, REC-03: references only, without secrets."""
    for args, error in (
        ({"document": "x" * 5_000_000}, TooLargeError),
        ({"url": "https://u:p@h/x?token=T#f"}, SecretInInputError),
    ):
        with pytest.raises(error):
            log.submit(JobSpec("import", args))
    assert log.store.head() == 0


def test_the_log_keeps_no_more_than_was_handed_in(log: JobLog) -> None:
    """REC-17: the first event is the whole job; it names every field, and no other."""
    job_id = log.submit(JobSpec("import", {"file": "a"}, key="k", owner="ada", gate="crm", exclusive_key="e")).job_id

    fields = last(log, job_id)
    assert set(fields) == {
        "originator_id", "originator_version", "originator_topic", "timestamp", "event_id", "kind", "tenant", "owner",
        "queue", "priority", "args", "args_digest", "key", "due_at", "exclusive_key", "gate", "tags", "retry", "total",
        "parent_id",
    }  # fmt: skip
    assert (fields["owner"], fields["gate"], fields["exclusive_key"]) == ("ada", "crm", "7:default/e")


def test_type_owner_and_tenant_never_change(log: JobLog, backend: Backend) -> None:
    """REC-01, REC-10: whatever happens to the job; its instants never go back."""
    spec = JobSpec("import", key="k", owner="ada", tenant="acme")
    log.submit(spec)
    before = {name: log.row(spec.job_id)[name] for name in ("kind", "owner", "tenant", "created_at")}
    for _ in range(2):
        backend.clock.move(1)
        held = claim(log)[0]
        held.release("yield")
    backend.clock.move(1)
    held = claim(log)[0]
    backend.clock.move(1)
    held.complete()

    row = log.row(spec.job_id)
    assert {name: row[name] for name in before} == before
    times = [row[name] for name in ("created_at", "started_at", "last_attempt_at", "finished_at")]
    assert times == [times[0] + seconds * 1_000_000 for seconds in (0, 1, 3, 4)]
    assert row["updated_at"] == row["finished_at"]
    assert [event.timestamp for event in events(log, spec.job_id)] == [
        START + n * SECOND for n in (0, 1, 1, 2, 2, 3, 4)
    ]


def test_counters_are_kept_apart(log: JobLog, backend: Backend) -> None:
    """REC-06: per unit, per life, and of takeovers."""
    job_id = log.submit(JobSpec("import")).job_id
    held = claim(log)[0]
    held.attempt_unit("a")
    backend.clock.move(31)
    log.expire("reaper")
    held = claim(log)[0]
    held.attempt_unit("a")
    assert {name: log.row(job_id)[name] for name in ("attempt", "unit_attempt", "crashes", "reclaims")} == {
        "attempt": 2, "unit_attempt": 2, "crashes": 1, "reclaims": 1,
    }  # fmt: skip

    held.complete_units([("a", None)])

    row = log.row(job_id)
    assert (row["attempt"], row["unit_attempt"], row["crashes"], row["reclaims"]) == (2, 0, 0, 1)


def test_an_answer_that_was_lost_is_found_in_the_log(log: JobLog, backend: Backend) -> None:
    spec = JobSpec("import", key="k")

    with armed("append.after_commit", once(backend.lost())):
        answer = log.submit(spec)

    assert (answer.job_id, answer.created, answer.position) == (spec.job_id, True, 1)
    assert log.store.head() == 1


def test_an_answer_that_stays_unknown_is_said_to_be_unknown(log: JobLog, backend: Backend) -> None:
    """Submitting the same again then finds out; no second job is made."""
    spec = JobSpec("import", key="k")
    failpoint.arm("append.diagnosing", lambda: (_ for _ in ()).throw(StoreUnavailableError("still away")))

    def always() -> None:
        raise backend.lost()

    with armed("append.after_commit", always), pytest.raises(UnknownOutcomeError):
        log.submit(spec)

    assert log.submit(spec) == (spec.job_id, False, 1)


def test_a_job_is_visible_to_its_tenant_only(log: JobLog) -> None:
    """REC-13: for others it does not exist."""
    job_id = log.submit(JobSpec("import", tenant="acme")).job_id

    assert log.job(job_id, tenant="acme").tenant == log.row(job_id, tenant="acme")["tenant"] == "acme"
    for read in (log.job, log.row):
        with pytest.raises(JobNotFoundError) as foreign:
            read(job_id, tenant="default")
        with pytest.raises(JobNotFoundError) as missing:
            read(UUID(int=0), tenant="default")
        assert str(foreign.value) == str(missing.value).replace(str(UUID(int=0)), str(job_id))


def test_an_exhausted_job_stays_for_ever(log: JobLog, backend: Backend) -> None:
    """REC-15: also after a restart."""
    job_id = log.submit(JobSpec("import")).job_id
    claim(log)[0].park(reason="attempts-exhausted", text="5 tries")
    backend.clock.move(365 * 86_400)

    again = backend.reopen(log)

    assert (again.row(job_id)["status"], again.promote(), claim(again)) == ("paused", (0, None), [])
    assert topics(again, job_id) == ["submitted", "claimed", "paused"]
    assert len(whole_log(again.store)) == 3


def test_errors_are_kept_bounded(log: JobLog) -> None:
    """REC-08: the newest ones, and how many are gone."""
    held = claimed(log)
    for number in range(30):
        held.skip_unit(f"u{number}", code="bad-row", text="x" * 10_000)

    job = log.job(held.job_id)
    assert (len(job.errors), job.errors_dropped) == (20, 10)
    assert [entry["unit"] for entry in job.errors] == [f"u{number}" for number in range(10, 30)]
    assert max(len(entry["text"]) for entry in job.errors) == 500
