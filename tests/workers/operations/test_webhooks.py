"""OPS-8a…d: webhooks on both databases, to a real receiver, with a moved clock."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from joblog.domain.errors import InvalidFieldError, LeaseLostError, TooLargeError
from joblog.domain.job import Actor, Job
from joblog.domain.status import ENDED, Status
from joblog.eventstore import failpoint
from joblog.eventstore import webhooks as table
from joblog.eventstore.append import Delivery
from joblog.workers.commands import claiming, drive
from joblog.workers.commands.log import JobLog
from joblog.workers.executor import Execution
from joblog.workers.operations import builtin, webhooks
from joblog.workers.operations.webhook_signing import key_of, verify
from tests.conformance.backends import Backend
from tests.conformance.builders import armed, whole_log
from tests.conformance.conftest import database, prepared  # noqa: F401 - fixtures
from tests.workers.operations.receiver import SECRETS, Receiver

ADA = Actor("ada")
ONE = ("env:HOOK_SECRET_1",)
DAY = 86_400
MARKER = "only-in-the-body"


class Site:
    """A log with destinations, and one imaginary worker."""

    def __init__(self, backend: Backend, receiver: Receiver) -> None:
        self.backend, self.receiver = backend, receiver
        self.log: JobLog = backend.open()
        self.jobs = builtin()

    def add(self, *names: str, secrets: tuple[str, ...] = ONE) -> None:
        for name in names:
            webhooks.set_destination(self.log, name, self.receiver.url(name), secrets)

    def announce(self, event: str, **options: Any) -> int:
        return webhooks.announce(self.log, event, "order.paid", {"order": event, "said": MARKER}, **options)

    def work(self) -> None:
        """Run what is due until nothing is."""
        with ThreadPoolExecutor(1) as pool:
            while True:
                self.log.drain_outbox()
                self.log.promote()
                held = claiming.claim(self.log, "w", queues=["default"], limit=10)
                if not held:
                    return
                for one in held:
                    asyncio.run(Execution(self.log, one, self.jobs, pool, pool).run())

    def couriers(self, name: str) -> list[Job]:
        rows = self.log.store.find_jobs(kind=webhooks.DELIVER, limit=100)
        jobs = [self.log.job(row["id"]) for row in reversed(rows)]
        return [job for job in jobs if job.args == {"destination": name}]

    def courier(self, name: str) -> Job:
        return self.couriers(name)[-1]

    def records(self, name: str) -> list[table.Record]:
        with table.reading(self.log.store) as connection:
            return list(reversed(table.newest(connection, "default", name, 100)))

    def states(self, name: str) -> list[str]:
        return [record.state for record in self.records(name)]


@pytest.fixture
def site(database: Backend, receiver: Receiver) -> Site:  # noqa: F811 - the fixture
    return Site(database, receiver)


def test_ops_8a_three_events_to_four_destinations_are_twelve_records_in_order(site: Site) -> None:
    names = ["a", "b", "c", "d"]
    site.add(*names)
    events = ["e1", "e2", "e3"]

    assert [site.announce(event) for event in events] == [4, 4, 4]
    site.work()

    assert len(site.receiver.got) == len({one.id for one in site.receiver.got}) == 12
    for name in names:
        got = site.receiver.at(name)
        assert [one.id for one in got] == [webhooks.record_id_of("default", name, event) for event in events]
        assert [json.loads(one.body)["data"]["order"] for one in got] == events
        assert site.states(name) == ["sent"] * 3
        job = site.courier(name)
        assert (job.status, job.result) == (Status.COMPLETED, {"sent": 3, "refused": 0})


def test_every_request_is_signed_and_what_was_sent_leaves_a_receipt_without_its_body(site: Site) -> None:
    site.add("a")
    site.announce("e1")
    site.work()

    [got] = site.receiver.got
    assert verify(key_of(SECRETS["HOOK_SECRET_1"]), got.headers, got.body)
    assert not verify(key_of(SECRETS["HOOK_SECRET_2"]), got.headers, got.body)
    assert int(got.headers["webhook-timestamp"]) == int(site.log.now().timestamp())
    [record] = site.records("a")
    assert (record.body, record.state, record.code) == (None, "sent", "http-200")
    stored = b"".join(event.state for event in whole_log(site.log.store))
    assert MARKER.encode() not in stored
    assert got.id.encode() in stored
    assert record.digest.encode() in stored


def test_secrets_rotate_without_a_gap(site: Site) -> None:
    site.add("a", secrets=("env:HOOK_SECRET_2", "env:HOOK_SECRET_1"))
    site.announce("e1")
    site.work()

    [got] = site.receiver.got
    assert all(verify(key_of(secret), got.headers, got.body) for secret in SECRETS.values())


def test_the_same_event_is_never_sent_again_whatever_it_says(site: Site) -> None:
    site.add("a")
    site.announce("e1")
    site.work()

    assert webhooks.announce(site.log, "e1", "order.paid", {"other": "text"}) == 0
    site.work()

    assert len(site.receiver.got) == 1


def test_a_dead_destination_holds_nobody_up_and_keeps_its_order(site: Site) -> None:
    site.add("alive", "dead")
    site.receiver.answers["dead"] = [(503, {})] * 2
    for event in ("e1", "e2", "e3"):
        site.announce(event)
    site.work()

    assert len(site.receiver.at("alive")) == 3
    assert len(site.receiver.at("dead")) == 1
    job = site.courier("dead")
    assert (job.status, job.reason) == (Status.WAITING, "provider")
    while site.courier("dead").status is Status.WAITING:
        site.backend.clock.move((site.courier("dead").due_at - site.log.now()).total_seconds())
        site.work()

    ids = [webhooks.record_id_of("default", "dead", event) for event in ("e1", "e2", "e3")]
    assert [one.id for one in site.receiver.at("dead")] == [ids[0], ids[0], *ids]
    assert len({one.body for one in site.receiver.at("dead")[:3]}) == 1  # frozen: the same bytes each time


def test_a_destination_that_asks_for_time_gets_it_and_no_other_does(site: Site) -> None:
    site.add("a", "b")
    site.receiver.answers["a"] = [(429, {"Retry-After": "600"})]
    site.announce("e1")
    site.work()
    site.announce("e2")
    site.work()

    assert (len(site.receiver.at("a")), len(site.receiver.at("b"))) == (1, 2)
    site.backend.clock.move(599)
    site.work()
    assert len(site.receiver.at("a")) == 1
    site.backend.clock.move(1)
    site.work()
    assert len(site.receiver.at("a")) == 3


def test_a_destination_that_was_disabled_gets_nothing_until_it_is_enabled(site: Site) -> None:
    site.add("a")
    site.announce("e1")
    webhooks.enable_destination(site.log, "a", enabled=False, reason="they moved")
    site.work()

    job = site.courier("a")
    assert (job.status, job.reason, site.receiver.got) == (Status.PAUSED, "destination-disabled", [])
    assert "they moved" in job.reason_text
    assert site.announce("e2") == 0  # nor is anything kept for it
    webhooks.enable_destination(site.log, "a", enabled=True)
    site.log.command("resume", job.id, ADA)
    site.work()
    assert len(site.receiver.got) == 1


def test_an_edited_url_does_not_get_what_was_frozen_for_the_old_one(site: Site) -> None:
    site.add("a")
    site.announce("e1")
    webhooks.set_destination(site.log, "a", site.receiver.url("new"), ONE)
    site.work()

    job = site.courier("a")
    assert (job.status, job.reason, site.receiver.got) == (Status.PAUSED, "destination-edited", [])
    assert webhooks.replay(site.log, "a") == 1
    site.log.command("resume", job.id, ADA)
    site.work()
    assert [one.id for one in site.receiver.at("new")] == [webhooks.record_id_of("default", "a", "e1")]


def test_a_verdict_is_one_request_and_an_operator_may_replay_it_under_the_same_id(site: Site) -> None:
    site.add("a")
    site.receiver.answers["a"] = [(400, {})]
    site.announce("e1")
    site.announce("e2")
    site.work()

    assert site.states("a") == ["refused", "sent"]
    assert site.records("a")[0].code == "http-400"
    assert site.courier("a").result == {"sent": 1, "refused": 1}
    assert webhooks.replay(site.log, "a") == 1
    site.work()
    first = webhooks.record_id_of("default", "a", "e1")
    assert [one.id for one in site.receiver.got].count(first) == 2
    assert site.states("a") == ["sent", "sent"]
    assert webhooks.replay(site.log, "a") == 0


@pytest.mark.parametrize("status", [300, 301, 302, 307])
def test_a_redirect_is_not_followed_and_acknowledges_nothing(site: Site, status: int) -> None:
    site.add("a")
    site.receiver.answers["a"] = [(status, {"Location": site.receiver.url("elsewhere")})]
    site.announce("e1")
    site.work()

    assert (len(site.receiver.got), site.states("a")) == (1, ["refused"])


def test_410_disables_the_destination(site: Site) -> None:
    site.add("a")
    site.receiver.answers["a"] = [(410, {})]
    site.announce("e1")
    site.announce("e2")
    site.work()

    assert len(site.receiver.got) == 1
    assert site.courier("a").reason == "destination-disabled"
    assert site.announce("e3") == 0


def test_a_missing_secret_pauses_the_courier_and_names_the_reference(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOOK_SECRET_1")
    site.add("a")
    site.announce("e1")
    site.work()

    job = site.courier("a")
    assert (job.status, job.reason, site.receiver.got) == (Status.PAUSED, "credential-missing", [])
    assert "env:HOOK_SECRET_1" in job.reason_text


def test_an_address_inside_is_refused_at_delivery(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """SSR-05: checked at each delivery, not when it was saved."""
    site.add("a")
    site.announce("e1")
    monkeypatch.delenv("JOBLOG_OUTBOUND_ALLOW")
    site.work()

    assert (site.receiver.got, site.states("a")) == ([], ["refused"])
    assert site.records("a")[0].code == "destination-refused"


def test_ops_8d_what_was_rolled_back_is_not_sent(site: Site) -> None:
    site.add("a")

    def change_its_mind() -> None:
        with site.log.store.atomic() as transaction:
            webhooks.announce_in(site.log, transaction.connection, "e1", "order.paid", {})
            raise LookupError

    with pytest.raises(LookupError):
        change_its_mind()
    site.work()
    assert (site.receiver.got, site.records("a")) == ([], [])

    with site.log.store.atomic() as transaction:
        webhooks.announce_in(site.log, transaction.connection, "e1", "order.paid", {})
        assert site.receiver.got == []
    site.work()
    assert len(site.receiver.got) == 1


def test_an_event_that_comes_while_the_courier_is_about_to_end_is_sent(site: Site) -> None:
    site.add("a")
    site.announce("e1")
    late = iter(["e2"])

    def announce() -> None:
        for event in late:
            site.announce(event)

    with armed("job.before_completed", announce):
        site.work()
    site.work()

    assert len(site.receiver.got) == 2
    assert [job.status for job in site.couriers("a")] == [Status.COMPLETED] * 2


def test_an_event_that_comes_while_the_courier_works_is_left_to_it(site: Site) -> None:
    site.add("a")
    site.announce("e1")
    late = iter(["e2"])

    def announce() -> None:
        for event in late:
            site.announce(event)

    failpoint.disarm()
    with armed("unit.before_effect", announce):
        site.work()

    assert len(site.receiver.got) == 2
    assert len(site.couriers("a")) == 1


def test_a_cancelled_couriers_records_go_with_the_next_one_in_order(site: Site) -> None:
    site.add("a")
    site.receiver.answers["a"] = [(503, {})]
    site.announce("e1")
    site.work()
    site.log.command("cancel", site.courier("a").id, ADA)
    site.announce("e2")
    site.work()

    ids = [webhooks.record_id_of("default", "a", event) for event in ("e1", "e1", "e2")]
    assert [one.id for one in site.receiver.got] == ids
    assert all(job.status in ENDED for job in site.couriers("a"))


def test_webhook_announce_is_a_job_too(site: Site) -> None:
    site.add("a", "b")
    spec = site.jobs.spec(webhooks.ANNOUNCE, {"event": "e1", "type": "order.paid", "destinations": ["b"]}, key="k")
    job_id = site.log.submit(spec).job_id
    site.work()

    assert site.log.job(job_id).result == 1
    assert [one.path for one in site.receiver.got] == ["/b"]


def test_each_tenant_has_destinations_of_its_own(site: Site) -> None:
    site.add("a")
    webhooks.set_destination(site.log, "a", site.receiver.url("acme"), ONE, tenant="acme")
    site.announce("e1", tenant="acme")
    site.work()

    assert [one.path for one in site.receiver.got] == ["/acme"]
    assert site.receiver.got[0].id != webhooks.record_id_of("default", "a", "e1")


REFUSED: dict[str, tuple[type[Exception], Any]] = {
    "no url": (Exception, lambda s: webhooks.set_destination(s.log, "a", "not a url", ONE)),
    "a secret in the url": (Exception, lambda s: webhooks.set_destination(s.log, "a", "https://u:p@h.example/", ONE)),
    "no secret": (InvalidFieldError, lambda s: webhooks.set_destination(s.log, "a", s.receiver.url("a"), ())),
    "a secret's value": (
        InvalidFieldError,
        lambda s: webhooks.set_destination(s.log, "a", s.receiver.url("a"), (SECRETS["HOOK_SECRET_1"],)),
    ),
    "an unknown destination": (InvalidFieldError, lambda s: s.announce("e", destinations=("nobody",))),
    "too much": (TooLargeError, lambda s: webhooks.announce(s.log, "e", "t", "x" * 30_000)),
    "nobody to enable": (InvalidFieldError, lambda s: webhooks.enable_destination(s.log, "nobody", enabled=True)),
    "nobody to replay": (InvalidFieldError, lambda s: webhooks.replay(s.log, "nobody")),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_can_not_be_meant_is_refused(site: Site, case: str) -> None:
    kind, call = REFUSED[case]
    with pytest.raises(kind):
        call(site)
    with table.reading(site.log.store) as connection:
        assert table.all_of(connection) == []


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_AAAA", "whsec_!!!!", "plain", "whsec_" + "A" * 200])
def test_a_secret_that_is_none_is_refused_without_repeating_it(secret: str) -> None:
    with pytest.raises(InvalidFieldError) as refusal:
        key_of(secret)
    assert len(secret) < len("whsec_A") or secret not in str(refusal.value)


# -- the receipt and its record are one commit -----------------------------------------------------------------------


def test_a_receipt_that_is_refused_settles_nothing(site: Site) -> None:
    site.add("a")
    site.announce("e1")
    site.log.drain_outbox()
    [record] = site.records("a")
    [held] = claiming.claim(site.log, "w", queues=["default"], limit=10)
    delivery = Delivery(record.seq, "sent", "http-200", 1)
    site.backend.clock.move(3600)  # the lease is over

    with pytest.raises(LeaseLostError):
        drive.run(held.completing_units([("records:0", {})], {}, delivery=delivery), site.log.writer)

    assert site.states("a") == ["pending"]
    assert site.records("a")[0].body is not None


# -- destinations that are taken away, and receipts that are old -----------------------------------------------------


def test_rty_14_a_removed_destination_gets_nothing_and_its_courier_ends(site: Site) -> None:
    site.add("a")
    site.receiver.answers["a"] = [(503, {})]
    site.announce("e1")
    site.announce("e2")
    site.work()
    assert site.courier("a").status is Status.WAITING

    assert webhooks.remove_destination(site.log, "a") == 2
    site.backend.clock.move(3600)
    site.work()

    assert len(site.receiver.got) == 1
    assert [(one.state, one.code, one.body) for one in site.records("a")] == [
        ("cancelled", "destination-gone", None)
    ] * 2
    assert (site.courier("a").status, site.courier("a").result) == (Status.COMPLETED, {"sent": 0, "refused": 0})
    with pytest.raises(InvalidFieldError):
        site.announce("e3", destinations=("a",))
    with pytest.raises(InvalidFieldError):
        webhooks.enable_destination(site.log, "a", enabled=True)
    with pytest.raises(InvalidFieldError):
        webhooks.remove_destination(site.log, "a")


def test_a_removed_destination_that_is_set_again_begins_anew(site: Site) -> None:
    site.add("a")
    site.announce("e1")
    site.work()
    webhooks.remove_destination(site.log, "a")
    site.add("a")
    site.announce("e2")
    site.work()

    assert site.states("a") == ["sent", "sent"]
    assert len(site.couriers("a")) == 2


def test_old_receipts_are_forgotten_and_what_is_pending_is_kept(site: Site) -> None:
    site.add("a")
    site.receiver.answers["a"] = [(200, {}), (400, {}), (503, {})]
    for event in ("e1", "e2", "e3"):
        site.announce(event)
    site.work()
    site.backend.clock.move(2 * DAY)
    assert webhooks.prune(site.log, timedelta(days=3)) == 0

    assert webhooks.prune(site.log, timedelta(days=1), tenant="acme") == 0
    assert webhooks.prune(site.log, timedelta(days=1)) == 2
    assert site.states("a") == ["pending"]
    assert site.announce("e1") == 1  # nothing is known of it any more
    with pytest.raises(InvalidFieldError):
        webhooks.prune(site.log, timedelta(hours=23))


def test_webhook_prune_is_a_job_too(site: Site) -> None:
    site.add("a")
    site.announce("e1")
    site.work()
    site.backend.clock.move(2 * DAY)
    job_id = site.log.submit(site.jobs.spec(webhooks.PRUNE, {"days": 1}, key="k")).job_id
    site.work()

    assert (site.log.job(job_id).result, site.records("a")) == (1, [])


def test_a_bad_secret_of_one_destination_holds_no_other_up(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET_1", "none")
    site.add("a")
    site.add("b", secrets=("env:HOOK_SECRET_2",))
    site.announce("e1")
    site.work()

    assert (site.courier("a").status, site.courier("a").reason) == (Status.FAILED, "invalid-field")
    assert site.states("b") == ["sent"]
