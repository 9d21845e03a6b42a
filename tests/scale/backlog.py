"""A job table full of rows that are in a claim's way, by bulk SQL, and the jobs that a claim shall take."""

from typing import Any, Final

import sqlalchemy as sa

from joblog import Actor, JobLog, JobSpec
from joblog.domain import identity
from joblog.eventstore.schema import JOB_COLUMNS

LIMIT: Final = 64
TENANTS: Final = 50
HOUR: Final = 3_600_000_000

#: A queued job, column by column; {i} is its number, {now} the time, {id} and {text} what the database needs.
_QUEUED: Final = {
    "id": "{id}", "version": "1", "vocabulary": "1", "kind": "'bulk'", "tenant": "'tenant-' || {text}", "owner": "''",
    "queue": "'default'", "priority": "5", "gate": "''", "exclusive_key": "''", "parent_id": "''", "key": "''",
    "args_digest": "''", "tags": "'[]'", "status": "'queued'", "wish": "''", "outcome": "''", "reason": "''",
    "reason_text": "''", "due_at": "{now} - {i} % 1000", "ready": "1", "blocked": "0", "worker": "''", "token": "0",
    "attempt": "0", "unit_attempt": "0", "crashes": "0", "reclaims": "0", "failures": "0", "done": "0", "skipped": "0",
    "total": "NULL", "sequence": "0", "cursor": "NULL", "created_at": "{now} - {i}", "updated_at": "{now} - {i}",
    "started_at": "NULL", "last_attempt_at": "NULL", "finished_at": "NULL",
}  # fmt: skip
_FUTURE: Final = {"ready": "0", "priority": "0", "due_at": f"{{now}} + {HOUR} + {{i}}"}

#: Backlogs: how many rows at full size, and in what they differ from a queued job.
BACKLOGS: Final[dict[str, tuple[int, dict[str, str]]]] = {
    "none": (0, {}),
    "few queued": (10_000, {}),
    "many queued": (1_000_000, {}),
    "future, high priority": (1_000_000, _FUTURE),
    "behind a closed gate": (100_000, {"gate": "'shut'", "priority": "0"}),
    "behind a held key": (100_000, {"exclusive_key": "'{held}'", "ready": "0", "blocked": "1", "priority": "0"}),
    "finished": (500_000, {"status": "'completed'", "ready": "0", "finished_at": "{now}"}),
}


def fill(log: JobLog, rows: int, differs: dict[str, str]) -> None:
    """Put *rows* jobs into the job table; they have no events, so they can't be claimed, only be in the way."""
    if not rows:
        return
    sqlite = log.store.dialect == "sqlite"
    words = {
        "now": str(log.store.now()),
        "held": identity.exclusive("default", "held"),
        "i": "n",
        "id": "randomblob(16)" if sqlite else "gen_random_uuid()",
        "text": f"(n % {TENANTS})" if sqlite else f"(n % {TENANTS})::text",
    }
    row = {**_QUEUED, **differs}
    values = ", ".join(row[name].format(**words) for name in JOB_COLUMNS)
    names = ", ".join(f'"{name}"' for name in JOB_COLUMNS)
    if sqlite:
        numbers = f"WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < {rows}) "
        sql = f"{numbers}INSERT INTO jobs_0 ({names}) SELECT {values} FROM i"
    else:
        sql = f"INSERT INTO jobs_0 ({names}) SELECT {values} FROM generate_series(1, {rows}) i(n)"
    with log.store.engine.begin() as connection:  # type: ignore[attr-defined]
        connection.exec_driver_sql(sql if sqlite else sql.replace("%", "%%"))


def prepare(log: JobLog, rows: int, differs: dict[str, str]) -> None:
    """A held key, the jobs that a claim shall take (all kinds of them), a closed gate, and the backlog."""
    log.submit(JobSpec("holder", {}, key="holder", exclusive_key="held"))
    assert len(log.claim("holder")) == 1
    log.submit_many(
        JobSpec("wanted", {}, key=f"wanted-{n}", tenant=f"tenant-{n % 3}", priority=0, **_special(n))
        for n in range(2 * LIMIT)
    )
    log.control_queue("default", "limit", Actor("probe"), slots=10 * LIMIT)
    log.store.set_gate("shut", None, log.store.now() + 24 * HOUR)
    log.store.set_gate("open", LIMIT, 0)
    fill(log, rows, differs)


def _special(n: int) -> dict[str, Any]:
    """One in four has an exclusive key, one in four a gate."""
    return {0: {"exclusive_key": f"key-{n}"}, 1: {"gate": "open"}}.get(n % 4, {})


def add_due(log: JobLog, rows: int) -> None:
    """Jobs whose instant has come and that are not ready yet: what the promoter moves."""
    fill(log, rows, {"ready": "0", "kind": "'due'"})


def analyze(log: JobLog) -> None:
    with log.store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:  # type: ignore[attr-defined]
        connection.execute(sa.text("ANALYZE"))
