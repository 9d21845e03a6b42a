"""A password never stands in what is stored; it comes from a variable of the worker's (SEC-01)."""

import pytest

from joblog.domain.errors import InvalidFieldError, SecretInInputError
from joblog.workers.operations.target_url import check_url, resolve_url

CANARY = "c4n4ry"


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://ada:{CANARY}@h/db",
        f"postgresql+psycopg://ada:{CANARY}%40x@h/db",
        f"postgresql://ada:{CANARY} x@h/db",
        f"postgresql://ada:{CANARY}'x@h/db",
        f"postgresql://:{CANARY}@h/db",
        f"postgresql://h/db?password={CANARY}",
        f"mysql://ada:{CANARY}@h",
    ],
)
def test_a_url_with_a_password_is_refused_and_not_repeated(url: str) -> None:
    for check in (check_url, lambda url: resolve_url(url, {})):
        with pytest.raises(SecretInInputError) as refused:
            check(url)
        assert (refused.value.code, refused.value.field) == ("secret-in-input", "target")
        assert "env:NAME" in str(refused.value)
        assert CANARY not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    ["sqlite:///x.db", "sqlite://", "postgresql+psycopg://ada@h:5433/db", "postgresql:///db?host=/run", "env:DB_1"],
)
def test_a_url_without_a_password_and_a_reference_are_kept(url: str) -> None:
    assert check_url(url) == url


@pytest.mark.parametrize("url", ["env:", "env:A B", "env:c4n4ry:x", "nonsense"])
def test_what_is_neither_is_refused_at_once(url: str) -> None:
    with pytest.raises(InvalidFieldError):
        check_url(url)


def test_a_reference_is_resolved_where_the_worker_runs() -> None:
    found = resolve_url("env:TARGET", {"TARGET": f"postgresql://ada:{CANARY}@h/db"})

    assert found.password == CANARY
    assert CANARY not in str(found)
    assert resolve_url("sqlite:///x.db", {}).database == "x.db"


@pytest.mark.parametrize(
    ("url", "environ"),
    [
        ("env:TARGET", {}),
        ("env:TARGET", {"TARGET": ""}),
        ("env:TARGET", {"TARGET": CANARY}),
        ("env:TARGET", {"TARGET": f"postgresql://h:{CANARY}/db"}),
        ("env:", {}),
        ("env:A B", {}),
        (CANARY, {}),
        ("", {}),
        (f"postgresql://h:{CANARY}/db", {}),
    ],
)
def test_what_is_no_url_is_refused_and_not_repeated(url: str, environ: dict[str, str]) -> None:
    with pytest.raises(InvalidFieldError) as refused:
        resolve_url(url, environ)

    assert refused.value.field == "target"
    assert CANARY not in str(refused.value)
