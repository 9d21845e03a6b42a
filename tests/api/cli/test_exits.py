"""Every refusal has its exit code, in one table."""

import pkgutil
from importlib import import_module

import pytest

import joblog.workers
from joblog.api.cli.exits import OF_CODE, OF_STATUS, Exit, exit_of
from joblog.domain.errors import InputError, JobLogError, JobNotFoundError, StoreBusyError
from joblog.domain.status import ENDED, Status


def tree() -> list[type[JobLogError]]:
    """Every class of refusal, wherever it is defined."""
    for module in pkgutil.walk_packages(joblog.workers.__path__, "joblog.workers."):
        import_module(module.name)
    found = [JobLogError]
    for each in found:
        found += [cls for cls in each.__subclasses__() if cls not in found]
    return [cls for cls in found if cls.__module__.startswith("joblog.")]


def end_of(cls: type[JobLogError]) -> Exit:
    return exit_of(cls.__new__(cls))


@pytest.mark.parametrize("cls", tree(), ids=lambda cls: str(cls.__name__))
def test_every_refusal_has_an_exit_code_or_that_of_its_family(cls: type[JobLogError]) -> None:
    family = next(one for one in cls.__mro__ if issubclass(one, JobLogError) and one.code in OF_CODE)

    assert end_of(cls) is OF_CODE[family.code]
    assert family is not JobLogError or cls is JobLogError


def test_the_table_names_no_code_that_nobody_raises() -> None:
    assert set(OF_CODE) <= {cls.code for cls in tree()}


def test_a_value_that_can_not_be_taken_is_wrong_usage() -> None:
    assert {end_of(cls) for cls in tree() if issubclass(cls, InputError)} == {Exit.USAGE}


def test_what_passes_by_itself_may_be_tried_again() -> None:
    assert exit_of(StoreBusyError("locked")) == 75
    assert OF_CODE[JobNotFoundError.code] == 3


def test_every_end_of_a_job_has_an_exit_code() -> None:
    assert set(OF_STATUS) == {status.value for status in (*ENDED, Status.PAUSED)}


def test_the_numbers_are_those_of_the_documentation() -> None:
    assert {end.name: int(end) for end in Exit} == {
        "DONE": 0,
        "FAILED": 1,
        "USAGE": 2,
        "NOT_FOUND": 3,
        "CONFLICT": 4,
        "CHECK_FAILED": 5,
        "UNHEALTHY": 6,
        "PARTLY": 7,
        "JOB_FAILED": 10,
        "JOB_CANCELLED": 11,
        "JOB_PARKED": 12,
        "TRY_AGAIN": 75,
        "HUNG_UP": 129,
        "INTERRUPTED": 130,
        "TERMINATED": 143,
    }
