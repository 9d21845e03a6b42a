"""What only a running product can show of a log: it serves what is stored, and one healthy worker ends every job."""

import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any, Final
from uuid import UUID

from joblog import Actor, JobLog
from joblog.domain.errors import JobLogError, UnknownEventError
from joblog.domain.events import CODE_VOCABULARY
from joblog.domain.job import fold
from joblog.domain.status import Status
from joblog.workers.commands import claiming
from tests.faults.journal import Journal, story_of
from tests.faults.oracle import TOPICS, Oracle, Violation
from tests.faults.reader import Row, open_reader
from tests.faults.workload import RunIds, SharedClock, finish_job, watch

ROUNDS: Final = 400  #: passes of the worker over the queue; each job needs one or two
ENDED: Final = {Status.COMPLETED.value, Status.CANCELLED.value}
Opener = Callable[..., JobLog]


def serve(log: JobLog, url: str) -> list[Violation]:
    """The product serves every event as stored, unknown ones too (S18), and replays every job as the log has it."""
    found: list[Violation] = []
    with open_reader(url) as reader:
        stored = reader.events()
    served: list[tuple[Any, ...]] = []
    while page := log.store.log(len(served), 300):
        served += [(e.position, e.stream_id, e.version, e.topic, bytes(e.state)) for e in page]
    for mine, theirs in zip(stored, served, strict=False):
        if tuple(mine) != theirs:
            found.append(Violation("S18", f"position {mine.position}", f"the log serves another {theirs[3]}"))
    if len(stored) != len(served):
        found.append(Violation("S4", "the log", f"it serves {len(served)} of {len(stored)} events"))
    parked = {e.stream for e in stored if e.topic not in TOPICS}
    for job_id in {e.stream for e in stored if e.topic == "joblog.job.submitted"}:
        found += _replay(log, job_id, unknown=job_id in parked)
    return found


def _replay(log: JobLog, job_id: UUID, *, unknown: bool) -> list[Violation]:
    where = f"job {job_id}"
    try:
        job = log.job(job_id)
    except UnknownEventError:
        return [] if unknown else [Violation("S18", where, "it is parked, and the code knows all its events")]
    if unknown:
        return [Violation("S18", where, "an event that this code does not know was folded by guess")]
    plain = fold(None, log.mapper.decode_all(job_id, log.store.read(job_id)))
    if plain is None or plain.to_state() != job.to_state():
        return [Violation("S15", where, "snapshot and tail do not give what the log gives")]
    return []


def work_off(log: JobLog, journal: Journal, *, clock: SharedClock | None) -> list[Violation]:
    """Run one healthy worker, and an operator who resumes what waits for one, until every job has ended."""
    tick, requests = Event(), 0
    log.store.set_gate("provider", None, 0)
    log.control_queue("default", "resume", Actor("operator", f"{journal.run}-resume-the-queue"))
    log.control_queue("default", "limit", Actor("operator", f"{journal.run}-limit-the-queue"), slots=None)
    for _ in range(ROUNDS):
        log.drain_outbox()
        rows = [row for status in Status for row in _all(log, status) if row["vocabulary"] <= CODE_VOCABULARY]
        open_rows = [row for row in rows if row["status"] not in ENDED]
        if not open_rows:
            return []
        if clock is not None:
            clock.advance(timedelta(hours=1))
            log.expire("healer", limit=1000)
        for row in open_rows:
            requests += 1
            if row["status"] in {"paused", "failed"}:
                log.command("retry", row["id"], Actor("operator", f"{journal.run}-please-do-{requests}".ljust(20, ".")))
            elif clock is None and (lease := log.store.lease(row["id"])) is not None:
                log.reclaim(lease, "healer")  # its holder is dead: whoever calls this knows
        _, upcoming = log.promote()
        held = log.claim("healer", limit=16)
        if not held and clock is None and upcoming is not None:
            tick.wait(max(min((upcoming - log.now()).total_seconds(), 0.5), 0.01))
        parked = claiming.replay(log, held)
        if parked:
            return [Violation("S18", f"job {parked[0].job_id}", "a job with events of newer code was claimed")]
        for one in held:
            finish_job(log, journal, one)
    left = [(row["status"], str(row["id"]), row["ready"], row["blocked"]) for row in open_rows]
    return [Violation("L1", "the queue", f"a healthy worker left {len(left)} jobs behind: {left[:3]}")]


def _all(log: JobLog, status: Status) -> list[Row]:
    found: list[Row] = []
    before = None
    while page := log.store.find_jobs(status=status.value, before=before, limit=200):
        found += page
        before = (page[-1]["created_at"], page[-1]["id"])
    return found


def finish(url: str, journal: Path, open_log: Opener, *, clock: SharedClock | None, run: str) -> list[Violation]:
    """Serve, work off, and judge all of it again; changes the database and its journal."""
    log = open_log(url, ids=RunIds(run))
    facts = Journal(journal, run)
    try:
        found = serve(log, url)
        watch(log, facts)
        try:
            found += work_off(log, facts, clock=clock)
        except JobLogError as error:
            where = traceback.extract_tb(error.__traceback__)[-6:]
            calls = " > ".join(f"{frame.name}:{frame.lineno}" for frame in where)
            found.append(Violation("L7", "the queue", f"the healthy worker was refused: {error!r} ({calls})"))
        found += serve(log, url)
    finally:
        log.close()
        facts.close()
    story = story_of(journal)
    with open_reader(url) as reader:
        found += Oracle(slack=timedelta(seconds=1)).check(reader, story, full=True)
    return found


def is_idle(log: JobLog) -> bool:
    return not any(log.store.find_jobs(status=status, limit=1) for status in ("queued", "running", "waiting"))
