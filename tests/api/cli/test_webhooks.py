"""``joblog webhooks``: destinations, what was delivered, and replaying, on both databases."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import sqlalchemy as sa

from joblog.eventstore import webhooks as table
from joblog.eventstore.schema import webhook_deliveries
from joblog.workers.commands.log import JobLog
from joblog.workers.operations import webhooks
from tests.api.cli.terminal import Answer

Cli = Callable[..., Answer]
BODY: dict[str, dict[str, None]] = {"sent": {"body": None}, "refused": {}}
URL = "https://hooks.example/in"


def settle(log: JobLog, event: str, state: str) -> str:
    """A record of *event* that ended so."""
    webhooks.announce(log, event, "order.paid", {})
    with log.store.atomic() as transaction:
        [record, *_] = table.newest(transaction.connection, "default", "shop", 1)
        said = {"state": state, "code": "http-400" if state == "refused" else "http-200", "settled_at": 1}
        where = webhook_deliveries.c.seq == record.seq
        transaction.connection.execute(sa.update(webhook_deliveries).where(where).values(**said, **BODY[state]))
    return record.id


def test_a_destination_is_set_listed_disabled_and_enabled(log: JobLog, cli: Cli) -> None:
    assert log.store.dialect
    assert cli("webhooks", "--json").document == {"items": []}
    assert cli("webhooks", "set", "shop", URL, "--secret", "env:NEW", "--secret", "env:OLD").code == 0

    [item] = cli("webhooks", "list", "--json").document["items"]

    assert (item["destination"], item["url"], item["secrets"]) == ("shop", URL, ["env:NEW", "env:OLD"])
    assert (item["enabled"], item["pending"], item["sent"], item["refused"]) == (True, 0, 0, 0)
    assert cli("webhooks", "disable", "shop", "--reason", "they moved").out == "destination shop is disabled\n"
    assert "disabled (they moved)" in cli("webhooks").out
    assert cli("webhooks", "enable", "shop").out == "destination shop is enabled\n"
    assert "enabled" in cli("webhooks").out


def test_records_are_counted_shown_and_replayed(log: JobLog, cli: Cli) -> None:
    cli("webhooks", "set", "shop", URL, "--secret", "env:NEW")
    sent, refused = settle(log, "e1", "sent"), settle(log, "e2", "refused")

    [item] = cli("webhooks", "--json").document["items"]
    records = cli("webhooks", "records", "shop", "--json").document["items"]

    assert (item["pending"], item["sent"], item["refused"]) == (0, 1, 1)
    assert [(one["id"], one["state"], one["code"]) for one in records] == [
        (refused, "refused", "http-400"),
        (sent, "sent", "http-200"),
    ]
    assert cli("webhooks", "replay", "shop", "--record", sent).out == "0 records of shop will be sent again\n"
    assert cli("webhooks", "replay", "shop").out == "1 record of shop will be sent again\n"
    assert cli("webhooks", "--json").document["items"][0]["pending"] == 1


@pytest.mark.parametrize(
    "args",
    [
        ("set", "shop", URL),
        ("set", "shop", "hooks.example", "--secret", "env:NEW"),
        ("set", "shop", URL, "--secret", "whsec_c2VjcmV0"),
        ("enable", "nobody"),
        ("replay", "nobody"),
    ],
)
def test_what_can_not_be_meant_is_refused(log: JobLog, cli: Cli, args: tuple[str, ...]) -> None:
    assert log.store.dialect

    answer = cli("webhooks", *args)

    assert answer.code == 2
    assert "c2VjcmV0" not in answer.err
    assert cli("webhooks", "--json").document == {"items": []}


def test_a_destination_is_removed_and_old_receipts_are_forgotten(log: JobLog, cli: Cli) -> None:
    cli("webhooks", "set", "shop", URL, "--secret", "env:NEW")
    settle(log, "e1", "sent")
    webhooks.announce(log, "e2", "order.paid", {})

    assert cli("webhooks", "remove", "shop").out == "destination shop is removed, 1 record cancelled\n"
    assert cli("webhooks", "--json").document == {"items": []}
    assert cli("webhooks", "prune", "--older-than", "90d").out == "1 record forgotten\n"  # settled in 1970
    assert [one["state"] for one in cli("webhooks", "records", "shop", "--json").document["items"]] == ["cancelled"]
    assert cli("webhooks", "prune", "--older-than", "1h").code != 0
