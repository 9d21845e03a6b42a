"""The worker protocol: claims under fencing tokens, each request safe to repeat, wishes in every answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from joblog.domain.job import Actor
from joblog.domain.lease import LeasePolicy
from joblog.domain.retry import RetryPolicy
from joblog.domain.spec import JobSpec
from joblog.workers.commands.log import JobLog
from tests.api.http.client import Client, Reply, a_token, serving
from tests.patience import until

CLAIMS = "/api/v1/claims"


class Worker:
    """One who works over HTTP."""

    def __init__(self, client: Client, name: str = "w") -> None:
        self.client, self.name = client, name

    def claim(self, **more: Any) -> dict[str, Any]:
        [claim] = self.client.post(CLAIMS, {"worker": self.name, **more}).json["claims"]
        return dict(claim)

    def say(self, claim: dict[str, Any], verb: str, **more: Any) -> Reply:
        return self.client.post(f"{CLAIMS}/{claim['id']}/{verb}", {"token": claim["token"], **more})


@pytest.fixture
def worker(admin: Client) -> Worker:
    return Worker(admin)


def test_a_claim_has_all_that_is_needed_to_go_on(worker: Worker, log: JobLog) -> None:
    job_id = worker.client.submit("import", {"file": "a"})
    claim = worker.claim()
    worker.say(claim, "advance", unit="u:1", evidence={"rows": 3}, cursor={"row": 3}, tallies={"rows": 3})
    worker.say(claim, "release")

    again = worker.claim(kinds=["import"], limit=5)

    assert (again["id"], again["kind"], again["args"], again["attempt"]) == (job_id, "import", {"file": "a"}, 2)
    assert (again["checkpoint"], again["cursor"], again["tallies"]) == (1, {"row": 3}, {"rows": 3})
    assert (claim["token"], again["token"]) == ("1.1", "1.2")
    assert 25 < again["lease_seconds"] <= 30


def test_only_the_wanted_kinds_and_queues_are_claimed(worker: Worker) -> None:
    worker.client.submit("import", queue="bulk")
    mail = worker.client.submit("mail")

    assert worker.claim(kinds=["mail", "other"], queues=["bulk", "default"], limit=9)["id"] == mail
    assert worker.client.post(CLAIMS, {"worker": "w", "kinds": ["mail"]}).json == {"claims": []}


def test_a_worker_may_wait_for_work(worker: Worker, log: JobLog) -> None:
    submitting = threading.Timer(0.2, worker.client.submit)
    submitting.start()
    claim = worker.claim(wait=20)
    submitting.join()

    assert claim["kind"] == "import"


def test_a_late_token_changes_nothing(worker: Worker, log: JobLog) -> None:
    worker.client.submit()
    old = worker.claim()
    worker.say(old, "release")
    new = worker.claim()
    head = log.store.head()

    for verb, more in (
        ("renew", {}),
        ("attempt", {"unit": "u"}),
        ("advance", {"unit": "u"}),
        ("retry-later", {"unit": "u"}),
        ("complete", {}),
        ("fail", {}),
        ("release", {}),
    ):
        assert worker.say(old, verb, **more).code == "lease-lost", verb
    assert log.store.head() == head
    assert worker.say(new, "renew").status == 200


def test_a_repeated_advance_counts_once_and_other_evidence_is_refused(worker: Worker, log: JobLog) -> None:
    job_id = worker.client.submit()
    claim = worker.claim()
    first = worker.say(claim, "advance", unit="u:1", evidence=1)
    again = worker.say(claim, "advance", unit="u:1", evidence=1)
    other = worker.say(claim, "advance", unit="u:1", evidence=2)

    assert (first.json["checkpoint"], again.status, again.json["checkpoint"]) == (1, 200, 1)
    assert other.code == "unit-conflict"
    assert log.row(UUID(job_id))["done"] == 1


def test_a_unit_is_looked_up_by_its_key(worker: Worker) -> None:
    worker.client.submit()
    claim = worker.claim()
    worker.say(claim, "advance", unit="files:a/b c", evidence={"sha": "x"})
    base = f"{CLAIMS}/{claim['id']}/units"

    assert worker.client.good(f"{base}/files:a%2Fb%20c") == {
        "unit": "files:a/b c",
        "done": True,
        "evidence": {"sha": "x"},
    }
    assert worker.client.good(f"{base}/other")["done"] is False


def test_every_answer_carries_the_operators_wish(worker: Worker, log: JobLog) -> None:
    job_id = worker.client.submit()
    claim = worker.claim()
    log.command("pause", UUID(job_id), Actor("ada"))

    assert worker.say(claim, "renew").json["wish"] == "pause"
    assert worker.say(claim, "advance", unit="u:1").json["wish"] == "pause"
    ended = worker.say(claim, "release").json
    assert (ended["status"], ended["lease_seconds"]) == ("paused", 0)


def test_a_unit_is_tried_again_at_its_stored_instant(worker: Worker, log: JobLog) -> None:
    job_id = worker.client.submit()
    claim = worker.claim()
    worker.say(claim, "attempt", unit="u:1")
    answer = worker.say(claim, "retry-later", unit="u:1", seconds=3600, category="provider", text="429")

    assert answer.json["status"] == "waiting"
    row = log.row(UUID(job_id))
    assert 3590 < (row["due_at"] - log.store.now()) / 1_000_000 <= 3600
    assert worker.client.post(CLAIMS, {"worker": "w"}).json["claims"] == []
    why = worker.client.good(f"/api/v1/jobs/{job_id}/why")
    assert why["reasons"][0]["code"] == "retry-scheduled"


@pytest.mark.parametrize(("header", "least", "status"), [("7200", 7190, "waiting"), ("200000", 199_000, "paused")])
def test_what_a_provider_says_is_heeded(worker: Worker, log: JobLog, header: str, least: float, status: str) -> None:
    job_id = worker.client.submit()
    claim = worker.claim()
    worker.say(claim, "attempt", unit="u:1")
    answer = worker.say(claim, "retry-later", unit="u:1", status=429, headers={"Retry-After": header})

    assert answer.json["status"] == status
    assert least < (log.row(UUID(job_id))["due_at"] - log.store.now()) / 1_000_000 <= float(header) + 1


def test_spent_attempts_keep_the_work_for_an_operator(worker: Worker, log: JobLog) -> None:
    job_id = log.submit(JobSpec("import", retry=RetryPolicy(retries=1))).job_id
    for status in ("waiting", "paused"):
        claim = worker.claim(wait=20)
        worker.say(claim, "attempt", unit="u:1")
        assert worker.say(claim, "retry-later", unit="u:1", seconds=0, text="503").json["status"] == status

    assert (log.row(job_id)["reason"], log.row(job_id)["reason_text"]) == ("exhausted-provider", "503")


def test_a_worker_that_keeps_its_lease_keeps_its_job_and_one_that_dies_loses_it(database_url: str) -> None:
    leases = LeasePolicy(lease=timedelta(seconds=3), heartbeat=timedelta(seconds=1))
    with JobLog.open(database_url, leases=leases) as log, serving(log) as server:
        client = Client(server.port, a_token(log, "admin"))
        job_id = client.submit()
        kept = Worker(client, "kept").claim()
        tick = threading.Event()
        for _ in range(8):
            tick.wait(0.4)
            assert Worker(client).say(kept, "renew").status == 200
            assert client.post(CLAIMS, {"worker": "rival"}).json["claims"] == []
        rival: list[dict[str, Any]] = []

        def taken() -> bool:
            rival.extend(client.post(CLAIMS, {"worker": "rival", "wait": 1}).json["claims"])
            return bool(rival)

        until(taken, 30)
        assert (rival[0]["id"], rival[0]["token"]) == (job_id, "1.2")
        assert Worker(client).say(kept, "advance", unit="u").code == "lease-lost"


def test_complete_and_fail_end_the_job(worker: Worker, log: JobLog) -> None:
    good, bad = worker.client.submit("good"), worker.client.submit("bad")
    first, second = worker.claim(kinds=["good"]), worker.claim(kinds=["bad"])

    assert worker.say(first, "complete", result={"rows": 3}).json["status"] == "completed"
    assert worker.say(second, "fail", reason="bad-input", text="row 3").json["status"] == "failed"
    assert log.job(UUID(good)).result == {"rows": 3}
    assert (log.row(UUID(bad))["reason"], log.row(UUID(bad))["reason_text"]) == ("bad-input", "row 3")


def test_a_worker_outlives_a_restart_of_the_service(log: JobLog) -> None:
    token = a_token(log, "admin")
    with serving(log) as server:
        client = Client(server.port, token)
        client.submit()
        claim = Worker(client).claim()
    with serving(log) as server:
        worker = Worker(Client(server.port, token))
        assert worker.say(claim, "advance", unit="u:1").json["checkpoint"] == 1
        assert worker.say(claim, "complete").json["status"] == "completed"


@pytest.mark.parametrize("token", ["", "1", "1.", "1.1.1", "x.1", "1." + "9" * 19, "-1.1"])
def test_what_is_no_token_is_refused(on_file: Client, token: str) -> None:
    on_file.submit()
    claim = Worker(on_file).claim()

    assert Worker(on_file).say(claim | {"token": token}, "renew").code == "invalid-field"


@pytest.fixture(autouse=True)
def _bounded() -> Iterator[None]:
    """Nothing of a test is left behind."""
    yield
    assert not [one for one in threading.enumerate() if isinstance(one, threading.Timer)]
