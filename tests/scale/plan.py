"""What a claim, the promoter and a worker's look at the queue run beside every backlog: one plan, and bounded work."""

import re
from datetime import timedelta
from typing import Final

from joblog import JobLog, LeasePolicy
from tests.scale.backlog import BACKLOGS, LIMIT, add_due, analyze, prepare
from tests.scale.probe import Seen, probe

#: On PostgreSQL no transaction may outlive a third of the lease, and filling takes long.
PATIENT: Final = LeasePolicy(timedelta(hours=1), timedelta(minutes=10))
_STRICT_TABLES: Final = ("jobs_0", "events", "unit_results")
_NEVER: Final = tuple(f"{table} seq scans" for table in _STRICT_TABLES)


def claim(log: JobLog) -> Seen:
    """A claim of 64 jobs."""
    return probe(log, "claim.before_commit", lambda: log.claim("probe", limit=LIMIT))


def promote(log: JobLog, limit: int = 100) -> Seen:
    """A pass of the promoter that finds due jobs."""
    return probe(log, "promote.before_commit", lambda: log.promote(limit))


def outlook(log: JobLog) -> Seen:
    """What an idle worker asks at each poll."""
    return probe(log, "", lambda: log.store.outlook(["default"], "probe"))


# -- verdict -------------------------------------------------------------------------------------------------------------

COMMANDS: Final = {"claim": claim, "outlook": outlook, "promote": promote}
STAGES: Final = ("without statistics", "with statistics")
DUE: Final = 200  #: jobs that the promoter can move, 100 in a pass

Found = dict[tuple[str, str, str], Seen]  #: by backlog, command and stage


def examine(url: str, backlog: str, rows: int) -> Found:
    """Fill a new database, then look at every command before and after ANALYZE."""
    found: Found = {}
    with JobLog.open(url, leases=PATIENT) as log:
        prepare(log, rows, BACKLOGS[backlog][1])
        add_due(log, DUE)
        for stage in STAGES:
            if stage == STAGES[1]:
                analyze(log)
            for name, command in COMMANDS.items():
                found[backlog, name, stage] = command(log)
    return found


def faults(found: Found) -> list[str]:
    """Statements with more than one plan, growing tables that are walked, and work that grows with the backlog."""
    wrong: list[str] = []
    for name in COMMANDS:
        plans: dict[str, set[str]] = {}
        for (_, command, _), seen in found.items():
            if command == name:
                for statement, some in seen.plans.items():
                    plans.setdefault(statement, set()).update(some)
        wrong += [
            f"{name}: {len(some)} plans of {text}: {sorted(some)}" for text, some in plans.items() if len(some) > 1
        ]
    for (backlog, name, stage), seen in found.items():
        wrong += [f"{name}, {backlog}, {stage}: {fault}" for fault in _scans(seen)]
        same = found["few queued" if backlog == "many queued" else "none", name, stage]
        if backlog not in ("none", "few queued"):
            wrong += [f"{name}, {backlog}, {stage}: {fault}" for fault in _grown(seen, same)]
    return wrong


def _scans(seen: Seen) -> list[str]:
    bad: list[str] = []
    for statement, plans in seen.plans.items():
        for plan in plans:
            whole = [table for table in _STRICT_TABLES if re.search(rf"SCAN {table}(?! USING)|Seq Scan {table}", plan)]
            bad += [f"{table} is scanned by {statement}: {plan}" for table in whole]
    bad += [f"{what}: {count}" for what, count in seen.work.items() if count and what in _NEVER]
    return bad


def _grown(seen: Seen, small: Seen) -> list[str]:
    """Work beyond that with a small backlog; a tree that is one level higher, or a dead entry, is no matter."""
    return [
        f"{what}: {count}, not {small.work.get(what, 0)}"
        for what, count in seen.work.items()
        if count > 1.2 * small.work.get(what, 0) + 100
    ]
