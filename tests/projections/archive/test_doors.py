"""Every door that a body goes through, walked before archiving, with the archive at hand, and without it."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from eventsourcing.persistence import PersistenceError

from joblog.api import attempts, documents, history, past
from joblog.domain.errors import ArchiveMissingError
from joblog.eventstore import inspection
from joblog.eventstore.append import Append
from joblog.eventstore.proof_rows import proof_rows
from joblog.eventstore.store import Store
from joblog.projections import compare, view_rebuild, view_verify
from joblog.projections import rebuild as job_rebuild
from joblog.projections.proof.audit import next_entries
from joblog.projections.proof.merkle import Frontier
from joblog.projections.transfer.export import Streamed, export
from joblog.projections.verify import row_differences
from joblog.projections.view import View
from joblog.projections.views import VIEWS
from joblog.workers import redo
from tests.conformance.backends import Backend
from tests.projections.archive.scene import Scene, archived, follow, put_back, remove, scene
from tests.projections.proof.logs import SIGNER

ROOT = Path(__file__).parents[3]
Door = Callable[[Scene, Path, int], Any]


def one(made: Scene) -> UUID:
    return made.completed[0]


def again(made: Scene, *_: Any) -> Any:
    """The unknown outcome of each append of the job, looked up by its event id."""
    rows = made.log.store.read(one(made))
    return [made.log.store.diagnose(Append(one(made), row.version - 1, [row], said(row))) for row in rows[:1]]


def said(row: Any) -> str:
    from joblog.eventstore.mapper import event_id

    return event_id(row.state)


def exported(made: Scene, folder: Path, last: int) -> bytes:
    file = folder / f"{len(list(folder.iterdir()))}.ndjson"
    export(made.log.store, file, last=last)
    return file.read_bytes()


def streamed(made: Scene, _: Path, last: int) -> bytes:
    going, found = Streamed(made.log.store, last=last), b""
    while chunk := going.chunk():
        found += chunk
    return found


def audited(made: Scene, *_: Any) -> Any:
    return next_entries(made.log.store, Frontier(), SIGNER.verifier)[:20]


def rebuilt(made: Scene, *_: Any) -> Any:
    job_rebuild.rebuild(made.log.store, made.log.mapper, "me")
    return made.log.store.jobs(sorted(made.ended))


def view_of(name: str) -> Door:
    view: View = VIEWS[name]

    def door(made: Scene, *_: Any) -> Any:
        view_rebuild.rebuild(made.log.store, made.log.mapper, view, "me")
        with made.log.store.views.dump(name) as dump:
            return {str(table): sorted(map(repr, dump.values(table))) for table in view.tables}

    return door


def verified(name: str) -> Door:
    def door(made: Scene, *_: Any) -> Any:
        return view_verify.verify(made.log.store, made.log.mapper, VIEWS[name]).differences

    return door


def aggregate(made: Scene, *_: Any) -> Any:
    return vars(made.log.application.repository.get(one(made)))


#: The views that read events of jobs.
OF_JOBS = VIEWS.keys() - {"security"}
DOORS: dict[str, Door] = {
    "a stream": lambda made, *_: made.log.store.read(one(made)),
    "a part of a stream": lambda made, *_: made.log.store.read(one(made), after=1, upto=3, newest_first=True, limit=1),
    "many streams": lambda made, *_: made.log.store.read_many(sorted(made.ended)),
    "the log": lambda made, _, last: made.log.store.log(0, 10**6, upto=last),
    "a topic of the log": lambda made, *_: made.log.store.log(0, 1, topics=("joblog.job.completed",)),
    "an unknown outcome": again,
    "all units": lambda made, *_: made.log.store.unit_states(one(made)),
    "some units": lambda made, *_: made.log.store.unit_states(one(made), ["step:1"]),
    "units by prefix": lambda made, *_: made.log.store.unit_states(one(made), prefix="step:"),
    "a job": lambda made, *_: vars(made.log.job(one(made))),
    "a job at a version": lambda made, *_: vars(made.log.job(one(made), version=3)),
    "an aggregate of the library": aggregate,
    "notifications of the library": lambda made, _, last: made.log.application.recorder.select_notifications(1, last),
    "stored events of the library": lambda made, *_: made.log.application.recorder.select_events(one(made)),
    "entries": lambda made, _, last: list(map(tuple, proof_rows(made.log.store).entries(0, 10**6, last))),
    "entries of a stream": lambda made, *_: list(
        map(tuple, proof_rows(made.log.store).stream_entries(one(made), 0, 100))
    ),
    "events of a stream": lambda made, _, last: proof_rows(made.log.store).stream_log(one(made), 0, last, 100),
    "an audit": audited,
    "an export": exported,
    "an export that is streamed": streamed,
    "a rebuild of the job table": rebuilt,
    "a verification of the job table": lambda made, *_: list(
        row_differences(made.log.store, made.log.mapper, units=True)
    ),
    "a comparison of the job table": lambda made, *_: compare.compare(
        made.log.store, made.log.mapper, "jobs", units=True
    )["items"],
    "what was passed over": lambda made, *_: list(redo.skipped_units(made.log, one(made))),
    **{f"a rebuild of {name}": view_of(name) for name in OF_JOBS},
    **{f"a verification of {name}": verified(name) for name in OF_JOBS},
}
#: Doors that only a log in a database has.
INSPECTED: dict[str, Door] = {
    "a page of a stream": lambda made, *_: inspection.stream(made.log.store, one(made), after=0, limit=100),
    "turning points": lambda made, *_: [turn.document() for turn in history.turns(made.log, one(made))],
    "every event of a job": lambda made, *_: list(history.events(made.log, one(made))),
    "attempts": lambda made, *_: attempts.attempts(made.log, one(made)),
    "the document of a job": lambda made, *_: documents.job(made.log, made.log.row(one(made))),
    "the document of its events": lambda made, *_: documents.events(made.log, one(made), after=0, limit=100),
    "the document of its units": lambda made, *_: documents.units(made.log, one(made), after="", limit=100),
}
#: What needs no body of theirs, and never says so.
OPEN: dict[str, Door] = {
    "a rebuild of security": view_of("security"),
    "a verification of security": verified("security"),
    "why": lambda made, *_: documents.why(made.log, made.log.row(one(made))),
    "the row": lambda made, *_: made.log.row(one(made)),
    "a page of jobs": lambda made, *_: made.log.store.find_jobs(),
    "the place of an event": lambda made, *_: made.log.store.position_of(one(made), 2),
    "a job as it stood": lambda made, *_: past.job(made.log, made.log.row(one(made)), 5),
    "the tree": lambda made, _, last: proof_rows(made.log.store).tile(0, 0)[: 32 * last],
}


def forget_snapshots(backend: Backend, store: Store) -> None:
    """Have every replay begin at the first event."""
    if store.dialect == "memory":
        backend.store.tables.snapshots.clear()  # type: ignore[attr-defined]
    else:
        backend.run("DELETE FROM snapshots")  # type: ignore[attr-defined]


def walk(doors: dict[str, Door], made: Scene, folder: Path, last: int) -> dict[str, Any]:
    return {name: door(made, folder, last) for name, door in doors.items()}


def test_every_door_answers_the_same_with_the_archive_and_says_what_is_missing_without(
    backend: Backend, tmp_path: Path
) -> None:
    made = scene(backend.open(), backend)
    store, files = made.log.store, tmp_path / "exports"
    files.mkdir()
    follow(made.log)
    forget_snapshots(backend, store)
    doors = DOORS | (INSPECTED if store.dialect != "memory" else {})
    last = store.head()
    before, open_before = walk(doors, made, files, last), walk(OPEN, made, files, last)
    done = archived(made, tmp_path / "archives")
    assert done.manifest is not None

    after = walk(doors, made, files, last)
    assert {name for name in doors if after[name] != before[name]} == set()
    assert walk(OPEN, made, files, last) == open_before

    remove(tmp_path / "archives")
    for name, door in doors.items():
        with pytest.raises(
            (ArchiveMissingError, PersistenceError), match=f"archive {done.manifest.name} is not at hand"
        ):
            pytest.fail(f"{name}: {door(made, files, last)}")
    assert walk(OPEN, made, files, last) == open_before
    put_back(tmp_path / "archives")

    assert {name for name, found in walk(doors, made, files, last).items() if found != before[name]} == set()


def test_nobody_reads_bodies_past_the_one_function() -> None:
    """Each module that selects the bodies of events has them filled in; a new one must too."""
    reading = re.compile(r"(?<!\w)state(?!\w)[^;]{0,200}?(?:FROM|JOIN) events\b|ev\.(?:c\.)?state|joblog_streams\(")
    found = {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
        for package in ("eventstore", "projections", "workers", "api")
        for path in (ROOT / package).rglob("*.py")
    }
    names = {name for name, text in found.items() if reading.search(text)}

    assert names >= {"eventstore/sqlite_store.py", "eventstore/postgres_store.py", "eventstore/proof_rows.py"}
    run_by_those = {"eventstore/statements.py", "eventstore/postgres_functions.py"}
    assert {name for name in names if "bodies." not in found[name]} == run_by_those
