"""Kill -9 of whatever follows the log, at every fail point of tree, feed, export, import, backup, archive and restore.

On PostgreSQL nothing is restored: a backup there is an export, and an import takes it in.

A warm parent, which holds no connection, forks children that work in one folder and die at a point.  After each kill
another child judges what is left: the tree is that of the events, a consumer has neither gap nor repeat (S16), heads never
contradict each other (S17), exports, imports, backups and restores are whole or not there, and the log reads as it always
did, whatever of it lies in archives.
"""

import json
import os
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import psycopg

from joblog.domain.job import Actor
from joblog.domain.spec import JobSpec
from joblog.eventstore import failpoint
from joblog.eventstore.append import Append, EventRow
from joblog.eventstore.clock import SystemClock, SystemIds
from joblog.eventstore.entries import to_line
from joblog.eventstore.mapper import OrjsonMapper, OrjsonTranscoder
from joblog.eventstore.opening import open_store
from joblog.eventstore.proof_rows import proof_rows
from joblog.eventstore.store import Seen, Store, taking_turn
from joblog.projections.archive import make as archive_module
from joblog.projections.backup.generations import Folder
from joblog.projections.backup.make import backup
from joblog.projections.backup.restore import Request, SqliteRestore, choose
from joblog.projections.feed.consumers import Consumer
from joblog.projections.proof import tree as tree_module
from joblog.projections.proof.check import check_log
from joblog.projections.proof.heads import kept_heads, sign, stored_heads
from joblog.projections.proof.notes import Signer
from joblog.projections.proof.report import KnownHead
from joblog.projections.transfer import export as export_module
from joblog.projections.transfer import lines as lines_module
from joblog.projections.transfer import offline as offline_module
from joblog.projections.transfer.export import export
from joblog.projections.transfer.manifest import manifest_of
from joblog.projections.transfer.offline import check_export
from joblog.projections.transfer.take_in import import_log
from joblog.projections.verify import row_differences
from joblog.workers.commands.archiving import archive
from joblog.workers.commands.held import Held
from joblog.workers.commands.log import JobLog
from tests import postgres_server as servers
from tests.faults import rig
from tests.faults.rig import Report

LIFE: Final = 40  #: kills in one folder
POINTS: Final = failpoint.FOLLOWER_POINTS
POSTGRES_POINTS: Final = tuple(point for point in POINTS if not point.startswith("restore."))
#: How often the work that leads to a point passes it at least.
PASSES: Final = {"tree": 3, "consumer": 3, "export.chunk": 2}
SIGNER: Final = Signer("rig", bytes(32))
MAPPER: Final = OrjsonMapper(OrjsonTranscoder())


def small() -> None:
    """Batches and chunks so small that each work has several."""
    tree_module.BATCH = 16  # type: ignore[misc]
    archive_module.CHUNK = 7  # type: ignore[misc]
    for module in (export_module, lines_module, offline_module):
        setattr(module, "CHUNK", 40)  # noqa: B010 - a constant of several modules


class Place:
    """A folder with a log, and what its followers make of it."""

    points: tuple[str, ...] = POINTS

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder / 'joblog.db'}"
        self.kept, self.journal = folder / "key.heads", folder / "journal"
        self.backups, self.exported = folder / "backups", folder / "log.ndjson.gz"
        self.imported, self.restored = folder / "imported.db", folder / "restored.db"
        self.archives, self.read = folder / "archives", folder / "read.json"

    def store(self, path: Path | None = None) -> Any:
        return closing(open_store(self.url if path is None else f"sqlite:///{path}"))

    def target(self) -> Any:
        """The log that takes an export in."""
        return self.store(self.imported)

    def empty_target(self) -> None:
        for path in self.folder.glob("imported.db*"):
            path.unlink()

    # -- work: each leads to the points of its group ---------------------------------------------------------------------

    def work(self, group: str) -> None:
        with self.store() as store:
            grow(store, 60)
            getattr(self, f"do_{group}")(store)

    def do_tree(self, store: Store) -> None:
        sign(store, SIGNER, self.kept)

    def do_consumer(self, store: Store) -> None:
        consumer = Consumer.open(store, "rig")
        with self.journal.open("a") as journal:
            while (page := consumer.read(limit=20)).events:
                said: dict[str, int] = {"first": page.events[0].position, "last": page.events[-1].position}
                journal.write(json.dumps(said) + "\n")
                journal.flush()
                consumer.commit()
                journal.write(json.dumps({"committed": page.cursor.position}) + "\n")
                journal.flush()

    def do_export(self, store: Store) -> None:
        if manifest_of(self.exported).exists():
            manifest_of(self.exported).unlink()
            self.exported.unlink()
        part = self.exported.with_name(self.exported.name + ".part")
        if not part.exists() and not self.exported.exists():
            part.touch()
        export(store, self.exported)

    def do_import(self, store: Store) -> None:
        source = self.folder / "source.ndjson"
        for path in (source, manifest_of(source)):
            path.unlink(missing_ok=True)
        export(store, source)
        with self.target() as target:
            is_empty = not target.head()
        if not is_empty:
            self.empty_target()
        with self.target() as target:
            import_log(target, MAPPER, source)

    def do_backup(self, store: Store) -> None:
        backup(store, self.backups, keep=2)

    def do_archive(self, store: Store) -> None:
        with JobLog(store) as log:
            for held in finished(log, 3):
                held.complete()
            sign(store, SIGNER, self.kept)
            archive(log, Actor("rig"), self.archives, before=store.now() + 1)

    def do_restore(self, store: Store) -> None:
        if not Folder(self.backups).generations():
            backup(store, self.backups)
        restoring = SqliteRestore(self.restored, MAPPER, SystemClock(), SystemIds())
        is_first = not self.restored.exists()
        restoring.run(choose(self.backups), Request("rig", "because", ""))
        if is_first:  # once more, over what is there
            restoring.run(choose(self.backups), Request("rig", "because", ""))

    # -- judging ---------------------------------------------------------------------------------------------------------

    def judge(self) -> None:
        """Whether all that is left is whole.

        Raises:
            AssertionError: it is not.
        """
        with self.store() as store:
            heads = [*kept_heads(self.kept), *stored_heads(store)]
            report = check_log(store, [KnownHead(one.head, "kept", is_trusted=True) for one in heads])
            assert not report.findings, f"S17: {report.findings[0]}"
            assert not report.archived, f"an archive is not at hand: {report.archived}"
            self._judge_reading(store)
            self._judge_consumer(store)
            if manifest_of(self.exported).exists():
                assert not check_export(self.exported).findings, "an export that is not whole has a manifest"
            self._judge_import(store)
        for path in (self.restored, *self.folder.glob("restored.db.replaced-*Z")):
            if path.exists():
                with self.store(path) as store:
                    assert not check_log(store).findings, "a restored log is damaged"
                    assert store.state().epoch > 1, "S3: a restored log goes on in the old epoch"

    def _judge_reading(self, store: Store) -> None:
        """What was read once is read again, byte for byte, also what was archived meanwhile."""
        had: dict[str, Any] = json.loads(self.read.read_text()) if self.read.exists() else {"head": 0, "digest": ""}
        digest = sha256()
        for entry in proof_rows(store).entries(0, 10**6, store.head()):
            if entry[0] == had["head"] + 1 and had["head"]:
                assert digest.hexdigest() == had["digest"], f"the log does not read as before, up to {had['head']}"
            digest.update(to_line(entry))
        assert list(row_differences(store, MAPPER, units=True)) == []
        self.read.write_text(json.dumps({"head": store.head(), "digest": digest.hexdigest()}))

    def _judge_consumer(self, store: Store) -> None:
        seen = committed = 0
        for line in self.journal.read_text().splitlines() if self.journal.exists() else ():
            said = json.loads(line)
            if "committed" in said:
                committed = said["committed"]
                continue
            assert said["first"] > committed, f"S16: {said} again behind {committed}"
            assert said["first"] <= seen + 1, f"S16: a gap before {said}"
            seen = said["last"]
        row = proof_rows(store).consumer("rig")
        assert committed <= (row.position if row else 0) <= seen or not seen, f"S16: {row} after {committed}"

    def _judge_import(self, store: Store) -> None:
        with self.target() as target:
            head = target.head()
            assert head == 0 or target.log(0, head) == store.log(0, head), "an import is not what was exported"


class PostgresPlace(Place):
    """The same on two databases of the test run's server."""

    points = POSTGRES_POINTS

    def __init__(self, folder: Path, url: str, imported: str) -> None:
        super().__init__(folder)
        self.url, self._imported = url, imported

    def target(self) -> Any:
        return closing(open_store(self._imported))

    def empty_target(self) -> None:
        with psycopg.connect(self._imported.replace("+psycopg", ""), autocommit=True) as driver:
            driver.execute("DROP SCHEMA public CASCADE")
            driver.execute("CREATE SCHEMA public")


@contextmanager
def sqlite_place() -> Iterator[Place]:
    with rig.scratch() as folder:
        yield Place(folder)


@contextmanager
def postgres_place() -> Iterator[Place]:
    with rig.scratch() as folder, servers.fresh_database() as url, servers.fresh_database() as imported:
        yield PostgresPlace(folder, url, imported)


def grow(store: Store, count: int) -> None:
    """One more stream of so many events."""
    state = store.state()
    stream = UUID(int=state.head + 1)
    rows = [EventRow(n + 1, "rig.happened", b'{"n":%d}' % n) for n in range(count)]
    with taking_turn(store):
        store.append([Append(stream, 0, rows, "")], state.generation, Seen(state.epoch, 0))


def finished(log: JobLog, count: int) -> list[Held]:
    """So many jobs with a unit each, about to complete."""
    for _ in range(count):
        log.submit(JobSpec("rig", key=log.ids.next(), queue="rig"))
    log.promote()
    held = log.claim("rig", limit=count, queues=["rig"])
    for one in held:
        one.complete_units([("a", {"rows": 1})])
    return held


def victim(place: Place, point: str, passes: int, proof: Path) -> None:
    """Work until the kill; the proof is there before it."""

    def leave_proof() -> None:
        proof.write_text(point)

    failpoint.arm(point, rig.die(passes, leave_proof))
    place.work(point.split(".", maxsplit=1)[0])


def run(
    report: Report,
    *,
    kills: int,
    make: Callable[[], AbstractContextManager[Place]] = sqlite_place,
    life: int = LIFE,
) -> Report:
    """Kill until *kills* have been proven."""
    small()
    return rig.lives(report, make, _live, kills=kills, life=life)


def _live(report: Report, place: Place, chance: random.Random, count: int) -> None:
    errors, proof = place.folder / "errors", place.folder / "proof"
    points = place.points
    order = [point for _ in range(count // len(points) + 1) for point in chance.sample(points, len(points))]
    for point in order[:count]:
        passes = chance.randint(1, PASSES.get(point, PASSES.get(point.split(".", maxsplit=1)[0], 1)))
        name = f"seed {report.seed}, run {report.runs}, {point} pass {passes}"
        report.runs += 1
        proof.unlink(missing_ok=True)
        code = _child(partial(victim, place, point, passes, proof), errors)
        if code == -9 and proof.exists():
            report.fired[point] += 1
        elif code:
            report.fail(name, [errors.read_text() if errors.exists() else f"the victim ended with {code}"])
            return
        if _child(place.judge, errors):
            report.fail(name, [errors.read_text()])
            rig.keep(place.folder, f"follower-{report.seed}-{report.runs}")
            return
    report.counts["positions"] += _last_position(place, errors)


def _child(work: Callable[[], None], errors: Path) -> int:
    errors.unlink(missing_ok=True)
    return rig.reap(rig.fork(work, errors))


def _last_position(place: Place, errors: Path) -> int:
    said = place.folder / "head"

    def look() -> None:
        with place.store() as store:
            said.write_text(str(store.head()))

    return int(said.read_text()) if not _child(look, errors) else 0


if __name__ == "__main__":
    made = run(Report("follower-kills", int(os.environ.get("SEED", "1"))), kills=int(os.environ.get("KILLS", "200")))
    print(made.line(), *made.violations, sep="\n")  # noqa: T201 - for people
