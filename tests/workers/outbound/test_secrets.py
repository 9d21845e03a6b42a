"""SEC-02, SEC-04: references are kept, values are not; what is missing is named."""

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from joblog.domain import withheld
from joblog.domain.errors import InvalidFieldError, SecretInInputError, StoreError
from joblog.eventstore import credentials
from joblog.workers.commands.log import JobLog
from joblog.workers.errors import NeedsOperator
from joblog.workers.outbound.sealing import Sealer, new_key
from joblog.workers.outbound.secrets import Secret, Secrets, parse_reference

CANARY = "c4n4ry-value-77"


@pytest.fixture(autouse=True)
def _nothing_is_known_afterwards() -> Iterator[None]:
    yield
    withheld.forget()


@pytest.fixture
def log(database_url: str) -> Iterator[JobLog]:
    with JobLog.open(database_url) as log:
        yield log


@pytest.fixture
def environ() -> dict[str, str]:
    return {"JOBLOG_SECRET_KEY": new_key()}


# -- the type --------------------------------------------------------------------------------------------------------


def test_a_secret_shows_itself_nowhere_by_accident() -> None:
    secret = Secret("env:TOKEN", CANARY)

    for shown in (repr(secret), str(secret), f"{secret}", f"{secret!r:>40}", str([secret]), str({"a": secret})):
        assert CANARY not in shown
    assert not hasattr(secret, "__dict__")
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    assert secret == Secret("env:OTHER", CANARY)
    assert secret != Secret("env:TOKEN", "another")
    assert secret != CANARY
    assert secret.reveal() == CANARY


# -- references ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["env:TOKEN", "file:/run/secrets/x", "cred:crm", "cred:crm/prod 2"])
def test_a_reference_is_read(text: str) -> None:
    assert str(parse_reference(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        CANARY,
        "env:",
        "env:A-B",
        "env:a b",
        "file:relative",
        "file:",
        "file:/a\0b",
        "cred:",
        "cred:a\nb",
        "ENV:A",
        "vault:x",
    ],
)
def test_what_is_no_reference_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(InvalidFieldError) as refused:
        parse_reference(text)

    assert CANARY not in str(refused.value)


def test_a_variable_and_a_file(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(f"{CANARY}\r\n")
    secrets = Secrets({"TOKEN": CANARY})

    assert secrets.resolve("env:TOKEN").reveal() == CANARY
    assert secrets.resolve(f"file:{path}").reveal() == CANARY


def test_what_is_missing_is_named_by_its_reference(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "large").write_text("x" * 70_000)
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    names = ["env:NOT_SET", "env:EMPTY", f"file:{tmp_path}/none", f"file:{tmp_path}", "cred:none"]
    names += [f"file:{tmp_path}/{name}" for name in ("empty", "large", "binary")]

    for reference in names:
        with pytest.raises(NeedsOperator) as missing:
            Secrets({"EMPTY": ""}).resolve(reference)
        assert missing.value.code == "credential-missing"
        assert reference in str(missing.value)


# -- kept ones -------------------------------------------------------------------------------------------------------


def test_a_kept_value_comes_back_and_lies_sealed(log: JobLog, environ: dict[str, str]) -> None:
    secrets = Secrets(environ, log.store)
    secrets.keep("crm", "an older value")
    secrets.keep("crm", CANARY)

    sealed = credentials.find(log.store, "default", "crm")
    assert sealed is not None
    assert CANARY.encode() not in sealed
    assert secrets.resolve("cred:crm").reveal() == CANARY
    assert [name for name, _ in credentials.listed(log.store, "default")] == ["crm"]
    assert credentials.remove(log.store, "default", "crm")
    assert not credentials.remove(log.store, "default", "crm")
    with pytest.raises(NeedsOperator, match="joblog credentials set crm"):
        secrets.resolve("cred:crm")


def test_a_tenant_has_its_own(log: JobLog, environ: dict[str, str]) -> None:
    secrets = Secrets(environ, log.store)
    secrets.keep("crm", CANARY, tenant="acme")

    assert secrets.resolve("cred:crm", tenant="acme").reveal() == CANARY
    for other in ("default", "bcme"):
        with pytest.raises(NeedsOperator):
            secrets.resolve("cred:crm", tenant=other)


def test_a_row_that_was_moved_to_another_name_or_tenant_does_not_open(log: JobLog, environ: dict[str, str]) -> None:
    secrets = Secrets(environ, log.store)
    secrets.keep("crm", CANARY, tenant="acme")
    sealed = credentials.find(log.store, "acme", "crm")
    assert sealed is not None

    credentials.put(log.store, "mallory", "crm", sealed)
    credentials.put(log.store, "acme", "other", sealed)
    credentials.put(log.store, "acme", "cut", sealed[:-5])
    for tenant, name in (("mallory", "crm"), ("acme", "other"), ("acme", "cut")):
        with pytest.raises(NeedsOperator) as refused:
            secrets.resolve(f"cred:{name}", tenant=tenant)
        assert refused.value.code == "credential-unreadable"


def test_keys_are_rotated_by_putting_the_new_one_in_front(log: JobLog, environ: dict[str, str]) -> None:
    Secrets(environ, log.store).keep("crm", CANARY)
    old, new = environ["JOBLOG_SECRET_KEY"], new_key()

    both = Secrets({"JOBLOG_SECRET_KEY": f"{new},{old}"}, log.store)
    assert both.resolve("cred:crm").reveal() == CANARY
    with pytest.raises(NeedsOperator, match="JOBLOG_SECRET_KEY"):
        Secrets({"JOBLOG_SECRET_KEY": new}, log.store).resolve("cred:crm")
    both.keep("crm", CANARY)
    assert Secrets({"JOBLOG_SECRET_KEY": new}, log.store).resolve("cred:crm").reveal() == CANARY


def test_the_key_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(new_key() + "\n")
    sealer = Sealer({"JOBLOG_SECRET_KEY_FILE": str(tmp_path / "key")})

    assert sealer.opened("t", "n", sealer.sealed("t", "n", CANARY)) == CANARY


@pytest.mark.parametrize("environ", [{}, {"JOBLOG_SECRET_KEY": "short"}, {"JOBLOG_SECRET_KEY_FILE": "/nowhere/key"}])
def test_without_a_key_the_way_out_is_named(environ: dict[str, str]) -> None:
    with pytest.raises(NeedsOperator) as refused:
        Sealer(environ).sealed("t", "n", CANARY)

    assert refused.value.code == "credential-key-missing"
    assert "short" not in str(refused.value)


def test_a_log_in_memory_keeps_none() -> None:
    with JobLog.open("memory://") as log, pytest.raises(StoreError):
        Secrets({"JOBLOG_SECRET_KEY": new_key()}, log.store).keep("crm", CANARY)


# -- once resolved ---------------------------------------------------------------------------------------------------


def test_a_resolved_value_is_refused_wherever_it_would_be_written(log: JobLog) -> None:
    from joblog import JobSpec

    Secrets({"TOKEN": CANARY}).resolve("env:TOKEN")

    with pytest.raises(SecretInInputError, match="env:TOKEN"):
        log.submit(JobSpec("k", {"note": f"it is {CANARY}"}))
    with pytest.raises(SecretInInputError):
        log.submit(JobSpec("k", {"a": "b"}, key=CANARY))
    assert log.store.head() == 0
