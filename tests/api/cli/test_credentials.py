"""Secret values are kept from the shell, and never shown again."""

from collections.abc import Callable

import pytest

from joblog.eventstore import credentials
from joblog.workers.commands.log import JobLog
from tests.api.cli.terminal import Answer

CANARY = "c4n4ry-value-77"


@pytest.fixture
def key(cli: Callable[..., Answer], log: JobLog, monkeypatch: pytest.MonkeyPatch) -> str:
    made: str = cli("credentials", "key", "--json").document["key"]
    monkeypatch.setenv("JOBLOG_SECRET_KEY", made)
    return made


def test_a_value_is_kept_listed_and_removed_without_being_shown(
    cli: Callable[..., Answer], log: JobLog, key: str
) -> None:
    kept = cli("credentials", "set", "crm", stdin=f"{CANARY}\n")
    listed = cli("credentials")

    assert kept.out == "kept as cred:crm\n"
    assert "cred:crm" in listed.out
    assert cli("credentials", "list", "--json").document["items"][0]["reference"] == "cred:crm"
    assert cli("credentials", "--tenant", "acme", "--json").document == {"items": []}
    assert CANARY not in kept.out + kept.err + listed.out
    assert credentials.find(log.store, "default", "crm") is not None
    assert cli("credentials", "remove", "crm").out == "removed cred:crm\n"
    assert cli("credentials", "remove", "crm").out == "there was no cred:crm\n"


@pytest.mark.parametrize(("name", "stdin"), [("crm", ""), ("crm", "x" * 70_000), ("a\nb", CANARY), ("", CANARY)])
def test_what_can_not_be_kept_is_refused_and_not_repeated(
    cli: Callable[..., Answer], log: JobLog, key: str, name: str, stdin: str
) -> None:
    answer = cli("credentials", "set", name, stdin=stdin)

    assert (answer.code, answer.refusal) == (2, "invalid-field")
    assert CANARY not in answer.err
    assert credentials.listed(log.store, "default") == []


def test_without_a_key_the_way_out_is_named(cli: Callable[..., Answer], log: JobLog) -> None:
    answer = cli("credentials", "set", "crm", stdin=CANARY)

    assert answer.refusal == "invalid-field"
    assert "joblog credentials key" in answer.err
    assert CANARY not in answer.err
