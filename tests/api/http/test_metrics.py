"""Metrics: what stands where by the counters, with few labels whatever is in the log."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from joblog.api.http import metrics
from joblog.domain.job import Actor
from joblog.domain.spec import JobSpec
from joblog.projections.runner import Runner
from joblog.workers.commands import gating
from joblog.workers.commands.log import JobLog
from tests.api.http.client import Client


def scraped(client: Client) -> dict[str, float]:
    reply = client.get("/metrics")
    assert reply.status == 200
    lines = [line for line in reply.body.decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_jobs_are_counted_by_state_kind_and_queue(admin: Client, log: JobLog) -> None:
    log.submit_many(JobSpec("import", n, queue="bulk", tenant=f"t{n}") for n in range(3))
    log.submit(JobSpec("mail"))
    log.claim("w", queues=["bulk"])
    Runner(log.store, log.mapper, "me").run()
    log.submit(JobSpec("mail"))

    found = scraped(admin)

    assert found['joblog_jobs{state="queued",kind="import",queue="bulk"}'] == 2
    assert found['joblog_jobs{state="running",kind="import",queue="bulk"}'] == 1
    assert found['joblog_jobs{state="queued",kind="mail",queue="default"}'] == 1
    assert found['joblog_projection_lag_events{projection="counters"}'] == 1
    assert found['joblog_projection_lag_seconds{projection="counters"}'] >= 0
    assert found['joblog_projection_stopped{projection="counters"}'] == 0


def test_however_many_kinds_there_are_few_are_labels(
    admin: Client, log: JobLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "_SERIES", 2)
    log.submit_many(JobSpec(f"kind-{n % 20}" if n > 5 else "often", n) for n in range(40))
    Runner(log.store, log.mapper, "me").run()

    jobs = {name: value for name, value in scraped(admin).items() if name.startswith("joblog_jobs{")}

    assert len(jobs) == 3
    assert sum(jobs.values()) == 40
    assert jobs['joblog_jobs{state="queued",kind="other",queue="other"}'] > 20


def test_no_tenant_credential_owner_or_id_is_a_label(admin: Client, log: JobLog) -> None:
    job_id = log.submit(JobSpec("import", tenant="acme-corp", owner="mira-x", key="some-key", tags=("tag-y",))).job_id
    gating.close(log, "crm/env:CRM_TOKEN@acme-corp", Actor("ada"), log.now() + timedelta(hours=1))
    Runner(log.store, log.mapper, "me").run()
    text = admin.get("/metrics").body.decode()

    assert 'joblog_gate_closed_seconds{gate="crm"} 3' in text
    for secret in ("acme-corp", "mira-x", "some-key", "tag-y", "CRM_TOKEN", str(job_id)):
        assert secret not in text


def test_every_series_has_its_help_and_type_and_stands_with_its_own(admin: Client, log: JobLog) -> None:
    log.submit(JobSpec("import"))
    lines = admin.get("/metrics").body.decode().splitlines()
    seen: list[str] = []
    for line in lines:
        name = line.split()[2] if line.startswith("#") else re.split(r"[{ ]", line, maxsplit=1)[0]
        name = re.sub(r"_(bucket|sum|count)$", "", name) if "duration" in name else name
        if not seen or seen[-1] != name:
            seen.append(name)

    assert len(seen) == len(set(seen))
