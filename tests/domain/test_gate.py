"""What a gate means for a job: names that tenants can't share, attempts that are not spent, a park behind it."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joblog.domain import identity
from joblog.domain.retry import RetryPolicy
from joblog.domain.spec import JobSpec
from joblog.domain.status import Status
from tests.domain.builders import NOW, a_claimed_job, claim, schedule

DAY = timedelta(days=1)
NAMES = st.text(alphabet="ab%@/s2540-", min_size=1, max_size=8)


@given(NAMES, NAMES, NAMES, NAMES)
def test_each_tenant_and_credential_has_a_gate_of_its_own(t: str, g: str, other_t: str, other_g: str) -> None:
    assert (identity.gate(t, g) == identity.gate(other_t, other_g)) == ((t, g) == (other_t, other_g))


def test_a_name_too_long_for_the_index_is_shortened_and_stays_its_own() -> None:
    names = {identity.gate(tenant, gate) for tenant in ("ä" * 200, "ö" * 200) for gate in ("g" * 200, "h" * 200)}

    assert len(names) == 4
    assert all(len(name.encode()) <= 600 for name in names)


def test_a_job_stands_behind_the_gate_of_its_tenant() -> None:
    assert JobSpec("k", key="k", gate="crm").to_event(NOW)["gate"] == "crm"
    assert JobSpec("k", key="k", gate="crm", tenant="acme").to_event(NOW)["gate"] == "crm@acme"
    assert JobSpec("k", key="k", tenant="acme").to_event(NOW)["gate"] == ""


@pytest.mark.parametrize("failed_before", [0, 1])
def test_rty_12_waiting_for_a_gate_is_no_attempt(failed_before: int) -> None:
    job, token = a_claimed_job(retry=RetryPolicy(retries=2))
    for _ in range(failed_before):
        job.attempt_unit(token, "a", now=NOW)
        schedule(job, token, "a", at=NOW)
        token = claim(job, now=NOW)
    for _ in range(10):
        assert job.attempt_unit(token, "a", now=NOW) == failed_before + 1
        job.await_gate(token, "crm", unit="a", now=NOW)
        assert (job.status, job.reason, job.gate, job.due_at) == (Status.WAITING, "gate", "crm", NOW)
        assert job.unit_attempt == failed_before
        token = claim(job, now=NOW)


def test_a_turn_that_is_kept_is_the_jobs_instant() -> None:
    job, token = a_claimed_job()
    job.await_gate(token, "crm", unit="", now=NOW, due_at=NOW + DAY)

    assert job.due_at == NOW + DAY


def test_a_provider_that_wants_days_parks_the_job_behind_its_gate_with_the_attempt_spent() -> None:
    job, token = a_claimed_job()
    job.attempt_unit(token, "a", now=NOW)
    job.park(token, reason="provider-waits", text="", now=NOW, not_before=NOW + 2 * DAY, unit="a", gate="crm")

    assert (job.status, job.reason, job.gate, job.due_at) == (Status.PAUSED, "provider-waits", "crm", NOW + 2 * DAY)
    assert (job.tries["a"][0], job.failures, job.lease) == (1, 1, None)
