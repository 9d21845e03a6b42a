"""The oracle is only worth its word if it reports every kind of damage: each is done to a copy of a good log."""

import gzip
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import orjson
import psycopg
import pytest
import sqlalchemy as sa

from joblog import Actor, JobLog, JobSpec
from joblog.domain.snapshot import JobSnapshot
from joblog.eventstore.archive_files import file_of
from joblog.projections.proof.heads import sign
from joblog.projections.proof.notes import Signer
from joblog.workers.commands import log as log_module
from joblog.workers.commands.archiving import archive
from joblog.workers.commands.held import Held
from tests import postgres_server as servers
from tests.faults.finish import finish
from tests.faults.journal import Journal, Story, story_of
from tests.faults.oracle import TOPICS, Oracle, Violation
from tests.faults.reader import open_reader
from tests.faults.workload import (
    QUICK,
    RunIds,
    Script,
    SharedClock,
    a_spec,
    complete,
    finish_job,
    units_left,
    watch,
)

pytestmark = pytest.mark.faults


class Good(NamedTuple):
    """A log with something of everything in it, and the journal of those who wrote it."""

    url: str
    journal: Path
    clock: SharedClock | None

    def open(self, url: str, **ports: Any) -> JobLog:
        ports = {"clock": self.clock, **ports} if self.clock else ports
        return JobLog.open(url, random=random.Random(1), **ports)


def write_everything(good: Good, monkeypatch: pytest.MonkeyPatch) -> None:
    """A random script, then what it may have left out: every status, every event, a raised epoch, an unknown event."""
    monkeypatch.setattr(log_module, "SNAPSHOT_EVERY", 4)
    facts = Journal(good.journal, "w")
    with good.open(good.url, ids=RunIds("w")) as log:
        watch(log, facts)
        script = Script(log, facts, random.Random(7), clock=good.clock, weights={"rebuild": 0})
        script.run(100)
        script.do("epoch")
        log.control_queue("default", "resume", Actor("operator", "request-to-go-on-now"))
        log.control_queue("default", "limit", Actor("operator", "request-for-no-limit"), slots=None)
        hold(log, facts, "failed").fail(reason="bad-input", text="no such file")
        hold(log, facts, "parked").park(reason="credential", text="the key has expired")
        hold(log, facts, "yielded").release("yield")
        hold(log, facts, "gated").await_gate("provider", unit="u0", due_at=None)
        hold(log, facts, "retried").schedule_retry("u0", category="network", text="reset")
        finish_job(log, facts, hold(log, facts, "completed"))
        held = hold(log, facts, "parent")
        child = JobSpec("work", {"units": 1, "key": "child"}, key="child", parent_id=held.job_id)
        facts.submit(child.job_id)
        log.submit(child)
        held.release("child", due_at=log.now() + timedelta(seconds=1))
        finish_job(log, facts, claim(log, child.job_id))
        held = hold(log, facts, "cancelled")
        held.skip_unit("u0", code="bad-row", text="no number")
        log.command("cancel", held.job_id, Actor("operator", "request-for-a-cancel"))
        held.release("yield")
        held = hold(log, facts, "paused")
        log.command("pause", held.job_id, Actor("operator", "request-for-one-pause"))
        held.release("yield")
        log.command("resume", held.job_id, Actor("operator", "request-for-a-resume"))
        script.rng = random.Random(2)  # whose first choice is to go on
        script.do("future")
        held = hold(log, facts, "running")
        held.attempt_unit("u0")
        held.freeze_list("rows", count=1, digest="d")
        complete(facts, held, units_left(log, held)[:2], advance=1)
    facts.close()


def hold(log: JobLog, facts: Journal, name: str) -> Held:
    """Submit a job without a gate or an exclusive key, with some units to do, and claim it."""
    key = next(k for i in range(99) if is_plain(a_spec(k := f"{name}-{i}")))
    spec = a_spec(key, retry=QUICK if log.store.dialect == "postgresql" else None)
    facts.submit(spec.job_id)
    log.submit(spec)
    return claim(log, spec.job_id)


def claim(log: JobLog, job_id: UUID) -> Held:
    return next(one for _ in range(99) for one in log.claim("keeper", limit=8) if one.job_id == job_id)


def is_plain(spec: JobSpec) -> bool:
    return not spec.exclusive_key and not spec.gate and spec.args["units"] > 2


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Good:
    folder = tmp_path_factory.mktemp("good")
    made = Good(f"sqlite:///{folder / 'log.db'}", folder / "journal", SharedClock())
    with pytest.MonkeyPatch.context() as patch:
        write_everything(made, patch)
    return made


@pytest.fixture
def copy(good: Good, tmp_path: Path) -> Good:
    source = Path(str(sa.make_url(good.url).database))
    for file in source.parent.iterdir():
        shutil.copy(file, tmp_path / file.name)
    return Good(f"sqlite:///{tmp_path / 'log.db'}", tmp_path / "journal", good.clock)


def judge(good: Good, *, memory: Oracle | None = None, story: Story | None = None) -> list[Violation]:
    with open_reader(good.url) as reader:
        return (memory or Oracle()).check(reader, story or story_of(good.journal), full=True)


def remember(good: Good) -> Oracle:
    """An oracle that has seen the log while it was good."""
    memory = Oracle()
    assert judge(good, memory=memory) == []
    return memory


def test_a_log_with_archives_is_judged_by_all_its_bodies(copy: Good, tmp_path: Path) -> None:
    memory = remember(copy)
    with JobLog.open(copy.url, clock=copy.clock) as log:
        sign(log.store, Signer("rig", bytes(32)), None)
        made = archive(log, Actor("rig"), tmp_path / "archives", before=log.store.now() + 1)
    assert made.manifest is not None

    def check() -> list[Violation]:
        with open_reader(copy.url) as reader:
            return memory.check(reader, None, full=True)

    assert check() == []
    file = file_of(tmp_path / "archives", made.manifest.name)
    file.write_bytes(gzip.compress(gzip.decompress(file.read_bytes()).replace(b"units", b"unitz", 1)))
    assert {one.invariant for one in check()} >= {"S3"}


# -- damage --------------------------------------------------------------------------------------------------------------

Damage = Callable[["Hand"], None]


class Hand:
    """Someone who writes into the database past the product, its triggers switched off."""

    def __init__(
        self, execute: Callable[..., list[tuple[Any, ...]]], journal: Path, to_id: Callable[[UUID], Any]
    ) -> None:
        self.sql, self.journal, self.to_id = execute, journal, to_id

    def one(self, statement: str, *values: Any) -> Any:
        found = self.sql(statement, *values)
        assert found, f"nothing to damage: {statement}"
        return found[0] if len(found[0]) > 1 else found[0][0]

    def last(self, topic: str) -> int:
        return int(self.one("SELECT max(position) FROM events WHERE topic = ?", f"joblog.job.{topic}"))

    def first(self, topic: str) -> int:
        return int(self.one("SELECT min(position) FROM events WHERE topic = ?", f"joblog.job.{topic}"))

    @property
    def head(self) -> int:
        return int(self.one("SELECT max(position) FROM events"))

    def stream(self, position: int) -> Any:
        return self.one("SELECT stream_id FROM events WHERE position = ?", position)

    def fields(self, position: int) -> dict[str, Any]:
        made: dict[str, Any] = orjson.loads(bytes(self.one("SELECT state FROM events WHERE position = ?", position)))
        return made

    def alter(self, position: int, **fields: Any) -> None:
        """Change fields of a stored event."""
        state = orjson.dumps(self.fields(position) | fields)
        self.sql("UPDATE events SET state = ? WHERE position = ?", state, position)

    def add(self, like: int, *, topic: str = "", **fields: Any) -> int:
        """Append an event to the stream of position *like*, as if it had always been there."""
        stream, head = self.stream(like), self.head
        version = self.one("SELECT max(version) FROM events WHERE stream_id = ?", stream) + 1
        newest = self.one("SELECT max(position) FROM events WHERE stream_id = ?", stream)
        at = self.fields(newest)["timestamp"]
        state = orjson.dumps({**self.fields(like), "timestamp": at, "event_id": f"hand-{head}.0", **fields})
        topic = topic or self.one("SELECT topic FROM events WHERE position = ?", like)
        self.sql("INSERT INTO events VALUES (?, ?, ?, ?, ?)", head + 1, stream, version, topic, state)
        return head + 1

    def tell(self, kind: str, **facts: Any) -> None:
        journal = Journal(self.journal, "hand")
        journal.write(kind, **facts)
        journal.close()


def _swap(hand: Hand) -> None:
    """Two neighbours of different streams change places."""
    a = hand.one(
        "SELECT min(a.position) FROM events a JOIN events b ON b.position = a.position + 1 "
        "WHERE a.stream_id <> b.stream_id AND a.position > 5"
    )
    hand.sql("UPDATE events SET position = -1 WHERE position = ?", a)
    hand.sql("UPDATE events SET position = ? WHERE position = ?", a, a + 1)
    hand.sql("UPDATE events SET position = ? WHERE position = -1", a + 1)


def _drop(hand: Hand, position: int) -> None:
    """An event vanishes and all behind it move up, in the log and in its stream: no gap is left."""
    stream, version = hand.one("SELECT stream_id, version FROM events WHERE position = ?", position)
    hand.sql("DELETE FROM events WHERE position = ?", position)
    for later in range(position + 1, hand.head + 1):
        hand.sql("UPDATE events SET position = ? WHERE position = ?", later - 1, later)
    behind = hand.sql(
        "SELECT version FROM events WHERE stream_id = ? AND version > ? ORDER BY version", stream, version
    )
    for (later,) in behind:
        hand.sql("UPDATE events SET version = ? WHERE stream_id = ? AND version = ?", later - 1, stream, later)


def _gap(hand: Hand) -> None:
    hand.sql("UPDATE events SET position = position + 1 WHERE position = ?", hand.head)


def _version_jump(hand: Hand) -> None:
    hand.sql("UPDATE events SET version = version + 1 WHERE position = ?", hand.head)


def _second_claim(hand: Hand) -> int:
    return int(
        hand.one(
            "SELECT max(position) FROM events WHERE topic = 'joblog.job.claimed' AND stream_id IN "
            "(SELECT stream_id FROM events WHERE topic = 'joblog.job.claimed' GROUP BY stream_id HAVING count(*) > 1)"
        )
    )


def _token_lowered(hand: Hand) -> None:
    hand.alter(_second_claim(hand), epoch=1, token=0)


def _token_again(hand: Hand) -> None:
    position = _second_claim(hand)
    hand.alter(position, token=hand.fields(position)["token"] + 1)


def _claimed_twice(hand: Hand) -> None:
    """A second grant while the first still stands."""
    claimed = hand.one(
        "SELECT max(e.position) FROM events e JOIN leases l ON l.job_id = e.stream_id AND e.topic = 'joblog.job.claimed'"
    )
    hand.add(claimed, token=hand.fields(claimed)["token"] + 1)


def _expired_early(hand: Hand) -> None:
    position = hand.last("lease-expired")
    stream = hand.stream(position)
    claimed = hand.one(
        "SELECT max(position) FROM events WHERE stream_id = ? AND topic = 'joblog.job.claimed' AND position < ?",
        stream,
        position,
    )
    hand.alter(position, cause="expired")
    hand.alter(claimed, lease_until="2031-01-01T00:00:00+00:00")


def _without_lease(hand: Hand) -> None:
    """A dead holder's event is taken although its lease was given back."""
    released = hand.last("lease-released")
    stream = hand.stream(released)
    ends = hand.one("SELECT max(position) FROM events WHERE stream_id = ?", stream)
    if ends == released:
        hand.add(released, topic="joblog.job.list-frozen", name="late", count=1, digest="d")
    else:
        position = hand.one("SELECT min(position) FROM events WHERE stream_id = ? AND position > ?", stream, released)
        hand.sql("UPDATE events SET topic = 'joblog.job.list-frozen' WHERE position = ?", position)


def _unit_twice(hand: Hand) -> None:
    """In the log, where the unique key of the results no longer guards it."""
    stream = hand.one("SELECT u.job_id FROM unit_results u JOIN leases l ON l.job_id = u.job_id LIMIT 1")
    unit = hand.one(
        "SELECT max(position) FROM events WHERE stream_id = ? AND topic = 'joblog.job.unit-completed'", stream
    )
    hand.add(unit, done=hand.fields(unit)["done"] + 1)


def _checkpoint_back(hand: Hand) -> None:
    position = hand.one(
        "SELECT max(position) FROM events WHERE topic = 'joblog.job.checkpoint-advanced' AND stream_id IN "
        "(SELECT stream_id FROM events WHERE topic = 'joblog.job.checkpoint-advanced' GROUP BY stream_id HAVING count(*) > 1)"
    )
    hand.alter(position, sequence=0)


def _checkpoint_ahead(hand: Hand) -> None:
    hand.alter(hand.last("checkpoint-advanced"), sequence=99)


def _before_its_instant(hand: Hand) -> None:
    stream = hand.stream(hand.one("SELECT min(position) FROM events WHERE topic = 'joblog.job.claimed'"))
    submitted = hand.one("SELECT position FROM events WHERE stream_id = ? AND version = 1", stream)
    hand.alter(submitted, due_at="2031-01-01T00:00:00+00:00")


def _instant_forward(hand: Hand) -> None:
    hand.alter(hand.last("retry-scheduled"), next_attempt_at="2029-01-01T00:00:00+00:00")


def _woken(hand: Hand) -> None:
    hand.sql("UPDATE events SET topic = 'joblog.job.woken' WHERE position = ?", hand.last("resumed"))


def _after_the_end(hand: Hand) -> None:
    hand.add(hand.last("completed"), topic="joblog.job.checkpoint-advanced", sequence=1, cursor=None)


def _acked_missing(hand: Hand) -> None:
    """The log's last event is gone, as after a power cut without fsync."""
    hand.sql("DELETE FROM events WHERE position = ?", hand.head)


def _ghost(hand: Hand) -> None:
    """An append that its caller was refused is in the log all the same."""
    position = hand.last("submitted")
    event_id = hand.fields(position)["event_id"]
    lines = hand.journal.read_bytes().split(b"\n")
    kept = [line for line in lines if not (f'"{event_id}"'.encode() in line and b'"k":"acked"' in line)]
    hand.journal.write_bytes(b"\n".join(kept))
    hand.tell("refused", id=event_id, first=1, code="version-conflict")


def _never_sent(hand: Hand) -> None:
    hand.add(hand.last("paused"), topic="joblog.job.cancelled")


def _byte_flipped(hand: Hand) -> None:
    position = hand.last("unit-completed")
    state = bytearray(hand.one("SELECT state FROM events WHERE position = ?", position))
    state[state.index(b"digest") + 10] ^= 1
    hand.sql("UPDATE events SET state = ? WHERE position = ?", bytes(state), position)


def _no_json(hand: Hand) -> None:
    hand.sql("UPDATE events SET state = ? WHERE position = ?", b"\x00{", hand.last("claimed"))


def _same_id(hand: Hand) -> None:
    hand.alter(hand.head, event_id=hand.fields(hand.head - 1)["event_id"])


def _row_off(hand: Hand) -> None:
    hand.sql("UPDATE jobs_0 SET done = done + 1 WHERE status = 'completed'")


def _row_status(hand: Hand) -> None:
    hand.sql("UPDATE jobs_0 SET status = 'queued' WHERE status = 'paused'")


def _row_missing(hand: Hand) -> None:
    hand.sql("DELETE FROM jobs_0 WHERE id = ?", hand.stream(hand.first("submitted")))


def _row_extra(hand: Hand) -> None:
    stream = hand.stream(hand.first("submitted"))
    hand.sql("CREATE TABLE spare AS SELECT * FROM jobs_0 WHERE id = ?", stream)
    hand.sql("UPDATE spare SET id = ?", hand.to_id(UUID(int=7)))
    hand.sql("INSERT INTO jobs_0 SELECT * FROM spare")
    hand.sql("DROP TABLE spare")


def _ready_ended(hand: Hand) -> None:
    hand.sql("UPDATE jobs_0 SET ready = 1 WHERE status = 'completed'")


def _lease_for_finished(hand: Hand) -> None:
    stream = hand.stream(hand.last("completed"))
    hand.sql("UPDATE leases SET job_id = ? WHERE job_id = (SELECT job_id FROM leases LIMIT 1)", stream)


def _lease_token(hand: Hand) -> None:
    hand.sql("UPDATE leases SET token = token + 1")


def _lease_missing(hand: Hand) -> None:
    hand.sql("DELETE FROM leases")


def _result_missing(hand: Hand) -> None:
    hand.sql("DELETE FROM unit_results WHERE job_id = ?", hand.one("SELECT job_id FROM unit_results LIMIT 1"))


def _result_extra(hand: Hand) -> None:
    stream = hand.one("SELECT job_id FROM unit_results LIMIT 1")
    hand.sql("INSERT INTO unit_results VALUES (?, 'never-done', 2, ?)", stream, b"{}")


def _result_altered(hand: Hand) -> None:
    job, unit = hand.one("SELECT job_id, unit FROM unit_results LIMIT 1")
    hand.sql("UPDATE unit_results SET state = ? WHERE job_id = ? AND unit = ?", b"{}", job, unit)


def _receipt_missing(hand: Hand) -> None:
    hand.sql("DELETE FROM receipts WHERE action = 'cancel'")


def _receipt_extra(hand: Hand) -> None:
    hand.sql("INSERT INTO receipts VALUES ('request-out-of-the-air', 'pause', 'x', 'ada', '{}')")


def _receipt_altered(hand: Hand) -> None:
    answer = orjson.dumps({"status": "queued", "wish": "", "version": 1}).decode()
    hand.sql("UPDATE receipts SET answer = ? WHERE action = 'cancel'", answer)


def _queue_row(hand: Hand) -> None:
    hand.sql("UPDATE queues SET paused = 1")


def _snapshot_wrong(hand: Hand) -> None:
    stream, state = hand.one("SELECT stream_id, state FROM snapshots LIMIT 1")
    fields = orjson.loads(bytes(state))
    fields["state"]["attempt"] += 1
    hand.sql("UPDATE snapshots SET state = ? WHERE stream_id = ?", orjson.dumps(fields), stream)


def _snapshot_ahead(hand: Hand) -> None:
    hand.sql("UPDATE snapshots SET version = version + 1")


def _unknown_folded(hand: Hand) -> None:
    hand.sql("UPDATE jobs_0 SET vocabulary = 1 WHERE vocabulary > 1")


def _after_unknown(hand: Hand) -> None:
    """Older code has claimed a job with an event that it does not know."""
    future = hand.one("SELECT position FROM events WHERE topic = 'joblog.job.from-the-future'")
    hand.add(
        future,
        topic="joblog.job.claimed",
        worker="w",
        epoch=9,
        token=99,
        attempt=9,
        lease_until="2031-01-01T00:00:00+00:00",
    )


def _epoch_back(hand: Hand) -> None:
    hand.sql("UPDATE log_state SET epoch = 1")


def _follower_ahead(hand: Hand) -> None:
    hand.sql("INSERT INTO tracking VALUES ('someone', ?)", hand.head + 5)


def _time_back(hand: Hand) -> None:
    hand.alter(hand.last("completed"), timestamp="2029-01-01T00:00:00+00:00")


def _body_never_ran(hand: Hand) -> None:
    lines = hand.journal.read_bytes().split(b"\n")
    hand.journal.write_bytes(b"\n".join(line for line in lines if b'"k":"effect"' not in line))


def _body_ran_again(hand: Hand) -> None:
    position = hand.first("unit-completed")
    stream = hand.stream(position)
    job = stream.hex() if isinstance(stream, bytes) else stream.hex
    hand.tell("effect", job=job, unit=hand.fields(position)["unit"])


def _told_twice(hand: Hand) -> None:
    position = hand.first("unit-completed")
    stream = hand.stream(position)
    job = stream.hex() if isinstance(stream, bytes) else stream.hex
    hand.tell("settled", job=job, units=[hand.fields(position)["unit"]], how="acked")


def _submission_lost(hand: Hand) -> None:
    hand.tell("accepted", job=UUID(int=5).hex)


DAMAGES: dict[str, tuple[str, Damage]] = {
    "the last event is lost": ("S1", _acked_missing),
    "a submission is lost": ("S1", _submission_lost),
    "a state byte flips": ("S1", _byte_flipped),
    "a refused append is there": ("S2", _ghost),
    "an event nobody sent": ("S2", _never_sent),
    "an event id twice": ("S2", _same_id),
    "an event vanishes without a gap": ("S3", lambda hand: _drop(hand, hand.last("unit-completed"))),
    "two events change places": ("S3", _swap),
    "a gap": ("S4", _gap),
    "a version jumps": ("S5", _version_jump),
    "a token is lowered": ("S6", _token_lowered),
    "an event without a lease": ("S6", _without_lease),
    "a token is skipped": ("S7", _token_again),
    "a second grant": ("S7", _claimed_twice),
    "a lease ended early": ("S7", _expired_early),
    "a unit completes twice": ("S8", _unit_twice),
    "a completion is told twice": ("S8", _told_twice),
    "a body that never ran": ("S9", _body_never_ran),
    "a body that ran again": ("S9", _body_ran_again),
    "the checkpoint goes back": ("S10", _checkpoint_back),
    "the checkpoint runs ahead": ("S10", _checkpoint_ahead),
    "an attempt before its instant": ("S11", _before_its_instant),
    "an instant is brought forward": ("S11", _instant_forward),
    "a job is woken that waits for no child": ("S11", _woken),
    "an event after the end": ("S12", _after_the_end),
    "a row is off by one": ("S13", _row_off),
    "a row with another status": ("S13", _row_status),
    "a row is missing": ("S13", _row_missing),
    "a row too many": ("S13", _row_extra),
    "a follower past the end": ("S13", _follower_ahead),
    "a snapshot is wrong": ("S15", _snapshot_wrong),
    "a snapshot of another version": ("S15", _snapshot_ahead),
    "an unknown event is folded": ("S18", _unknown_folded),
    "a parked job is claimed": ("S18", _after_unknown),
    "an ended job is ready": ("hints", _ready_ended),
    "a lease for a finished job": ("leases", _lease_for_finished),
    "a lease under another token": ("leases", _lease_token),
    "a lease is missing": ("leases", _lease_missing),
    "a result is missing": ("unit-results", _result_missing),
    "a result too many": ("unit-results", _result_extra),
    "a result is altered": ("unit-results", _result_altered),
    "a receipt is missing": ("receipts", _receipt_missing),
    "a receipt too many": ("receipts", _receipt_extra),
    "a receipt is altered": ("receipts", _receipt_altered),
    "a queue is held in its row only": ("queues", _queue_row),
    "the epoch goes back": ("epoch", _epoch_back),
    "time goes back": ("time", _time_back),
    "an event that is no event": ("structure", _no_json),
}


@contextmanager
def sqlite_hand(good: Good) -> Iterator[Hand]:
    connection = sqlite3.connect(str(sa.make_url(good.url).database), isolation_level=None)
    triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    yield Hand(lambda sql, *values: connection.execute(sql, values).fetchall(), good.journal, lambda value: value.bytes)
    for _, text in triggers:
        connection.execute(text)
    connection.close()


def test_a_good_log_is_found_good(good: Good) -> None:
    with open_reader(good.url) as reader:
        have = {row[0] for row in reader.rows("SELECT DISTINCT status FROM jobs_0")}
        topics = {row[0] for row in reader.rows("SELECT DISTINCT topic FROM events")}

    assert judge(good) == []
    assert have == {"queued", "running", "waiting", "paused", "completed", "failed", "cancelled"}
    assert {topic for topic in TOPICS if topic.startswith("joblog.job.")} - {JobSnapshot.TOPIC} <= topics
    assert {"joblog.log.epoch-raised", "joblog.queue.limited", "joblog.job.from-the-future"} <= topics


def test_a_quick_check_goes_on_where_the_last_one_ended(good: Good) -> None:
    oracle, story = Oracle(), story_of(good.journal)
    with open_reader(good.url) as reader:
        first = oracle.check(reader, story)
    with open_reader(good.url) as reader:
        again = oracle.check(reader, story)

    assert (first, again) == ([], [])
    assert oracle.head > 100


@pytest.mark.parametrize("damage", DAMAGES)
def test_every_kind_of_damage_is_reported(copy: Good, damage: str) -> None:
    invariant, inflict = DAMAGES[damage]
    memory = remember(copy)

    with sqlite_hand(copy) as hand:
        inflict(hand)
    found = judge(copy, memory=memory)

    assert invariant in {violation.invariant for violation in found}, found[:5]
    assert all(violation.where and violation.text for violation in found)


def test_a_broken_page_is_reported(copy: Good) -> None:
    file = Path(str(sa.make_url(copy.url).database))
    sqlite3.connect(file).execute("PRAGMA wal_checkpoint(TRUNCATE)").connection.close()
    with sqlite3.connect(file) as connection:
        root = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'jobs_0_claim'").fetchone()[0]
    connection.close()
    with file.open("r+b") as raw:
        raw.seek((root - 1) * 4096 + 3)
        raw.write(b"\xff\xff")

    assert "structure" in {violation.invariant for violation in judge(copy)}


def test_a_missing_trigger_is_reported(copy: Good) -> None:
    with sqlite3.connect(str(sa.make_url(copy.url).database)) as connection:
        connection.execute("DROP TRIGGER events_no_delete")
    connection.close()

    assert [v for v in judge(copy) if v.invariant == "schema"]


def test_a_quick_check_sees_what_vanished_behind_it(copy: Good) -> None:
    oracle, story = Oracle(), story_of(copy.journal)
    with open_reader(copy.url) as reader:
        assert oracle.check(reader, story) == []
    with sqlite_hand(copy) as hand:
        _acked_missing(hand)

    with open_reader(copy.url) as reader:
        found = oracle.check(reader, story)

    assert "S3" in {violation.invariant for violation in found}


def test_one_healthy_worker_ends_every_job_and_leaves_a_good_log(copy: Good) -> None:
    assert finish(copy.url, copy.journal, copy.open, clock=copy.clock, run="healer") == []


def test_a_job_that_nobody_can_end_is_reported(copy: Good) -> None:
    """L1: a row that hides its job from every claim."""
    with sqlite_hand(copy) as hand:
        hand.sql("UPDATE jobs_0 SET queue = 'nowhere' WHERE status IN ('queued', 'waiting')")

    found = finish(copy.url, copy.journal, copy.open, clock=copy.clock, run="healer")

    assert {"L1"} <= {violation.invariant for violation in found}


def test_a_torn_line_of_the_journal_spoils_no_other(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal", "a")
    journal.submit(UUID(int=1))
    with (tmp_path / "journal").open("ab") as file:
        file.write(b'\n{"k":"accepted","job":"00')
    journal.submit(UUID(int=2))
    journal.close()

    story = story_of(tmp_path / "journal")

    assert story.submitted == {UUID(int=1), UUID(int=2)}
    assert (story.accepted, story.torn) == ([], 1)


# -- the same judge on PostgreSQL ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def good_postgres(postgres_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Good]:
    with servers.fresh_database() as url:
        made = Good(url, tmp_path_factory.mktemp("good") / "journal", None)
        with pytest.MonkeyPatch.context() as patch:
            write_everything(made, patch)
        yield made


@contextmanager
def postgres_hand(good: Good) -> Iterator[Hand]:
    plain = sa.make_url(good.url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain, autocommit=True) as connection:
        connection.execute("ALTER TABLE events DISABLE TRIGGER USER")

        def sql(statement: str, *values: Any) -> list[tuple[Any, ...]]:
            cursor = connection.execute(statement.replace("?", "%s").encode(), values)
            return cursor.fetchall() if cursor.description else []

        yield Hand(sql, good.journal, lambda value: value)
        for name in ("events_no_delete", "events_no_truncate"):
            connection.execute(f"ALTER TABLE events ENABLE ALWAYS TRIGGER {name}".encode())


def test_a_good_log_on_postgresql_is_found_good(good_postgres: Good) -> None:
    assert judge(good_postgres) == []


@pytest.mark.parametrize(
    "damage",
    [
        "an event vanishes without a gap",
        "a gap",
        "a row is off by one",
        "a lease for a finished job",
        "a result is altered",
    ],
)
def test_damage_on_postgresql_is_reported(good_postgres: Good, tmp_path: Path, damage: str) -> None:
    invariant, inflict = DAMAGES[damage]
    memory = remember(good_postgres)
    shutil.copy(good_postgres.journal, tmp_path / "journal")
    template = str(sa.make_url(good_postgres.url).database)
    with servers.fresh_database(template) as url:
        copied = Good(url, tmp_path / "journal", None)
        with postgres_hand(copied) as hand:
            inflict(hand)
        found = judge(copied, memory=memory)

    assert invariant in {violation.invariant for violation in found}, found[:5]


def test_a_healthy_worker_ends_every_job_on_postgresql(good_postgres: Good, tmp_path: Path) -> None:
    shutil.copy(good_postgres.journal, tmp_path / "journal")
    with servers.fresh_database(str(sa.make_url(good_postgres.url).database)) as url:
        assert finish(url, tmp_path / "journal", good_postgres.open, clock=None, run="healer") == []
