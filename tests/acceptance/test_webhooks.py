"""OPS-8T: a worker killed between the receiver's 200 and our receipt; on both databases, with real processes."""

from __future__ import annotations

from joblog.eventstore import webhooks as table
from joblog.workers.operations import webhooks
from tests.acceptance import workers
from tests.acceptance.conftest import Site
from tests.patience import until
from tests.workers.operations.receiver import Receiver


def states(site: Site) -> list[str]:
    with table.reading(site.log.store) as connection:
        return [record.state for record in table.newest(connection, "default", "a", 10)]


def test_the_second_request_bears_the_same_id_and_there_is_never_a_third(site: Site, receiver: Receiver) -> None:
    webhooks.set_destination(site.log, "a", receiver.url("a"), ["env:HOOK_SECRET_1"])
    webhooks.announce(site.log, "e1", "order.paid", {"order": 1})

    assert workers.dies(site.url, "unit.after_effect")
    assert len(receiver.got) == 1
    assert states(site) == ["pending"]  # the receiver has it, and we do not know
    with workers.working(site.url):
        until(lambda: states(site) == ["sent"])
    webhooks.announce(site.log, "e1", "order.paid", {"order": 1, "said": "otherwise"})
    webhooks.announce(site.log, "e2", "order.paid", {"order": 2})
    with workers.working(site.url):
        until(lambda: states(site) == ["sent", "sent"])

    first, second = (webhooks.record_id_of("default", "a", event) for event in ("e1", "e2"))
    assert [one.id for one in receiver.got] == [first, first, second]
    assert receiver.got[0].body == receiver.got[1].body


def test_killed_behind_the_receipt_there_is_no_second_request(site: Site, receiver: Receiver) -> None:
    webhooks.set_destination(site.log, "a", receiver.url("a"), ["env:HOOK_SECRET_1"])
    webhooks.announce(site.log, "e1", "order.paid", {"order": 1})

    assert workers.dies(site.url, "unit.recorded")
    assert states(site) == ["sent"]  # and the worker never learned it
    rows = site.log.store.find_jobs(kind=webhooks.DELIVER)
    job = site.finish(rows[0]["id"])

    assert (len(receiver.got), job.result) == (1, {"sent": 1, "refused": 0})
