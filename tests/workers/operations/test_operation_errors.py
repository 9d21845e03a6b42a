"""The refusals of sources and targets belong to the tree, with codes of their own."""

import pickle

import pytest

from joblog.domain import errors as domain_errors
from joblog.domain.errors import InputError, JobLogError, RefusedError
from joblog.workers.operations import errors
from joblog.workers.operations.rows import ENDING, Code

SOURCES = (errors.SourceError, errors.SourceMissingError, errors.SourceChangedError, errors.SourceDamagedError)


def test_the_codes_are_the_published_ones() -> None:
    assert [each.code for each in SOURCES] == ["source-error", "source-missing", "source-changed", "source-damaged"]
    assert errors.TargetRefusedError.code == "target-refused"
    assert all(issubclass(each, RefusedError) for each in SOURCES)
    assert issubclass(errors.TargetRefusedError, InputError)


def test_no_code_is_another_errors() -> None:
    taken = {
        each.code for each in vars(domain_errors).values() if isinstance(each, type) and issubclass(each, JobLogError)
    }
    assert not taken & {each.code for each in (*SOURCES, errors.TargetRefusedError)}


@pytest.mark.parametrize("error", SOURCES)
def test_an_error_crosses_to_another_process_whole(error: type[errors.SourceError]) -> None:
    again = pickle.loads(pickle.dumps(error("p", "gone", "put it back")))  # noqa: S301

    assert type(again) is error
    assert str(again) == "p: gone; put it back"
    assert (again.path, again.problem, again.way_out) == ("p", "gone", "put it back")


def test_the_codes_of_rows_are_the_published_ones() -> None:
    assert {code.value for code in Code} == {
        "field-count",
        "bad-quoting",
        "unclosed-quote",
        "over-long",
        "undecodable",
        "unstorable",
        "invalid-json",
        "broken-json",
        "not-an-object",
        "too-deep",
        "unknown-column",
        "bad-value",
        "out-of-range",
        "missing-key",
        "refused-by-target",
    }
    assert {"unclosed-quote", "broken-json"} == ENDING
