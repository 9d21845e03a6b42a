"""Every refusal of the job log, as one tree of classes with stable codes.

    JobLogError
    ├── RefusedError            nothing was written, and sending the same again is refused again
    │   ├── InputError          the value itself can't be taken; names the field, the kind, the way out
    │   ├── StateError          the job, its lease or its key stands against it now
    │   └── ...
    ├── StoreError              the store can't serve now, or may not be used as it is
    └── UnknownOutcomeError     the append may or may not be in the log; reading back decides

Codes are for programs and never change; texts are for people and may.  ``docs/errors.md`` lists them, a test
walks both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from uuid import UUID


class JobLogError(Exception):
    """Anything the job log says no to."""

    code: ClassVar[str] = "joblog-error"

    def __reduce__(self) -> tuple[Any, ...]:
        """Cross to another process whole: a refusal's own arguments differ from those of ``Exception``."""
        return _again, (type(self), self.args, vars(self))


def _again(cls: type[JobLogError], args: tuple[Any, ...], state: dict[str, Any]) -> JobLogError:
    error = cls.__new__(cls, *args)
    vars(error).update(state)
    return error


class RefusedError(JobLogError):
    """A definite no: nothing was written."""

    code = "refused"


# -- the value -----------------------------------------------------------------------------------------------


class InputError(RefusedError):
    """A value that can't be taken at the edge.

    ``field`` is the path of the bad value, such as ``args.rows[3].name``.
    """

    code = "invalid-input"

    def __init__(self, field: str, problem: str, way_out: str) -> None:
        super().__init__(f"{field}: {problem}; {way_out}")
        self.field, self.problem, self.way_out = field, problem, way_out


class InvalidFieldError(InputError):
    """A field of the wrong kind, range or form."""

    code = "invalid-field"


class UnstorableError(InputError):
    """A value that no store can keep as it is (NaN, bytes, a lone surrogate, an integer over 64 bits)."""

    code = "unstorable"


class TooLargeError(InputError):
    """A value over its bound."""

    code = "too-large"


class SecretInInputError(InputError):
    """A secret where only a reference to one may stand."""

    code = "secret-in-input"


# -- the state -----------------------------------------------------------------------------------------------


class StateError(RefusedError):
    """What is asked for does not fit what the log says now."""

    code = "state-conflict"

    def __init__(self, job_id: UUID | None, text: str) -> None:
        super().__init__(f"job {job_id}: {text}" if job_id else text)
        self.job_id = job_id


class JobNotFoundError(StateError):
    """No such job for this caller."""

    code = "job-not-found"

    def __init__(self, job_id: UUID) -> None:
        super().__init__(job_id, "not found; check the id, or the tenant you ask for")


class WrongStateError(StateError):
    """The job's status does not allow it."""

    code = "wrong-state"

    def __init__(self, job_id: UUID, action: str, status: str, version: int) -> None:
        super().__init__(job_id, f"can't {action} while {status} (version {version}); look at it again first")
        self.action, self.status, self.version = action, status, version


class LeaseHeldError(StateError):
    """Another worker holds a live lease."""

    code = "lease-held"

    def __init__(self, job_id: UUID, worker: str) -> None:
        super().__init__(job_id, f"leased to {worker}; wait until the lease is released or expires")
        self.worker = worker


class LeaseLostError(StateError):
    """The caller's fencing token is not the newest, or its lease has expired."""

    code = "lease-lost"

    def __init__(self, job_id: UUID, token: int) -> None:
        super().__init__(job_id, f"lease under token {token} is lost; drop the work, another worker goes on")
        self.token = token


class NotDueError(StateError):
    """The stored instant of the next attempt has not come."""

    code = "not-due"


class VersionConflictError(StateError):
    """The stream has moved on since the caller read it."""

    code = "version-conflict"

    def __init__(self, job_id: UUID | None, expected: int) -> None:
        super().__init__(job_id, f"is no longer at version {expected}; reload it and decide again")
        self.expected = expected


class KeyConflictError(StateError):
    """An idempotency key that already stands for other arguments."""

    code = "key-conflict"

    def __init__(self, job_id: UUID, key: str) -> None:
        super().__init__(job_id, f"idempotency key {key!r} already stands for other arguments; use a new key")


class UnitConflictError(StateError):
    """A unit key that already has other evidence."""

    code = "unit-conflict"

    def __init__(self, job_id: UUID, unit: str) -> None:
        super().__init__(job_id, f"unit {unit!r} was already completed with other evidence; it is kept, not replaced")
        self.unit = unit


class UnitDoneError(StateError):
    """A unit key that already has this evidence; the checkpoint may go on."""

    code = "unit-done"

    def __init__(self, job_id: UUID, unit: str) -> None:
        super().__init__(job_id, f"unit {unit!r} is already completed; go on at the checkpoint")
        self.unit = unit


class CheckpointError(StateError):
    """A checkpoint that would move backwards, or past units that have no evidence."""

    code = "checkpoint-refused"


class IncompleteError(StateError):
    """A job that is not finished can't be completed."""

    code = "incomplete"


class ExhaustedError(StateError):
    """The attempts of this unit are spent; only an operator's retry starts a new cycle."""

    code = "attempts-exhausted"


class ExclusiveKeyHeldError(StateError):
    """Another running job holds the same exclusive key."""

    code = "exclusive-key-held"


class RequestConflictError(StateError):
    """A request id that was already used for another command."""

    code = "request-id-reused"


class SupersededError(StateError):
    """A newer command stands; the older one has no effect."""

    code = "superseded"


class UnknownEventError(StateError):
    """An event that this code does not know; the job is parked for newer code (S18)."""

    code = "unknown-event"

    def __init__(self, job_id: UUID | None, version: int, topic: str) -> None:
        super().__init__(
            job_id,
            f"event {topic!r} at version {version} is not known to this code; run a newer joblog on it",
        )
        self.version, self.topic = version, topic


class QueueNotFoundError(RefusedError):
    """No such queue."""

    code = "queue-not-found"


class ConsumerNotFoundError(RefusedError):
    """No such consumer of the feed."""

    code = "consumer-not-found"


class ConsumerMovedError(RefusedError):
    """A consumer's position that would move back, or that somebody else has moved."""

    code = "consumer-moved"


class GateNotFoundError(RefusedError):
    """No such gate."""

    code = "gate-not-found"


class DamagedExportError(RefusedError):
    """An export or a backup that is not whole, or not what its manifest says."""

    code = "damaged-export"


class StoreNotEmptyError(RefusedError):
    """Only an empty log takes an export in."""

    code = "store-not-empty"


class ForbiddenError(RefusedError):
    """The actor may not do this (any more)."""

    code = "forbidden"


class SignatureError(RefusedError):
    """Not a signed head, or its signature does not hold."""

    code = "bad-signature"


# -- the store -----------------------------------------------------------------------------------------------


class StoreError(JobLogError):
    """The store can't serve."""

    code = "store-error"


class StoreBusyError(StoreError):
    """The store stayed busy for the whole budget; nothing was written."""

    code = "store-busy"


class StoreUnavailableError(StoreError):
    """The store can't be reached; nothing was written."""

    code = "store-unavailable"


class StoreFullError(StoreError):
    """Disk full, or the file is read-only; nothing was written."""

    code = "store-full"


class StoreClosedError(StoreError):
    """The log was closed by this process."""

    code = "store-closed"


class StoreForkedError(StoreError):
    """A store that was opened before fork(); a child must open its own."""

    code = "store-forked"


class UnsafeStoreError(StoreError):
    """A store that is set up so that it can lose acknowledged events."""

    code = "unsafe-store"


class SchemaMissingError(StoreError):
    """A database without our tables, or with older ones."""

    code = "schema-missing"


class SchemaTooNewError(StoreError):
    """A database that only newer code may use."""

    code = "schema-too-new"


class LogRewoundError(StoreError):
    """The store holds less than this process has seen; it takes no append until the epoch is raised."""

    code = "log-rewound"


class EpochChangedError(StoreError):
    """The log's epoch was raised; leases of the old epoch are void."""

    code = "epoch-changed"


class GenerationChangedError(StoreError):
    """The job table was rebuilt into a new generation; the append is repeated against it."""

    code = "generation-changed"


class CorruptLogError(StoreError):
    """The log contradicts itself; nothing more is derived from it."""

    code = "corrupt-log"


class HeadContradictedError(StoreError):
    """The log is not what a head that was signed says it was; nothing more is signed."""

    code = "head-contradicted"


class TamperedError(StoreError):
    """An event is not what was signed; a consumer that checks stops here and takes nothing more."""

    code = "tampered"

    def __init__(self, position: int, text: str) -> None:
        super().__init__(f"{text}; stop, keep a copy, and run `joblog verify`")
        self.position = position


class ArchiveMissingError(StoreError):
    """What is asked for lies in an archive whose file is not at hand; nothing is lost, the log still proves what it was."""

    code = "archive-missing"

    def __init__(self, archive: str, folder: str) -> None:
        super().__init__(
            f"archive {archive} is not at hand, it was in {folder}: put {archive}.ndjson.gz and its manifest back there, "
            "or say where they are with --archives DIR or JOBLOG_ARCHIVES"
        )
        self.archive = archive


class ArchiveDamagedError(StoreError):
    """An archive does not hold what was put into it; nothing of it is believed there."""

    code = "archive-damaged"

    def __init__(self, archive: str, position: int, problem: str) -> None:
        at = f" at position {position}" if position else ""
        super().__init__(f"archive {archive} is damaged{at}: {problem}; put a good copy in its place")
        self.archive, self.position = archive, position


class RebuildRunningError(StoreError):
    """Another rebuild of the same projection is under way."""

    code = "rebuild-running"


class ViewStoppedError(StoreError):
    """A view met an event that it can't fold; it stands still there, and nothing else does."""

    code = "view-stopped"

    def __init__(self, view: str, position: int, reason: str) -> None:
        super().__init__(f"{view} can't go past position {position}: {reason}; run a newer joblog on it")
        self.view, self.position, self.reason = view, position, reason


class UnknownOutcomeError(JobLogError):
    """The append may or may not be in the log; ask again with the same event ids."""

    code = "outcome-unknown"
