"""How a command ends: one number for each kind of end, for scripts; the only place that knows them."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ...domain.errors import JobLogError


class Exit(IntEnum):
    """What the shell sees."""

    DONE = 0
    FAILED = 1  #: unexpected, or the reader of our output went away
    USAGE = 2  #: a value that can't be taken; nothing was written
    NOT_FOUND = 3  #: or not yours
    CONFLICT = 4  #: the log says otherwise by now: stale version, wrong state, already running
    CHECK_FAILED = 5  #: log, projection or schema is not what it must be
    UNHEALTHY = 6  #: the store can't be used safely; `doctor` found something
    PARTLY = 7  #: some of many were refused; the output has the counts
    JOB_FAILED = 10  #: `--wait`
    JOB_CANCELLED = 11  #: `--wait`
    JOB_PARKED = 12  #: `--wait`: paused, or the time was up
    TRY_AGAIN = 75  #: busy or unreachable; the same command again is safe
    HUNG_UP = 129  #: SIGHUP, after a clean end
    INTERRUPTED = 130  #: SIGINT, after a clean end
    TERMINATED = 143  #: SIGTERM, after a clean end


#: Refusals, by their stable code; one that is not here ends as the nearest class above it does.
OF_CODE: Final[dict[str, Exit]] = {
    "joblog-error": Exit.FAILED,
    "refused": Exit.CONFLICT,
    "invalid-input": Exit.USAGE,
    "invalid-field": Exit.USAGE,
    "unstorable": Exit.USAGE,
    "too-large": Exit.USAGE,
    "secret-in-input": Exit.USAGE,
    "invalid-arguments": Exit.USAGE,
    "unknown-kind": Exit.USAGE,
    "source-error": Exit.USAGE,
    "state-conflict": Exit.CONFLICT,
    "job-not-found": Exit.NOT_FOUND,
    "queue-not-found": Exit.NOT_FOUND,
    "consumer-not-found": Exit.NOT_FOUND,
    "gate-not-found": Exit.NOT_FOUND,
    "forbidden": Exit.NOT_FOUND,
    "token-not-found": Exit.NOT_FOUND,
    "request-refused": Exit.USAGE,
    "unauthorized": Exit.NOT_FOUND,
    "scope-missing": Exit.NOT_FOUND,
    "overloaded": Exit.TRY_AGAIN,
    "view-behind": Exit.TRY_AGAIN,
    "unexpected": Exit.FAILED,
    "wrong-state": Exit.CONFLICT,
    "lease-held": Exit.CONFLICT,
    "lease-lost": Exit.CONFLICT,
    "not-due": Exit.CONFLICT,
    "version-conflict": Exit.CONFLICT,
    "key-conflict": Exit.CONFLICT,
    "unit-conflict": Exit.CONFLICT,
    "unit-done": Exit.CONFLICT,
    "checkpoint-refused": Exit.CONFLICT,
    "incomplete": Exit.CONFLICT,
    "attempts-exhausted": Exit.CONFLICT,
    "exclusive-key-held": Exit.CONFLICT,
    "request-id-reused": Exit.CONFLICT,
    "superseded": Exit.CONFLICT,
    "consumer-moved": Exit.CONFLICT,
    "store-not-empty": Exit.CONFLICT,
    "rebuild-running": Exit.CONFLICT,
    "unknown-event": Exit.CHECK_FAILED,
    "schema-missing": Exit.CHECK_FAILED,
    "schema-too-new": Exit.CHECK_FAILED,
    "log-rewound": Exit.CHECK_FAILED,
    "corrupt-log": Exit.CHECK_FAILED,
    "view-stopped": Exit.CHECK_FAILED,
    "list-changed": Exit.CHECK_FAILED,
    "bad-signature": Exit.CHECK_FAILED,
    "damaged-export": Exit.CHECK_FAILED,
    "tampered": Exit.CHECK_FAILED,
    "head-contradicted": Exit.CHECK_FAILED,
    "archive-damaged": Exit.CHECK_FAILED,
    "archive-missing": Exit.UNHEALTHY,
    "store-full": Exit.UNHEALTHY,
    "unsafe-store": Exit.UNHEALTHY,
    "store-error": Exit.FAILED,
    "atomic-too-long": Exit.FAILED,
    "atomic-unavailable": Exit.FAILED,
    "store-closed": Exit.FAILED,
    "store-forked": Exit.FAILED,
    "store-busy": Exit.TRY_AGAIN,
    "store-unavailable": Exit.TRY_AGAIN,
    "epoch-changed": Exit.TRY_AGAIN,
    "generation-changed": Exit.TRY_AGAIN,
    "outcome-unknown": Exit.TRY_AGAIN,
}

#: How a job ended, for who waited for it.
OF_STATUS: Final[dict[str, Exit]] = {
    "completed": Exit.DONE,
    "failed": Exit.JOB_FAILED,
    "cancelled": Exit.JOB_CANCELLED,
    "paused": Exit.JOB_PARKED,
}


def exit_of(error: JobLogError) -> Exit:
    """The number for a refusal."""
    codes = (error.code, *(getattr(cls, "code", "") for cls in type(error).__mro__))  # a service may know more codes
    return next(OF_CODE[code] for code in codes if code in OF_CODE)
