"""The tree of refusals: codes are for programs and never change."""

import copy
import inspect
import pickle
from uuid import UUID

import pytest

from joblog.domain import errors
from joblog.domain.errors import JobLogError

JOB = UUID(int=7)

#: Published codes: one may be added, none may go or change.
CODES = {
    "JobLogError": "joblog-error",
    "RefusedError": "refused",
    "InputError": "invalid-input",
    "InvalidFieldError": "invalid-field",
    "UnstorableError": "unstorable",
    "TooLargeError": "too-large",
    "SecretInInputError": "secret-in-input",
    "StateError": "state-conflict",
    "JobNotFoundError": "job-not-found",
    "WrongStateError": "wrong-state",
    "LeaseHeldError": "lease-held",
    "LeaseLostError": "lease-lost",
    "NotDueError": "not-due",
    "VersionConflictError": "version-conflict",
    "KeyConflictError": "key-conflict",
    "UnitConflictError": "unit-conflict",
    "UnitDoneError": "unit-done",
    "CheckpointError": "checkpoint-refused",
    "IncompleteError": "incomplete",
    "ExhaustedError": "attempts-exhausted",
    "ExclusiveKeyHeldError": "exclusive-key-held",
    "RequestConflictError": "request-id-reused",
    "SupersededError": "superseded",
    "UnknownEventError": "unknown-event",
    "GateNotFoundError": "gate-not-found",
    "QueueNotFoundError": "queue-not-found",
    "ForbiddenError": "forbidden",
    "StoreError": "store-error",
    "StoreBusyError": "store-busy",
    "StoreUnavailableError": "store-unavailable",
    "StoreFullError": "store-full",
    "StoreClosedError": "store-closed",
    "StoreForkedError": "store-forked",
    "UnsafeStoreError": "unsafe-store",
    "SchemaMissingError": "schema-missing",
    "SchemaTooNewError": "schema-too-new",
    "LogRewoundError": "log-rewound",
    "EpochChangedError": "epoch-changed",
    "GenerationChangedError": "generation-changed",
    "CorruptLogError": "corrupt-log",
    "RebuildRunningError": "rebuild-running",
    "UnknownOutcomeError": "outcome-unknown",
    "ArchiveDamagedError": "archive-damaged",
    "ArchiveMissingError": "archive-missing",
    "ConsumerMovedError": "consumer-moved",
    "ConsumerNotFoundError": "consumer-not-found",
    "DamagedExportError": "damaged-export",
    "HeadContradictedError": "head-contradicted",
    "SignatureError": "bad-signature",
    "StoreNotEmptyError": "store-not-empty",
    "TamperedError": "tampered",
    "ViewStoppedError": "view-stopped",
}
TREE = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, JobLogError)]

#: What each parameter of an error is called with here.
GIVEN = {
    "job_id": JOB,
    "archive": "0a1b2c3d-1-900",
    "folder": "/archives",
    "field": "args.rows[3]",
    "problem": "empty",
    "way_out": "give a name",
    "text": "held by j",
    "action": "claim it",
    "status": "paused",
    "version": 3,
    "worker": "w",
    "token": 2,
    "expected": 4,
    "key": "k",
    "unit": "u",
    "topic": "joblog.job.new",
    "position": 7,
    "view": "counters",
    "reason": "no such event",
}


def an_error(cls: type[JobLogError]) -> JobLogError:
    if "__init__" not in {name for each in cls.__mro__[:-3] for name in vars(each)}:
        return cls("said")
    return cls(*(GIVEN[name] for name in list(inspect.signature(cls).parameters)))


def test_the_codes_are_the_published_ones() -> None:
    assert {cls.__name__: cls.code for cls in TREE} == CODES


def test_no_two_errors_share_a_code() -> None:
    assert len({cls.code for cls in TREE}) == len(TREE)


@pytest.mark.parametrize("cls", TREE)
def test_every_error_has_its_own_code_and_says_when_it_is_raised(cls: type[JobLogError]) -> None:
    assert "code" in vars(cls)
    assert cls.__doc__


@pytest.mark.parametrize("cls", TREE)
def test_every_error_can_cross_to_another_process(cls: type[JobLogError]) -> None:
    """A process pool whose child raises what can't be pickled is broken for good."""
    error = an_error(cls)

    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):  # noqa: S301
        assert type(again) is cls
        assert str(again) == str(error) != ""
        assert vars(again) == vars(error)


def test_an_input_error_names_the_field_the_problem_and_the_way_out() -> None:
    error = errors.TooLargeError("args.rows[3]", "900 bytes", "at most 800 are kept")

    assert str(error) == "args.rows[3]: 900 bytes; at most 800 are kept"
    assert (error.field, error.problem, error.way_out) == ("args.rows[3]", "900 bytes", "at most 800 are kept")


def test_a_state_error_names_the_job_where_there_is_one() -> None:
    assert str(errors.NotDueError(JOB, "is due later")) == f"job {JOB}: is due later"
    assert str(errors.NotDueError(None, "is due later")) == "is due later"


def test_only_an_unknown_outcome_is_neither_a_refusal_nor_a_fault_of_the_store() -> None:
    assert errors.UnknownOutcomeError.__mro__[1] is JobLogError
    loose = {cls for cls in TREE if not issubclass(cls, errors.RefusedError | errors.StoreError)}
    assert loose == {JobLogError, errors.UnknownOutcomeError}
