"""What is true of PostgreSQL only: row locks, round trips, wake-ups, poolers, servers that are refused or restarted."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import errors as pg
from sqlalchemy.engine import make_url

from joblog.domain.errors import (
    CorruptLogError,
    LeaseLostError,
    StoreBusyError,
    StoreError,
    StoreForkedError,
    StoreFullError,
    StoreUnavailableError,
    UnknownOutcomeError,
    UnsafeStoreError,
)
from joblog.domain.lease import LeasePolicy
from joblog.domain.spec import JobSpec
from joblog.eventstore import postgres_functions as functions
from joblog.eventstore import postgres_store, wake
from joblog.eventstore.append import Stored
from joblog.eventstore.busy import BusyRetry
from joblog.eventstore.clock import SystemClock, SystemRandom
from joblog.eventstore.opening import open_store
from joblog.eventstore.postgres_append import arguments
from joblog.eventstore.postgres_store import PostgresStore
from joblog.eventstore.recorder import LogSubscription
from joblog.eventstore.store import ConflictError, LockedError
from joblog.workers.commands.held import Held
from joblog.workers.commands.log import JobLog
from tests.clocks import connect
from tests.conformance.builders import (
    BOUND,
    Side,
    a_spec,
    an_append,
    assert_whole,
    claimed,
    refused,
    stored,
    submit,
    unit_append,
)
from tests.postgres_server import Server, free_port, private_server

pytestmark = pytest.mark.postgres


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def log(postgres_url: str, waits: list[float]) -> Iterator[JobLog]:
    retry = BusyRetry(SystemClock(), SystemRandom(), wait=waits.append)
    with JobLog.open(postgres_url, busy=retry) as log:
        yield log


def store_of(log: JobLog) -> PostgresStore:
    assert isinstance(log.store, PostgresStore)
    return log.store


def ask(url: str, sql: str, *values: Any) -> Any:
    with connect(url) as connection:
        found = connection.execute(sql.encode(), values)
        return found.fetchall() if found.description else None


# -- row locks ---------------------------------------------------------------------------------------------------------


@contextmanager
def row_locked(url: str, job_id: UUID) -> Iterator[psycopg.Connection]:
    """Hold the lock of a job's row, as somebody's open transaction does."""
    with connect(url) as stranger:
        stranger.execute("BEGIN")
        stranger.execute("SELECT 1 FROM jobs_0 WHERE id = %s FOR UPDATE", (job_id,))
        yield stranger
        if not stranger.closed:
            stranger.execute("ROLLBACK")


def test_a_locked_row_holds_up_nobody_else(log: JobLog, postgres_url: str, waits: list[float]) -> None:
    """The others of its batch land at once; it lands when it is released."""
    held = [claimed(log) for _ in range(3)]
    appends = [unit_append(log, one) for one in held]
    answers: list[Any] = []
    with row_locked(postgres_url, held[1].job_id):
        batch = Side(lambda: answers.extend(log.writer.append_many(appends)))
        for n in (0, 2):
            _until_done(log, held[n])
        assert stored(log.writer.append(an_append())) > 0
        assert not batch.is_done(0.1)
        assert log.store.count_units(held[1].job_id) == 0
    batch.result()

    assert [type(answer) for answer in answers] == [Stored] * 3
    assert log.row(held[1].job_id)["done"] == 1
    assert (log.writer.side_lane, waits) == (1, [])
    assert_whole(log.store)


def _until_done(log: JobLog, held: Held) -> None:
    tick = threading.Event()
    for _ in range(int(BOUND / 0.01)):
        if log.store.count_units(held.job_id) == 1:
            return
        tick.wait(0.01)
    raise TimeoutError


def test_what_waited_for_a_row_is_checked_again(log: JobLog, postgres_url: str) -> None:
    """Its lease may be gone by then."""
    held = claimed(log)
    append = unit_append(log, held)
    with row_locked(postgres_url, held.job_id) as stranger:
        answer = Side(lambda: log.writer.append(append))
        assert not answer.is_done(0.2)
        stranger.execute("DELETE FROM leases")
        stranger.execute("COMMIT")

    assert isinstance(refused(answer.result()), LeaseLostError)


def test_a_row_that_stays_locked_is_given_up(postgres_url: str) -> None:
    """No transaction outlives a third of the lease, so neither does the wait."""
    leases = LeasePolicy(timedelta(seconds=0.9), timedelta(seconds=0.3))
    retry = BusyRetry(SystemClock(), SystemRandom(), attempts=2, wait=lambda _: None)
    with JobLog.open(postgres_url, leases=leases, busy=retry) as log:
        job_id = submit(log)
        with row_locked(postgres_url, job_id):
            append = log.to_append(job_id, 1, [], log.ids.next())
            append.events = an_append(job_id, 1).events
            append.row = {"version": 2}
            answer = Side(lambda: log.writer.append(append)).result()

        assert isinstance(answer, StoreBusyError | StoreUnavailableError)
        assert log.store.head() == 1


def test_streams_written_together_wait_for_a_locked_row(log: JobLog, postgres_url: str) -> None:
    held = claimed(log)
    append = unit_append(log, held)
    with row_locked(postgres_url, held.job_id):
        together = Side(lambda: log.writer.append_atomic([append, an_append()]))
        assert not together.is_done(0.2)
        assert stored(log.writer.append(an_append())) == 3

    assert [position for position, _ in together.result()] == [4, 6]


def test_a_claim_passes_over_a_locked_row(log: JobLog, postgres_url: str) -> None:
    locked, free = submit(log), submit(log)

    with row_locked(postgres_url, locked):
        assert [held.job_id for held in log.claim("w", limit=5)] == [free]
        assert log.claim("w", limit=5) == []

    assert [held.job_id for held in log.claim("w", limit=5)] == [locked]


def test_appends_wait_for_the_logs_lock_and_land(log: JobLog, postgres_url: str) -> None:
    with connect(postgres_url) as stranger:
        stranger.execute("BEGIN")
        stranger.execute(f"SELECT {functions.LOCK}".encode())
        answer = Side(lambda: log.writer.append(an_append()))
        assert not answer.is_done(0.2)
        stranger.execute("ROLLBACK")

    assert stored(answer.result()) == 1


def test_a_strangers_long_transaction_delays_no_follower(log: JobLog, postgres_url: str) -> None:
    with connect(postgres_url) as stranger:
        stranger.execute("BEGIN")
        stranger.execute("CREATE TABLE mine (x int)")
        stored(log.writer.append(an_append()))
        assert [event.position for event in log.store.log(0, 9)] == [1]


# -- an append on the wire ---------------------------------------------------------------------------------------------


def sent(log: JobLog, tmp_path: Path, run: Any) -> list[str]:
    """What the client says to the server while *run* goes on, message by message."""
    driver = store_of(log)._append_pin.driver
    trace = tmp_path / "trace"
    with trace.open("w") as file:
        driver.pgconn.trace(file.fileno())
        driver.pgconn.set_trace_flags(psycopg.pq.Trace.SUPPRESS_TIMESTAMPS)
        run()
        driver.pgconn.untrace()
    return [line.split("\t")[2] for line in trace.read_text().splitlines() if line.startswith("F")]


def test_an_append_is_one_round_trip(log: JobLog, tmp_path: Path) -> None:
    held = [claimed(log) for _ in range(4)]
    for one in held[:2]:
        stored(log.writer.append(unit_append(log, one)))
    appends = [unit_append(log, one, "b") for one in held]

    alone = sent(log, tmp_path, lambda: log.writer.append(appends[0]))
    batch = sent(log, tmp_path, lambda: log.writer.append_many([*appends[1:], an_append()]))

    assert alone.count("Sync") == batch.count("Sync") == 1
    assert "Parse" not in alone
    assert not {"Query", "Parse"} & set(alone)


@pytest.mark.parametrize("pooler_safe", [False, True])
def test_an_append_is_durable_whatever_the_session_says(postgres_url: str, pooler_safe: bool) -> None:
    """A pooler's session, a database or a role may have it switched off."""
    open_store(postgres_url).close()
    name = make_url(postgres_url).database
    ask(postgres_url, f"ALTER DATABASE {name} SET synchronous_commit = off")
    ask(postgres_url, "CREATE TABLE said (topic text, setting text)")
    ask(
        postgres_url,
        "CREATE FUNCTION say() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "INSERT INTO said VALUES (NEW.topic, current_setting('synchronous_commit')); RETURN NEW; END $$",
    )
    ask(postgres_url, "CREATE TRIGGER say AFTER INSERT ON events FOR EACH ROW EXECUTE FUNCTION say()")

    with JobLog.open(postgres_url, pooler_safe=pooler_safe) as log:
        held = claimed(log)
        store_of(log)._append_pin.open().execute("SET synchronous_commit = off")
        held.complete_units([("a", 1)])
        log.writer.append(an_append())
        assert store_of(log)._append_pin.open().execute("SHOW synchronous_commit").fetchone() == ("off",)

    said = ask(postgres_url, "SELECT DISTINCT topic, setting FROM said ORDER BY topic")
    assert {setting for _, setting in said} == {"on"}
    assert {"joblog.job.claimed", "joblog.job.submitted", "joblog.job.unit-completed"} <= {topic for topic, _ in said}


def test_no_transaction_outlives_a_third_of_the_lease(log: JobLog) -> None:
    store = store_of(log)
    log.renew(log.claim("w"))
    store.head()

    for pinned in store._pinned:
        cursor = pinned.open()
        for name in ("idle_in_transaction_session_timeout", "transaction_timeout"):
            assert cursor.execute(f"SHOW {name}").fetchone() == ("10s",)


def test_an_idle_transaction_is_ended_and_said_so(postgres_url: str) -> None:
    """A process that was stopped in a claim holds up nobody."""
    leases = LeasePolicy(timedelta(seconds=0.6), timedelta(seconds=0.2))
    tick = threading.Event()
    with JobLog.open(postgres_url, leases=leases) as log:
        job_id = submit(log)

        def stop_in_a_claim() -> None:
            with store_of(log).writing("claim") as cursor:
                cursor.execute("SELECT 1 FROM jobs_0 WHERE id = %s FOR UPDATE", (job_id,))
                tick.wait(0.6)
                cursor.execute("SELECT 1")

        with pytest.raises(StoreUnavailableError):
            stop_in_a_claim()

        assert len(log.claim("w")) == 1


# -- connections -------------------------------------------------------------------------------------------------------


def test_a_thread_that_ends_gives_its_connections_back(log: JobLog, postgres_url: str) -> None:
    count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"

    def work() -> None:
        log.store.head()
        log.claim("w")

    Side(work).result()
    [[before]] = ask(postgres_url, count)
    for _ in range(15):
        Side(work).result()

    tick = threading.Event()
    for _ in range(500):  # the server notices the end of a session a moment later
        [[after]] = ask(postgres_url, count)
        if after <= before:
            break
        tick.wait(0.01)
    assert after <= before


def test_options_of_the_url_are_kept(postgres_url: str) -> None:
    """Such as a schema of its own."""
    ask(postgres_url, "CREATE SCHEMA apart")
    url = make_url(postgres_url).update_query_dict({"options": "-csearch_path=apart"})

    with JobLog.open(url.render_as_string(hide_password=False)) as log:
        submit(log)
        log.claim("w")
        assert store_of(log).sql_rows("SHOW synchronous_commit")[0][0] == "on"

    assert ask(postgres_url, "SELECT count(*) FROM apart.events") == [(2,)]
    assert ask(postgres_url, "SELECT to_regclass('public.events')") == [(None,)]


def test_a_connection_that_broke_is_opened_again(log: JobLog, postgres_url: str) -> None:
    kill = (
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    held = claimed(log)
    for step in (
        lambda: stored(log.writer.append(unit_append(log, held))),
        lambda: log.row(held.job_id),
        lambda: log.renew([held]) == [],
        lambda: log.claim("w") == [],
        lambda: log.promote() == (0, None),
    ):
        ask(postgres_url, kill)
        assert step()

    assert log.store.count_units(held.job_id) == 1
    assert_whole(log.store)


def test_a_store_carried_over_a_fork_says_so(log: JobLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log.store.head()
    monkeypatch.setattr(store_of(log), "_pid", 1)

    for call in (log.store.head, lambda: log.store.track("f", 1), lambda: log.claim("w")):
        with pytest.raises(StoreForkedError):
            call()
    monkeypatch.undo()
    assert log.store.head() == 0


def test_nothing_of_a_session_is_used_behind_a_pooler(postgres_url: str) -> None:
    with JobLog.open(postgres_url, pooler_safe=True) as log:
        subscription = log.waker.subscribe(lambda: None)
        held = claimed(log)
        for n in range(8):
            held.complete_units([(f"{n}", n)])
        log.renew([held])

        for pinned in store_of(log)._pinned:
            cursor = pinned.open()
            assert cursor.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)
            assert cursor.execute("SELECT count(*) FROM pg_listening_channels()").fetchone() == (0,)
            assert cursor.execute("SELECT name FROM pg_settings WHERE source = 'session'").fetchall() == []
        log.waker.unsubscribe(subscription)


def test_prepared_statements_are_used_without_a_pooler(log: JobLog) -> None:
    held = claimed(log)
    held.complete_units([("a", 1)])

    prepared = store_of(log)._append_pin.open().execute("SELECT statement FROM pg_prepared_statements").fetchall()

    assert any("joblog_append_0" in statement for (statement,) in prepared)


def test_a_pooled_session_may_change_at_any_time(postgres_url: str) -> None:
    """Between any two transactions: here every session is replaced behind the log's back."""
    with JobLog.open(postgres_url, pooler_safe=True) as log:
        held = claimed(log)
        for n in range(3):
            for pinned in store_of(log)._pinned:
                pinned.drop()
            held.complete_units([(f"{n}", n)])

        assert log.row(held.job_id)["done"] == 3


# -- wake-ups ----------------------------------------------------------------------------------------------------------


def test_an_append_is_announced_to_others_after_its_commit(log: JobLog, postgres_url: str) -> None:
    with connect(postgres_url) as stranger:
        stranger.execute(f"LISTEN {wake.CHANNEL}".encode())
        submit(log)
        notes = list(stranger.notifies(timeout=BOUND, stop_after=1))
        head = stranger.execute("SELECT max(position) FROM events").fetchone()

    assert [note.channel for note in notes] == [wake.CHANNEL]
    assert head == (1,)


@pytest.mark.parametrize("payloads", [("ready", ""), ("", "ready")])
def test_a_ready_job_is_heard_of_among_other_news(log: JobLog, postgres_url: str, payloads: tuple[str, str]) -> None:
    """What two processes announce at once comes in one packet; the polling floor wakes nobody who waits for jobs."""
    listening, woken = threading.Event(), threading.Event()
    log.waker.subscribe(listening.set)
    assert listening.wait(BOUND)
    log.waker.subscribe(woken.set, ready_only=True, seen_only=True)
    with connect(postgres_url) as stranger, stranger.transaction():
        for payload in payloads:
            stranger.execute(f"NOTIFY {wake.CHANNEL}, '{payload}'".encode())

    assert woken.wait(BOUND)


def test_who_hands_in_a_job_and_goes_has_told_the_others(
    log: JobLog, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but the announcement tells a worker at once: its own look comes seconds later."""
    listening, woken = threading.Event(), threading.Event()
    log.waker.subscribe(listening.set)
    assert listening.wait(BOUND)
    log.waker.subscribe(woken.set, ready_only=True, seen_only=True)
    monkeypatch.setattr(wake, "NOTIFY_SECONDS", BOUND)
    with JobLog.open(postgres_url) as other:
        other.submit(JobSpec("import", {}))
        assert woken.wait(BOUND)
        woken.clear()
        other.submit(JobSpec("import", {}))  # within the span in which there is one announcement

    assert woken.wait(BOUND)


def test_a_job_is_told_of_at_once_behind_news_that_is_none(
    log: JobLog, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wake, "CALM_SECONDS", 1000.0)
    with connect(postgres_url) as stranger:
        stranger.execute(f"LISTEN {wake.CHANNEL}".encode())
        log.writer.append(an_append())
        assert [note.payload for note in stranger.notifies(timeout=BOUND, stop_after=1)] == [""]
        log.submit(JobSpec("import", {}))

        assert [note.payload for note in stranger.notifies(timeout=BOUND, stop_after=1)] == ["ready"]


def test_nobody_waits_for_a_silent_server_at_the_end(log: JobLog) -> None:
    """With no floor asked for, a wait for news is long; the end does not wait for it, nor does a new subscriber."""
    listens, called = threading.Event(), threading.Event()
    log.waker.subscribe(listens.set, seen_only=True)
    assert listens.wait(BOUND)
    log.waker.subscribe(called.set)

    assert called.wait(wake.SILENT_SECONDS / 2)
    assert Side(log.close).is_done(wake.SILENT_SECONDS / 2)


def test_announcements_are_few(log: JobLog, postgres_url: str) -> None:
    """NOTIFY takes a lock that all share: it is rate-limited, and no part of an append."""
    with connect(postgres_url) as stranger:
        stranger.execute(f"LISTEN {wake.CHANNEL}".encode())
        for _ in range(100):
            log.writer.append(an_append())
        notes = list(stranger.notifies(timeout=0.3))

    assert 1 <= len(notes) <= 50


def test_a_follower_is_woken_again_after_its_connection_broke(
    log: JobLog, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wake, "POLL_SECONDS", 0.2)
    with JobLog.open(postgres_url) as other, LogSubscription(log.application._store_recorder) as subscription:
        stored(other.writer.append(an_append()))
        assert Side(lambda: next(subscription).id).result() == 1
        ask(
            postgres_url,
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )
        stored(other.writer.append(an_append()))
        assert Side(lambda: next(subscription).id).result() == 2


# -- errors ------------------------------------------------------------------------------------------------------------

STATES: dict[str, tuple[type[psycopg.Error], type[BaseException], type[BaseException]]] = {
    "unique": (pg.UniqueViolation, ConflictError, ConflictError),
    "not null": (pg.NotNullViolation, ConflictError, ConflictError),
    "lock timeout": (pg.LockNotAvailable, LockedError, LockedError),
    "deadlock": (pg.DeadlockDetected, LockedError, LockedError),
    "disk full": (pg.DiskFull, StoreFullError, StoreFullError),
    "standby": (pg.ReadOnlySqlTransaction, StoreUnavailableError, StoreUnavailableError),
    "corrupt": (pg.DataCorrupted, CorruptLogError, CorruptLogError),
    "too many": (pg.TooManyConnections, StoreBusyError, StoreBusyError),
    "canceled": (pg.QueryCanceled, StoreBusyError, StoreBusyError),
    "shutdown": (pg.AdminShutdown, StoreUnavailableError, UnknownOutcomeError),
    "crash": (pg.CrashShutdown, StoreUnavailableError, UnknownOutcomeError),
    "starting": (pg.CannotConnectNow, StoreUnavailableError, UnknownOutcomeError),
    "connection": (pg.ConnectionFailure, StoreUnavailableError, UnknownOutcomeError),
    "no state": (psycopg.OperationalError, StoreUnavailableError, UnknownOutcomeError),
    "closed": (psycopg.InterfaceError, StoreUnavailableError, UnknownOutcomeError),
    "idle": (pg.IdleInTransactionSessionTimeout, StoreUnavailableError, StoreUnavailableError),
    "syntax": (pg.SyntaxError, StoreError, StoreError),
}


@pytest.mark.parametrize(("error", "before", "committing"), STATES.values(), ids=STATES)
def test_an_error_says_what_became_of_the_write(
    log: JobLog, error: type[psycopg.Error], before: type[BaseException], committing: type[BaseException]
) -> None:
    translate = store_of(log).translate

    assert type(translate(error("text"))) is before
    assert type(translate(error("text"), committing=True)) is committing


# -- servers -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with private_server() as server:
        yield server


@contextmanager
def configured(server: Server, line: str) -> Iterator[None]:
    """Run the server with one more setting."""
    file = server.data / "postgresql.conf"
    before = file.read_text("ascii")
    try:
        file.write_text(f"{before}\n{line}\n", "ascii")
        server.stop()
        server.start()
        yield
    finally:
        file.write_text(before, "ascii")
        server.stop()
        server.start()


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
def test_a_server_that_can_lose_what_it_acknowledges_is_refused(server: Server, setting: str) -> None:
    with configured(server, f"{setting} = off"), pytest.raises(UnsafeStoreError, match=f"{setting}=off"):
        open_store(server.url())


@pytest.mark.slow
def test_a_standby_is_refused(server: Server) -> None:
    open_store(server.url()).close()
    copy, port = server.home / "standby", free_port()
    whence = ("-h", server.home, "-p", str(server.port), "-U", "postgres")
    server.run("pg_basebackup", *whence, "-D", copy, "-R", "-X", "stream", "-c", "fast")
    server.start(copy, port)

    try:
        with pytest.raises(UnsafeStoreError, match="standby"):
            open_store(make_url(server.url()).set(port=port))  # type: ignore[arg-type]
    finally:
        server.stop("immediate", copy)


@pytest.mark.slow
def test_the_next_append_lands_after_the_server_was_restarted(server: Server) -> None:
    """It crashes and recovers; no process of ours ends, and nobody opens anything again."""
    with JobLog.open(server.url()) as log:
        held = claimed(log, queue="restart")
        held.complete_units([("a", 1)])
        head = log.store.head()
        server.stop("immediate")
        answer = log.writer.append(an_append())
        assert isinstance(refused(answer), StoreUnavailableError | UnknownOutcomeError)
        server.start()

        assert stored(log.writer.append(an_append())) == head + 1
        held.complete_units([("b", 1)])
        assert log.renew([held]) == []
        assert_whole(log.store)


@pytest.mark.slow
def test_an_append_waits_out_a_short_restart(server: Server) -> None:
    def restart(_: float) -> None:
        if stopped:
            stopped.clear()
            server.start()

    retry = BusyRetry(SystemClock(), SystemRandom(), wait=restart)
    with JobLog.open(server.url(), busy=retry) as log:
        submit(log)
        server.stop("immediate")
        stopped = [True]
        position = stored(log.writer.append(an_append()))

        assert log.store.log(position - 1, 9)[0].topic == "test.happened"
        assert_whole(log.store)


@pytest.mark.slow
def test_oids_beyond_31_bits_are_no_limit() -> None:
    """The key of the log's lock is made from one."""
    with private_server() as server:
        server.stop()
        server.run("pg_resetwal", "-o", "3000000000", "-D", server.data)
        server.start()
        with JobLog.open(server.url()) as log:
            log.submit(a_spec())
            assert len(log.claim("w")) == 1
        [[oid]] = ask(server.url(), "SELECT 'events'::regclass::oid::bigint")

    assert oid > 2**31


def test_a_blocked_job_that_is_paused_meanwhile_is_not_made_ready(log: JobLog, postgres_url: str) -> None:
    """Its row is looked at again under its lock, or passed over."""
    job_id = submit(log, exclusive_key="k")
    blocked = "UPDATE jobs_0 SET blocked = 1, ready = 0"
    with connect(postgres_url) as other:
        other.execute(blocked.encode())
        with other.transaction():
            other.execute(b"UPDATE jobs_0 SET status = 'paused', blocked = 0")
            Side(log.promote).result()  # it waits for nobody

    row = log.row(job_id)
    assert (row["status"], row["ready"]) == ("paused", 0)


def test_claims_and_completions_are_told_by_their_columns(log: JobLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole row made of JSON costs the server four times as much."""
    told: list[set[str]] = []

    def listening(*args: Any, **more: Any) -> tuple[Any, ...]:
        made = arguments(*args, **more)
        told.append(set(json.loads(made[-1] or "{}")))
        return made

    monkeypatch.setattr(postgres_store, "arguments", listening)
    log.submit(JobSpec("import", {}))
    [held] = log.claim("w")
    held.complete({"rows": 1})

    submitted, claimed, completed = told
    assert submitted == set()
    assert "claimed" in claimed
    assert "completed" in completed
    assert not {"set"} & (claimed | completed)
    assert log.row(held.job_id)["outcome"] == "done"
