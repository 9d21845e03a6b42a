"""In which order due jobs are claimed; the same rule for every store."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .store import JobRow

#: What a claim needs of a job's row.
CLAIM_COLUMNS: Final = (
    "id",
    "version",
    "vocabulary",
    "kind",
    "tenant",
    "queue",
    "priority",
    "gate",
    "exclusive_key",
    "due_at",
    "token",
    "attempt",
    "crashes",
    "updated_at",
)
#: A due job gains one priority for each minute it has waited, so that nothing starves (LEA-19).
AGEING_MICROS: Final = 60_000_000
#: How often one claim looks further; the next one goes on from there.
ROUNDS: Final = 6


def rank(row: JobRow) -> tuple[int, int, int, int, bytes]:
    """Sort key: the level's aged priority, the tenant's round, the tenant's turn, the oldest due, the id."""
    key = row["id"]
    return row["level"], row["round"], row["turn"], row["due_at"], key if isinstance(key, bytes) else key.bytes


def level(priority: int, oldest_due: int, now: int) -> int:
    """A priority, aged by the longest wait in it.

    The age is that of the level, not of each job: else the old backlog of one tenant would outrank all others.
    """
    return priority - max(now - oldest_due, 0) // AGEING_MICROS


def pick(
    look: Callable[[int], list[JobRow]],
    limit: int,
    room: dict[str, int | None],
    held: Callable[[set[str]], set[str]],
    block: Callable[[list[JobRow]], None],
) -> list[JobRow]:
    """Choose of what *look* finds, and *block* what an exclusive key holds back: it is not looked at again.

    Looks further where that stands in the way, else a crowd behind one key would hide every job behind it; and where
    the tenants' shares were not all used.
    """
    reach = limit
    for _ in range(ROUNDS):
        candidates = look(reach)
        keys = held({row["exclusive_key"] for row in candidates} - {""})
        chosen, blocked = choose(candidates, limit, dict(room), keys.__contains__)
        if blocked:
            block(blocked)
        used_up = len(chosen) == len(candidates) and _is_cut(candidates, reach)
        if len(chosen) == limit or not (blocked or used_up):
            break
        reach *= 4
    return chosen


def _is_cut(candidates: list[JobRow], reach: int) -> bool:
    """Whether some tenant of a lane has filled its share, so that it may have more."""
    lanes: dict[tuple[Any, ...], Counter[str]] = {}
    for row in candidates:
        lane = (row["queue"], row["kind"], row["gate"], row["priority"])
        lanes.setdefault(lane, Counter())[row["tenant"]] += 1
    return any(max(counts.values()) * len(counts) >= reach for counts in lanes.values())


def choose(
    candidates: Iterable[JobRow], limit: int, room: dict[str, int | None], held: Callable[[str], bool]
) -> tuple[list[JobRow], list[JobRow]]:
    """The first *limit* candidates that fit, and those whose exclusive key another job holds.

    *room* is how many jobs each queue and gate still takes (None: any number); it is used up.
    """
    chosen: list[JobRow] = []
    blocked: list[JobRow] = []
    keys: set[str] = set()
    for row in sorted(candidates, key=rank):
        if len(chosen) == limit:
            break
        names = [f"queue {row['queue']}", *([f"gate {row['gate']}"] if row["gate"] else [])]
        if any(room.get(name) == 0 for name in names):
            continue
        if key := row["exclusive_key"]:
            if key in keys or held(key):
                blocked.append(row)
                continue
            keys.add(key)
        for name in names:
            if (left := room.get(name)) is not None:
                room[name] = left - 1
        chosen.append(row)
    return chosen, blocked
