"""What `doctor` looks at: each check answers ok, warn or fail, with what to do about it."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from ...domain.errors import ArchiveMissingError
from ...eventstore import inspection
from ...eventstore.opening import wal_reset_case
from ...eventstore.schema import SCHEMA_VERSION
from ..text import clean, counted, size, span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...workers.commands.log import JobLog

Level = Literal["ok", "warn", "fail"]

_LITTLE: Final = 1_000_000_000  #: bytes of free disk that are worth a word
_TOO_LITTLE: Final = 50_000_000
_LONG_WAL: Final = 256_000_000
_OFFSET_WARN, _OFFSET_FAIL = 1.0, 30.0  #: seconds between our clock and the store's
_LATE: Final = 60.0  #: seconds that a due job may wait
_STALE: Final = 60.0  #: seconds that an ended lease may stand
_SAMPLE: Final = 25  #: newest jobs whose rows are compared with their events
_LEASES: Final = 10_000
#: What each setting must be, for an acknowledged event to survive a power cut.
_SQLITE: Final = {"journal_mode": "wal", "synchronous": "2", "wal_autocheckpoint": "0", "recursive_triggers": "1"}
_POSTGRES: Final = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}


class Check(NamedTuple):
    """One line of the answer."""

    name: str
    level: Level
    text: str
    hint: str = ""


# -- the machine -----------------------------------------------------------------------------------------------------


def of_folder(file: Path) -> Iterator[Check]:
    """Whether the log's file can grow where it lies."""
    folder = file.absolute().parent
    if not folder.is_dir():
        yield Check("folder", "fail", f"{folder} does not exist", "create it, or give another --db")
        return
    try:
        with tempfile.TemporaryFile(dir=folder, prefix=".joblog-doctor-") as probe:
            probe.write(b"joblog")
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        hint = "SQLite needs to write into the folder, not only into the file"
        yield Check("folder", "fail", f"{folder} can't be written to: {error.strerror}", hint)
    else:
        yield Check("folder", "ok", f"{folder} can be written to")
    yield of_file_system(folder)
    free = shutil.disk_usage(folder).free
    level: Level = "fail" if free < _TOO_LITTLE else "warn" if free < _LITTLE else "ok"
    yield Check("disk", level, f"{size(free)} free", "" if level == "ok" else "a full disk stops every append")


def of_file_system(folder: Path) -> Check:
    """WAL and locks need a local file system."""
    from ...workers import presence

    if presence.is_local(folder):
        return Check("file-system", "ok", "local")
    hint = "put the file on a local disk, or use PostgreSQL"
    return Check(
        "file-system", "fail", f"{folder} lies on a network file system, where WAL and locks can't be trusted", hint
    )


def of_writer_lock(file: Path) -> Check:
    """Whether somebody sits on the lock that all writers queue for."""
    from . import lock_holder

    holder = lock_holder.find(file.with_name(file.name + ".writer"))
    if holder is None:
        return Check("writer-lock", "ok", "nobody holds it for long")
    if holder.is_stopped:
        hint = f"let it go on (kill -CONT {holder.pid}) or end it (kill -9 {holder.pid})"
        return Check("writer-lock", "fail", f"process {holder.pid} holds it and is stopped: nobody can write", hint)
    hint = f"see what process {holder.pid} does" if holder.pid else "see what writes"
    return Check("writer-lock", "warn", f"process {holder.pid or '?'} has held it for {span(holder.seconds)}", hint)


# -- the database ----------------------------------------------------------------------------------------------------


def of_database(log: JobLog) -> Iterator[Check]:
    """Version, schema and the settings that make an acknowledged event last."""
    state, schema = log.store.state(), inspection.schema(log.store)
    text = f"{log.store.dialect}, {state.head:,} events, epoch {state.epoch}, generation {state.generation}"
    yield Check("log", "ok", text)
    if schema.version == SCHEMA_VERSION:
        yield Check("schema", "ok", f"version {schema.version}")
    else:
        hint = "fine while versions are mixed; upgrade this joblog before the next migration"
        yield Check("schema", "warn", f"version {schema.version}, this joblog writes {SCHEMA_VERSION}", hint)
    settings = inspection.settings(log.store)
    wanted = _SQLITE if log.store.dialect == "sqlite" else _POSTGRES
    wrong = {name: settings.get(name, "?") for name, value in wanted.items() if settings.get(name) != value}
    said = ", ".join(f"{name}={settings.get(name)}" for name in wanted)
    if wrong:
        wish = ", ".join(f"{name}={wanted[name]}" for name in wrong)
        yield Check("durability", "fail", said, f"acknowledged events can be lost; set {wish}")
    else:
        yield Check("durability", "ok", said)
    yield from _of_sqlite(log) if log.store.dialect == "sqlite" else _of_postgres(log, settings)


def _of_sqlite(log: JobLog) -> Iterator[Check]:
    yield Check("sqlite", "ok", wal_reset_case())
    path: Path = log.store.path  # type: ignore[attr-defined]
    wal = path.with_name(path.name + "-wal")
    length = wal.stat().st_size if wal.exists() else 0
    hint = "a reader that never ends keeps it; find it, or restart the workers" if length > _LONG_WAL else ""
    yield Check("wal", "warn" if hint else "ok", f"{size(length)} in {wal.name}", hint)


def _of_postgres(log: JobLog, settings: dict[str, str]) -> Iterator[Check]:
    yield Check("server", "ok", f"PostgreSQL {settings['server_version']}, wal_level={settings['wal_level']}")
    used, most = inspection.connections(log.store), int(settings["max_connections"])
    hint = "raise max_connections, or run fewer processes" if used > most * 0.9 else ""
    yield Check("connections", "warn" if hint else "ok", f"{used} of {most}", hint)


def of_clock(log: JobLog) -> Check:
    """How far this machine's clock is from the store's, which decides."""
    offset = (log.now() - log.clock.now()).total_seconds()
    far = abs(offset)
    level: Level = "fail" if far > _OFFSET_FAIL else "warn" if far > _OFFSET_WARN else "ok"
    hint = (
        "" if level == "ok" else "the store's clock decides; set this machine's (NTP), so that due times mean the same"
    )
    return Check("clock", level, f"{span(far)} {'behind' if offset > 0 else 'ahead of'} the store's", hint)


# -- the work --------------------------------------------------------------------------------------------------------


def of_leases(log: JobLog) -> Check:
    """Whether jobs are held under leases that have ended."""
    now, boot = log.store.lease_now(), log.store.boot_id()
    leases = inspection.leases(log.store, limit=_LEASES)
    ended = [one for one in leases if one.boot_id != boot or one.lease_until <= now]
    stale = [one for one in ended if one.boot_id != boot or (now - one.lease_until) / 1_000_000 > _STALE]
    text = f"{counted(len(leases), 'job')} running, {len(ended)} of them with an ended lease"
    if stale:
        hint = f"start a worker: it takes {counted(len(stale), 'job')} back, such as {stale[0].job_id}"
        return Check("leases", "warn", text, hint)
    return Check("leases", "ok", text)


def of_workers(log: JobLog) -> Check:
    """How many are alive, as far as this machine can tell."""
    from .waiting import live_workers

    return Check("workers", "ok", f"{counted(live_workers(log), 'worker')} of this account alive on this machine")


def of_lag(log: JobLog) -> Iterator[Check]:
    """Whether something is due that nobody takes."""
    store, now = log.store, log.store.now()
    rows = store.queue_rows()
    late: list[str] = []
    for name, waits in inspection.ready(store, inspection.ready_queues(store)).items():
        since = 0.0 if waits.oldest_due is None else (now - waits.oldest_due) / 1_000_000
        if since > _LATE and not rows.get(name, {}).get("paused"):
            jobs = counted(waits.jobs, "job") if waits.jobs < inspection.FEW else f"more than {waits.jobs - 1} jobs"
            late.append(f"{jobs} of queue {clean(name)}, the oldest for {span(since)}")
    overdue = inspection.overdue(store, now - int(_LATE * 1_000_000))
    if overdue is not None:
        late.append(f"a job that no worker has made ready for {span((now - overdue) / 1_000_000)}")
    if late:
        yield Check("due", "warn", f"due and not taken: {'; '.join(late)}", "run a worker for these queues and kinds")
    else:
        yield Check("due", "ok", "nothing has been due for long")
    paused = sorted(clean(name) for name, row in rows.items() if row["paused"])
    if paused:
        yield Check("queues", "ok", f"paused: {', '.join(paused)}")
    if waiting := inspection.outbox_size(store):
        yield Check("outbox", "ok", f"{counted(waiting, 'submit')} on the way into the log")


def _of_views(log: JobLog) -> Iterator[Check]:
    """Whether the views that follow the log can go on, and whether somebody follows."""
    from ...projections import queries

    found = queries.lag(log.store)
    for one in found:
        if one.stopped_at is not None:
            text = f"{one.name} stands still at position {one.stopped_at:,}: {clean(one.reason)}"
            yield Check("view", "warn", text, f"run newer code, or joblog projections rebuild {one.name}")
    late = [one for one in found if one.stopped_at is None and one.seconds > _LATE]
    if late:
        text = f"{', '.join(one.name for one in late)}: {span(max(one.seconds for one in late))} behind"
        yield Check("views", "warn", text, "a worker follows by itself; else joblog projections run")
    elif len(found) > len([one for one in found if one.stopped_at is not None]):
        behind = max(one.events for one in found if one.stopped_at is None)
        yield Check("views", "ok", f"at most {counted(behind, 'event')} behind")


def of_projections(log: JobLog) -> Iterator[Check]:
    """Whether the job table says what the log says, and how far the followers are."""
    from ...projections import verify

    looked_at, wrong = 0, []
    for row in log.store.find_jobs(limit=_SAMPLE):
        try:
            differs = any(verify.compare_row(log.store, log.mapper, row))
        except ArchiveMissingError:  # of which the check of archives tells
            continue
        looked_at += 1
        wrong += [row["id"]] * differs
    if wrong:
        hint = "joblog projections verify jobs tells all; joblog projections rebuild jobs mends it"
        yield Check(
            "job-table", "fail", f"{len(wrong)} of the newest {looked_at} rows differ from the log: {wrong[0]}", hint
        )
    else:
        yield Check("job-table", "ok", f"the newest rows say what the log says ({looked_at} looked at)")
    head = log.store.head()
    yield from _of_views(log)
    views = log.store.views.standings()
    for name, position in inspection.followers(log.store).items():
        if name in views:
            continue
        yield Check("follower", "ok", f"{clean(name)} is {counted(max(head - position, 0), 'event')} behind")
    rebuild = inspection.rebuild(log.store)
    if rebuild is not None and rebuild.alive_until < log.store.now():
        hint = "joblog projections rebuild jobs goes on there"
        yield Check("rebuild", "warn", f"a rebuild died at position {rebuild.position:,}", hint)
