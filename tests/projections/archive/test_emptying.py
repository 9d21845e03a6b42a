"""A body is emptied by the transaction that records its archive, and by nothing else, whatever SQL somebody writes."""

import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from joblog.domain.errors import EpochChangedError, StoreBusyError
from joblog.domain.identity import LOG_STREAM
from joblog.domain.log_events import Archived
from joblog.eventstore.archive_rows import archive_rows
from joblog.projections.proof.heads import sign
from joblog.workers.commands.control import raise_epoch
from tests.conformance.backends import Backend, PostgresBackend, SqlBackend
from tests.conformance.builders import an_append, armed, once, stored, whole_log
from tests.projections.archive.scene import ADA, Scene, archived, emptied, scene
from tests.projections.proof.logs import SIGNER

REFUSED = (sqlite3.DatabaseError, psycopg.Error)
EMPTY = {"sqlite": "x''", "postgres": "''::bytea"}
OTHER = {"sqlite": "x'7b7d'", "postgres": "'{}'::bytea"}


class Hand:
    """What somebody writes who wants a body to be empty: the rows of an archive, each part as they like."""

    def __init__(self, database: SqlBackend, made: Scene) -> None:
        self.database, self.made = database, made
        self.stream = database.to_id(made.completed[0])
        self.positions = [one.position for one in archive_rows(made.log.store).places(made.completed[0])]
        self.first, self.last = self.positions[0], self.positions[-1]

    def record(self, **changes: Any) -> int:
        """The event; returns its position."""
        log = self.made.log
        said = {"name": "by-hand", "first": self.first, "last": self.last, "events": len(self.positions), "streams": 1}
        said |= {"digest": "d", "rows": "r", "actor": "eve"}
        version = len(log.store.read(LOG_STREAM)) + 1
        event = Archived.made(version, log.now(), **(said | changes))
        return stored(log.writer.append(log.to_append(LOG_STREAM, version - 1, [event], uuid4().hex)))

    def stream_row(self, event: int, stream: Any = None) -> None:
        self.database.run("INSERT INTO archived_streams VALUES (?, ?)", stream or self.stream, event)

    def archive_row(self, event: int, **changes: Any) -> None:
        row = {"event": event, "name": "by-hand", "first": self.first, "last": self.last}
        row |= {"events": len(self.positions), "digest": "d", "folder": "/nowhere"} | changes
        self.database.run("INSERT INTO archives VALUES (?, ?, ?, ?, ?, ?, ?)", *row.values())

    def empty(self, position: int | None = None, more: str = "") -> None:
        sql = f"UPDATE events SET state = {EMPTY[self.database.kind]}{more} WHERE position = ?"
        self.database.run(sql, position or self.first)


def whole(hand: Hand) -> int:
    event = hand.record()
    hand.stream_row(event)
    hand.archive_row(event)
    return event


def nothing_recorded(hand: Hand) -> None:
    hand.empty()


def no_longer_newest(hand: Hand) -> None:
    whole(hand)
    stored(hand.made.log.writer.append(an_append()))
    hand.empty()


def another_stream(hand: Hand) -> None:
    whole(hand)
    hand.empty(archive_rows(hand.made.log.store).places(hand.made.running)[0].position)


def outside_the_range(hand: Hand) -> None:
    event = hand.record(first=hand.positions[1])
    hand.stream_row(event)
    hand.archive_row(event, first=hand.positions[1])
    hand.empty(hand.first)


def more_than_the_body(hand: Hand) -> None:
    whole(hand)
    hand.empty(more=", topic = 'forged'")


def another_version(hand: Hand) -> None:
    whole(hand)
    hand.empty(more=", version = 900")


def another_position(hand: Hand) -> None:
    whole(hand)
    hand.empty(more=", position = 900000")


def other_bytes(hand: Hand) -> None:
    whole(hand)
    hand.database.run(f"UPDATE events SET state = {OTHER[hand.database.kind]} WHERE position = ?", hand.first)


def beyond_the_head(hand: Hand) -> None:
    event = hand.record(last=9_000)
    hand.stream_row(event)
    hand.archive_row(event, last=9_000)
    hand.empty()


def a_head_of_another_epoch(hand: Hand) -> None:
    raise_epoch(hand.made.log, ADA, reason="a test")
    whole(hand)
    hand.empty()


def a_tree_that_is_not_there(hand: Hand) -> None:
    hand.database.run("UPDATE tracking SET notification_id = 1 WHERE application_name = 'tree'")
    whole(hand)
    hand.empty()


def an_archive_that_no_event_records(hand: Hand) -> None:
    hand.archive_row(stored(hand.made.log.writer.append(an_append())))


def an_archive_of_an_older_event(hand: Hand) -> None:
    event = hand.record()
    stored(hand.made.log.writer.append(an_append()))
    hand.archive_row(event)


def an_archive_with_another_range(hand: Hand) -> None:
    hand.archive_row(hand.record(), last=hand.last - 1)


def an_archive_with_another_digest(hand: Hand) -> None:
    hand.archive_row(hand.record(), digest="e")


def an_archive_with_another_name(hand: Hand) -> None:
    hand.archive_row(hand.record(), name="other")


def an_archive_with_another_count(hand: Hand) -> None:
    hand.archive_row(hand.record(), events=1)


def a_record_in_another_stream(hand: Hand) -> None:
    log = hand.made.log
    append = an_append()
    [row] = append.events
    append.events = [row._replace(topic=Archived.TOPIC)]
    hand.stream_row(stored(log.writer.append(append)))


def a_stream_once_the_archive_is_closed(hand: Hand) -> None:
    hand.stream_row(whole(hand), hand.database.to_id(hand.made.running))


def a_stream_of_an_older_event(hand: Hand) -> None:
    event = hand.record()
    stored(hand.made.log.writer.append(an_append()))
    hand.stream_row(event)


def a_stream_ahead_of_its_event(hand: Hand) -> None:
    hand.stream_row(hand.made.log.store.head() + 1)


TRIES = (
    nothing_recorded, no_longer_newest, another_stream, outside_the_range, more_than_the_body, another_version,
    another_position, other_bytes, beyond_the_head, a_head_of_another_epoch,
    an_archive_that_no_event_records, an_archive_of_an_older_event, an_archive_with_another_range,
    an_archive_with_another_digest, an_archive_with_another_name, an_archive_with_another_count, a_record_in_another_stream,
    a_stream_once_the_archive_is_closed, a_stream_of_an_older_event, a_stream_ahead_of_its_event,
    a_tree_that_is_not_there,
)  # fmt: skip


def test_no_condition_can_be_left_out(database: SqlBackend) -> None:
    """One after the other on one log: none of them leaves anything that helps the next one."""
    log = database.open()
    kept = archive_rows(log.store)
    for number, attempt in enumerate(TRIES):
        made = scene(log, database, prefix=f"{number}-", jobs=1)
        before = dict(whole_log_of(made))
        refuse(partial(attempt, Hand(database, made)), attempt.__name__)
        assert {position: row for position, row in whole_log_of(made).items() if position in before} == before, attempt
        # What was recorded by hand stays in the log for ever; make its name and streams none of the next one's business.
        for row in kept.archives():
            if row.name == "by-hand":
                loosen(database, row.event)


def refuse(run: Callable[[], Any], name: str) -> None:
    try:
        run()
    except REFUSED:
        return
    pytest.fail(f"{name}: not refused")


def whole_log_of(made: Scene) -> dict[int, Any]:
    return {row[0]: tuple(row) for row in archive_rows(made.log.store).at(range(1, made.log.store.head() + 1))}


def loosen(database: SqlBackend, event: int) -> None:
    """Rename an archive, as only somebody can who drops the triggers."""
    with_triggers_off(database, "archives", f"UPDATE archives SET name = 'try-{event}' WHERE event = {event}")


def with_triggers_off(database: SqlBackend, table: str, sql: str) -> None:
    if isinstance(database, PostgresBackend):
        database.run(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        database.run(sql)
        for (name,) in database.run(
            "SELECT tgname FROM pg_trigger WHERE tgrelid = ?::regclass AND NOT tgisinternal", table
        ):
            database.run(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}")
        return
    found = database.run("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ?", table)
    for name, _ in found:
        database.run(f"DROP TRIGGER {name}")
    database.run(sql)
    for _, definition in found:
        database.run(definition)


def test_all_conditions_together_let_a_body_be_emptied(database: SqlBackend) -> None:
    """So each of the refusals above is for its own reason; what was emptied so is told by `verify`."""
    made = scene(database.open(), database)
    hand = Hand(database, made)

    whole(hand)
    hand.empty()

    assert emptied(made.log.store) == {made.completed[0]}


STAYS = {
    "delete an archive": "DELETE FROM archives",
    "delete a stream": "DELETE FROM archived_streams",
    "change a digest": "UPDATE archives SET digest = 'x'",
    "change a range": "UPDATE archives SET last = last + 1",
    "change a name": "UPDATE archives SET name = 'x'",
    "change an event": "UPDATE archives SET event = event + 1",
    "change a count": "UPDATE archives SET events = 0",
    "give a stream to another": "UPDATE archived_streams SET archive = archive + 1",
    "put a body back": "UPDATE events SET state = {other} WHERE position = 1",
}
OF_SQLITE = {
    "replace an archive": "INSERT OR REPLACE INTO archives SELECT event, name, 1, 2, 3, 'x', 'y' FROM archives",
    "replace a stream": "REPLACE INTO archived_streams SELECT stream_id, 1 FROM archived_streams",
    "replace another's name": "UPDATE OR REPLACE archives SET name = 'y'",
}
OF_POSTGRES = {
    "truncate archives": "TRUNCATE archives",
    "truncate streams": "TRUNCATE archived_streams",
    "upsert an archive": (
        "INSERT INTO archives SELECT * FROM archives ON CONFLICT (event) DO UPDATE SET digest = excluded.digest || 'x'"
    ),
}


def test_what_was_recorded_stays(database: SqlBackend, tmp_path: Path) -> None:
    made = scene(database.open(), database)
    archived(made, tmp_path / "archives")
    before = whole_log(made.log.store)
    kinds = OF_SQLITE if database.kind == "sqlite" else OF_POSTGRES

    for name, sql in (STAYS | kinds).items():
        refuse(partial(database.run, sql.format(other=OTHER[database.kind])), name)
    if isinstance(database, PostgresBackend):
        with database.connection() as connection:
            connection.execute("SET session_replication_role = replica")
            for sql in STAYS.values():
                with pytest.raises(psycopg.Error):
                    connection.execute(sql.format(other=OTHER["postgres"]).encode())

    assert whole_log(made.log.store) == before


def test_a_file_may_move(backend: Backend, tmp_path: Path) -> None:
    made = scene(backend.open(), backend)
    done = archived(made, tmp_path / "archives")
    before = whole_log(made.log.store)
    assert done.manifest is not None
    (tmp_path / "archives").rename(tmp_path / "attic")

    assert archive_rows(made.log.store).move(done.manifest.name, str(tmp_path / "attic"))
    assert not archive_rows(made.log.store).move("none", str(tmp_path))
    assert whole_log(made.log.store) == before
    (tmp_path / "attic").rename(tmp_path / "shelf")
    made.log.store.bodies.files.folders = (tmp_path / "shelf",)
    assert whole_log(made.log.store) == before


# -- two at once, and what happens between file and transaction ----------------------------------------------------------


def between(made: Scene, folder: Path, action: Callable[[], None]) -> None:
    """Archive, with *action* between the published file and the transaction."""
    with armed("archive.published", once_only(action)):
        archived(made, folder)


def once_only(action: Callable[[], None]) -> Callable[[], None]:
    left = [action]

    def run() -> None:
        if left:
            left.pop()()

    return run


def test_of_two_at_once_the_second_is_refused_and_changes_nothing(backend: Backend, tmp_path: Path) -> None:
    made = scene(backend.open(), backend)
    other = made._replace(log=backend.open())
    before = whole_log(made.log.store)

    with pytest.raises(StoreBusyError):
        between(made, tmp_path / "one", lambda: void(archived(other, tmp_path / "two")))

    assert len(archive_rows(made.log.store).archives()) == 1
    after = whole_log(made.log.store)
    assert after[:-1] == before
    assert archived(made, tmp_path / "one").manifest is None


def test_two_in_one_folder_wait_for_each_other(backend: Backend, tmp_path: Path) -> None:
    made = scene(backend.open(), backend)
    other = made._replace(log=backend.open())
    refused: list[BaseException] = []

    def second() -> None:
        with pytest.raises(StoreBusyError) as caught:
            archived(other, tmp_path / "archives")
        refused.append(caught.value)

    with armed("archive.written", once_only(second)):
        archived(made, tmp_path / "archives")

    assert refused
    assert emptied(made.log.store) == made.ended


def test_a_new_epoch_between_file_and_transaction_stops_it(backend: Backend, tmp_path: Path) -> None:
    made = scene(backend.open(), backend)

    with pytest.raises(EpochChangedError):
        between(made, tmp_path / "archives", lambda: void(raise_epoch(made.log, ADA, reason="a test")))

    assert emptied(made.log.store) == set()


def test_an_append_between_file_and_transaction_does_not_matter(backend: Backend, tmp_path: Path) -> None:
    made = scene(backend.open(), backend)

    between(made, tmp_path / "archives", lambda: void(stored(made.log.writer.append(an_append()))))

    assert emptied(made.log.store) == made.ended


@pytest.mark.parametrize(
    "point",
    ["archive.written", "archive.verified", "archive.published", "archive.before_commit", "archive.after_commit"],
)
def test_what_breaks_off_anywhere_leaves_the_log_as_it_reads(backend: Backend, tmp_path: Path, point: str) -> None:
    made = scene(backend.open(), backend)
    before = whole_log(made.log.store)

    with armed(point, once(RuntimeError("broken off"))), pytest.raises(RuntimeError):
        archived(made, tmp_path / "archives")

    is_done = point == "archive.after_commit"
    assert emptied(made.log.store) == (made.ended if is_done else set())
    assert whole_log(made.log.store)[: len(before)] == before
    assert (archived(made, tmp_path / "archives").manifest is None) == is_done
    assert emptied(made.log.store) == made.ended
    assert whole_log(made.log.store)[: len(before)] == before
    names = sorted(path.name for path in (tmp_path / "archives").iterdir())
    assert len(names) == 3, names  # one archive with its manifest, and the folder's lock


def test_what_was_published_is_never_written_over(backend: Backend, tmp_path: Path) -> None:
    """A killed run has left a file; meanwhile another job of the same range has ended."""
    made = scene(backend.open(), backend)
    with armed("archive.published", once(RuntimeError("killed"))), pytest.raises(RuntimeError):
        archived(made, tmp_path / "archives", most=10)
    left = {path: path.read_bytes() for path in (tmp_path / "archives").glob("*-*")}
    for path in left:
        path.write_bytes(path.read_bytes() + b" ")

    done = archived(made, tmp_path / "archives", most=10)

    assert done.manifest is not None
    assert done.manifest.name.endswith("-2")
    assert {path: path.read_bytes()[:-1] for path in left} == left
    sign(made.log.store, SIGNER, None)


def void(_: object) -> None:
    """A result that nobody wants."""
