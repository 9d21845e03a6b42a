"""Submitting inside the application's own transaction: counted once it commits, and once only."""

import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timezone
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.orm import Session

from joblog.domain.errors import InputError, InvalidFieldError, JobNotFoundError, StoreBusyError
from joblog.domain.retry import RetryPolicy
from joblog.domain.spec import JobSpec
from joblog.eventstore import schema
from joblog.workers.commands import outbox
from joblog.workers.commands.log import JobLog
from tests.clocks import START, MovedClock
from tests.conformance.backends import Backend, MemoryBackend
from tests.conformance.builders import armed, claim, ids, whole_log
from tests.workers.commands.application import ORDERS, order, waiting
from tests.workers.commands.builders import HOUR, assert_sound, topics


@pytest.fixture
def log(database: Backend) -> Iterator[JobLog]:
    log = database.open()
    yield log
    assert_sound(database.reopen(log))


def test_what_is_rolled_back_never_was(log: JobLog, app: sa.Engine) -> None:
    with app.connect() as connection, connection.begin() as transaction:
        connection.execute(sa.insert(ORDERS).values(id=1))
        job_id = log.submit_in(connection, JobSpec("import"))
        transaction.rollback()

    assert (log.drain_outbox(), log.store.head()) == (0, 0)
    with pytest.raises(JobNotFoundError):
        log.row(job_id)


def test_what_is_committed_becomes_a_job(log: JobLog, app: sa.Engine) -> None:
    spec = JobSpec("import", {"order": 1}, key="k")
    job_id = order(log, app, spec)

    assert job_id == spec.job_id
    assert log.store.head() == 0
    assert log.drain_outbox() == 1
    assert (log.drain_outbox(), waiting(app)) == (0, 0)
    assert topics(log, job_id) == ["submitted"]
    assert log.job(job_id).args == {"order": 1}
    assert ids(claim(log)) == [job_id]


def test_until_then_it_reads_as_queued(log: JobLog, app: sa.Engine) -> None:
    with app.begin() as connection:
        job_id = log.submit_in(connection, JobSpec("import", tenant="acme"))
        with pytest.raises(JobNotFoundError):
            log.row(job_id)  # others see it once it is committed

    row = log.row(job_id)
    assert (row["status"], row["in_outbox"], row["kind"], row["tenant"]) == ("queued", True, "import", "acme")
    for tenant in ("acme", None):
        assert log.row(job_id, tenant=tenant)["in_outbox"]
    with pytest.raises(JobNotFoundError):
        log.row(job_id, tenant="default")
    log.drain_outbox()
    assert "in_outbox" not in log.row(job_id)


def test_a_job_that_is_moved_between_two_looks_is_seen(log: JobLog, app: sa.Engine) -> None:
    job_id = order(log, app, JobSpec("import"))
    look = log.store.outbox_spec

    def late(job_id: UUID) -> str | None:
        log.store.outbox_spec = look  # type: ignore[method-assign]
        log.drain_outbox()
        return look(job_id)

    log.store.outbox_spec = late  # type: ignore[method-assign]

    assert log.row(job_id)["status"] == "queued"


def test_jobs_are_moved_in_the_order_of_their_ids(log: JobLog, app: sa.Engine) -> None:
    jobs = [order(log, app, JobSpec("import"), number) for number in range(12)]

    assert [log.drain_outbox(limit=5) for _ in range(4)] == [5, 5, 2, 0]
    assert [event.stream_id for event in whole_log(log.store)] == jobs


def test_a_session_of_the_orm_will_do(log: JobLog, app: sa.Engine) -> None:
    with Session(app) as session:
        job_id = log.submit_in(session.connection(), JobSpec("import"))
        session.commit()

    assert log.drain_outbox() == 1
    assert log.row(job_id)["status"] == "queued"


@pytest.mark.parametrize("what", [None, "engine", object()])
def test_anything_else_is_refused(log: JobLog, app: sa.Engine, what: Any) -> None:
    given: Any = app if what == "engine" else what

    with pytest.raises(InvalidFieldError, match=r"is no SQLAlchemy connection; pass engine\.begin"):
        log.submit_in(given, JobSpec("import"))


def test_arguments_are_checked_before_anything_is_written(log: JobLog, app: sa.Engine) -> None:
    with app.begin() as connection, pytest.raises(InputError, match="args"):
        log.submit_in(connection, JobSpec("import", {"rows": float("nan")}))

    assert waiting(app) == 0


def test_the_same_key_twice_is_the_same_job(log: JobLog, app: sa.Engine) -> None:
    first = order(log, app, JobSpec("import", key="k"), 1)
    second = order(log, app, JobSpec("import", key="k"), 2)

    assert first == second
    assert log.drain_outbox() == 2
    assert topics(log, first) == ["submitted"]


def test_a_key_that_stands_for_other_arguments_is_moved_out_and_reported(
    log: JobLog, app: sa.Engine, caplog: pytest.LogCaptureFixture
) -> None:
    """Its submitter was told the id of the job that stands."""
    log.submit(JobSpec("import", {"n": 1}, key="k"))
    job_id = order(log, app, JobSpec("import", {"n": 2}, key="k"))

    with caplog.at_level(logging.WARNING):
        assert log.drain_outbox() == 1

    assert f"job {job_id}: idempotency key 'k' already stands for other arguments" in caplog.text
    assert (waiting(app), log.job(job_id).args) == (0, {"n": 1})


@pytest.mark.parametrize("spec", ["", "[]", "{}", '{"kind": "import"}', "from newer code", '{"tags": 1, "retry": {}}'])
def test_a_row_that_can_not_be_read_stays_and_stands_in_nobodys_way(
    log: JobLog, app: sa.Engine, caplog: pytest.LogCaptureFixture, spec: str
) -> None:
    with app.begin() as connection:
        for number in range(3):
            connection.execute(sa.insert(schema.outbox).values(job_id=UUID(int=number + 1), spec=spec))
    job_id = order(log, app, JobSpec("import"))

    with caplog.at_level(logging.WARNING):
        assert log.drain_outbox(limit=2) == 1

    assert log.row(job_id)["status"] == "queued"
    assert waiting(app) == 3
    assert "outbox row 1 can't be read and stays" in caplog.text
    with pytest.raises(JobNotFoundError):
        log.row(UUID(int=1))


def test_a_log_that_can_not_take_it_leaves_it_in_the_outbox(log: JobLog, app: sa.Engine) -> None:
    job_id = order(log, app, JobSpec("import"))

    def refuse() -> None:
        raise StoreBusyError("not now")

    with armed("append.begin", refuse):
        assert log.drain_outbox() == 0

    assert log.row(job_id)["in_outbox"]
    assert log.drain_outbox() == 1


def test_the_applications_connection_to_the_logs_file_makes_no_checkpoints(
    log: JobLog, app: sa.Engine, elsewhere: sa.Engine, database: Backend
) -> None:
    """SQLite 3.7.0 to 3.51.2: a checkpoint by one connection while another writes can lose commits."""
    if database.kind != "sqlite":
        pytest.skip("there is no WAL file of ours")
    for engine, pages in ((app, 0), (elsewhere, 1000)):
        with engine.begin() as connection:
            log.submit_in(connection, JobSpec("import"))
            assert connection.exec_driver_sql("PRAGMA wal_autocheckpoint").scalar() == pages


def test_a_store_in_memory_has_no_outbox() -> None:
    with MemoryBackend("memory://", MovedClock()).open() as log:
        assert log.drain_outbox() == 0


INSTANTS = st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1), timezones=st.sampled_from([UTC, timezone(HOUR)]))  # noqa: DTZ001
NAMES = st.text(st.characters(categories=("L", "N", "P")), min_size=1, max_size=20)
PAYLOADS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    name=NAMES,
    args=PAYLOADS,
    due_at=st.none() | INSTANTS,
    tags=st.lists(NAMES, max_size=3).map(tuple),
    retries=st.integers(0, 9),
    total=st.none() | st.integers(0, 2**40),
    parent_id=st.none() | st.uuids(),
)
def test_a_spec_comes_back_from_its_row(
    name: str,
    args: Any,
    due_at: datetime | None,
    tags: tuple[str, ...],
    retries: int,
    total: int | None,
    parent_id: UUID,
) -> None:
    try:
        spec = JobSpec(
            name, args, key=name, tenant=name, owner=name, queue=name, priority=3, due_at=due_at, exclusive_key=name,
            gate=name, tags=tags, retry=RetryPolicy(retries=retries, first_seconds=0.5), total=total, parent_id=parent_id,
        )  # fmt: skip
    except InputError:
        return  # what is refused at the edge needs no row

    again = outbox.from_json(outbox.to_json(spec))

    assert again == spec
    assert (again.job_id, again.args_digest) == (spec.job_id, spec.args_digest)
    assert again.to_event(START) == spec.to_event(START)
