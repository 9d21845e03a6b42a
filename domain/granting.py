"""What a claim says: of one job that was replayed, or of many that are only known by their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import events as e
from .lease import Token
from .making import made

if TYPE_CHECKING:
    from datetime import datetime, timedelta


def grant(worker: str, token: Token, *, lease: timedelta, attempt: int, now: datetime) -> dict[str, Any]:
    """What ``Claimed`` says: used by ``Job.claim`` and by the claim of many jobs from their rows."""
    return {
        "worker": worker,
        "epoch": token.epoch,
        "token": token.grant,
        "lease_until": now + lease,
        "attempt": attempt,
    }


def claim_from_row(row: dict[str, Any], worker: str, *, epoch: int, lease: timedelta, now: datetime) -> e.Claimed:
    """``Job.claim`` for a job that is only known by its row, which may be stale.

    The unique (stream, version) is the authority: a stale row can never cause a double claim.
    """
    token = Token(epoch, row["token"] + 1)
    said = grant(worker, token, lease=lease, attempt=row["attempt"] + 1, now=now)
    return made(e.Claimed, row["id"], row["version"] + 1, now, **said)
