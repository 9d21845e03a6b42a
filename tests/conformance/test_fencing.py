"""Only the newest grant may append, and only before its lease has ended by the store's clock (S6, S7, LEA-06, LEA-11)."""

from typing import Any

import pytest

from joblog.domain.errors import JobLogError, LeaseHeldError, LeaseLostError
from joblog.domain.lease import Token
from joblog.eventstore.append import Append, Fence, Takeover
from joblog.workers.commands.held import Held
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import LEASE, an_append, claim, claimed, refused, stored, submit, unit_append


def test_the_holder_may_append(log: JobLog) -> None:
    held = claimed(log)

    assert stored(log.writer.append(unit_append(log, held))) == 3


@pytest.mark.parametrize("token", [Token(1, 2), Token(1, 0), Token(2, 1), Token(0, 1)])
def test_any_other_token_is_refused(log: JobLog, token: Token) -> None:
    held = claimed(log)

    error = refused(log.writer.append(unit_append(log, held, fence=Fence(token))))

    assert isinstance(error, LeaseLostError)
    assert log.store.count_units(held.job_id) == 0


@pytest.mark.parametrize(("micros", "is_live"), [(-1, True), (0, False), (1, False)])
def test_a_lease_ends_at_its_instant(backend: Backend, log: JobLog, micros: int, is_live: bool) -> None:
    """Also with nobody else about: an expired holder fails closed."""
    held = claimed(log)
    append = unit_append(log, held)
    backend.clock.move(LEASE, micros=micros)

    answer = log.writer.append(append)

    assert isinstance(answer, JobLogError) is not is_live
    assert log.store.count_units(held.job_id) == int(is_live)


def test_an_expired_holder_is_told_that_its_lease_is_lost(backend: Backend, log: JobLog) -> None:
    held = claimed(log)
    backend.clock.move(LEASE)

    with pytest.raises(LeaseLostError) as lost:
        held.complete_units([("a", 1)])

    assert lost.value.token == 1


def test_a_late_holder_is_fenced_off_after_a_takeover(backend: Backend, log: JobLog) -> None:
    """LEA-11, LEA-08: what it does, renewing and releasing too, never touches its successor."""
    late = claimed(log)
    append = unit_append(log, late)
    backend.clock.move(LEASE)
    log.expire("reaper")
    [newer] = claim(log, "other")
    lease = log.store.lease(newer.job_id)

    assert isinstance(refused(log.writer.append(append)), LeaseLostError)
    assert log.renew([late]) == [late]
    with pytest.raises(LeaseLostError):
        late.release("yield")
    assert log.store.lease(newer.job_id) == lease
    assert newer.complete_units([("a", 1)]) > 0


def test_tokens_never_go_down_along_the_log(backend: Backend, log: JobLog) -> None:
    job_id = submit(log)
    tokens = []
    for _ in range(3):
        [held] = claim(log)
        tokens.append(held.token)
        backend.clock.move(LEASE)
        log.expire("reaper")

    assert tokens == [Token(1, 1), Token(1, 2), Token(1, 3)]
    assert log.job(job_id).token == 3


@pytest.mark.parametrize("end", ["release", "complete", "fail", "park", "schedule_retry"])
def test_every_end_of_a_lease_is_fenced(backend: Backend, log: JobLog, end: str) -> None:
    held = claimed(log)
    assert held.job.lease is not None
    backend.clock.move(LEASE)

    with pytest.raises(LeaseLostError):
        _ends(held)[end]()

    assert log.row(held.job_id)["status"] == "running"


def _ends(held: Held) -> dict[str, Any]:
    return {
        "release": lambda: held.release("yield"),
        "complete": held.complete,
        "fail": lambda: held.fail(reason="bad", text=""),
        "park": lambda: held.park(reason="quota", text=""),
        "schedule_retry": lambda: held.schedule_retry("a", category="network", text=""),
    }


@pytest.mark.parametrize("end", ["release", "complete", "fail", "park", "schedule_retry"])
def test_every_end_gives_the_lease_back(log: JobLog, end: str) -> None:
    """LEA-07."""
    held = claimed(log)

    _ends(held)[end]()

    assert log.store.lease(held.job_id) is None
    assert log.store.renew([(held.job_id, held.token)], 1_000_000) == set()


def test_a_unit_commit_renews_only_a_lease_that_stands(backend: Backend, log: JobLog) -> None:
    held = claimed(log)
    backend.clock.move(LEASE / 2)
    renewing = Fence(held.token, renew=LEASE * 1_000_000)
    stored(log.writer.append(unit_append(log, held, fence=renewing)))
    backend.clock.move(LEASE / 2 + 1)
    stored(log.writer.append(unit_append(log, held, "b", fence=renewing)))
    backend.clock.move(LEASE)

    assert isinstance(refused(log.writer.append(unit_append(log, held, "c", fence=renewing))), LeaseLostError)


def test_a_renewal_by_a_unit_never_shortens_the_lease(log: JobLog) -> None:
    held = claimed(log)
    before = log.store.lease(held.job_id)

    stored(log.writer.append(unit_append(log, held, fence=Fence(held.token, renew=1))))

    assert log.store.lease(held.job_id) == before


def test_other_changes_under_a_lease_are_fenced_too(backend: Backend, log: JobLog) -> None:
    """An append that moves more columns than a unit does takes another way through the store."""
    held = claimed(log)
    before, now = log.job(held.job_id).version, log.now()
    appends = []
    for grant in (2, 1):
        job = log.job(held.job_id)
        job.attempt_unit(held.token, "a", now=now)
        append = log.job_append(job.id, before, job.collect_events(), log.ids.next(), now)
        append.fence = Fence(Token(1, grant), renew=2 * LEASE * 1_000_000)
        appends.append(append)

    assert isinstance(refused(log.writer.append(appends[0])), LeaseLostError)
    stored(log.writer.append(appends[1]))
    backend.clock.move(LEASE)

    assert log.store.renew([(held.job_id, held.token)], 1) == {held.job_id}


@pytest.mark.parametrize(("grant", "lands"), [(1, True), (2, False)])
def test_an_append_that_changes_no_row_is_fenced_too(log: JobLog, grant: int, lands: bool) -> None:
    held = claimed(log)

    answer = log.writer.append(an_append(held.job_id, 2, fence=Fence(Token(1, grant))))

    assert isinstance(answer, LeaseLostError) is not lands


def takeover(log: JobLog, held: Held, *, proven: bool = False) -> Append:
    job, now = log.job(held.job_id), log.now()
    before = job.version
    job.expire(cause="expired", by="reaper", now=now)
    append = log.job_append(job.id, before, job.collect_events(), log.ids.next(), now)
    append.takeover = Takeover(held.token, proven)
    return append


@pytest.mark.parametrize(("micros", "lands"), [(-1, False), (0, True)])
def test_a_lease_is_taken_over_at_its_end_not_before(backend: Backend, log: JobLog, micros: int, lands: bool) -> None:
    """LEA-09: decided by the store's clock under the row's lock."""
    held = claimed(log)
    append = takeover(log, held)
    backend.clock.move(LEASE, micros=micros)

    answer = log.writer.append(append)

    assert isinstance(answer, LeaseHeldError) is not lands
    assert (log.store.lease(held.job_id) is None) is lands


def test_the_job_of_a_holder_proven_dead_is_taken_at_once(log: JobLog) -> None:
    held = claimed(log)

    stored(log.writer.append(takeover(log, held, proven=True)))

    assert log.store.lease(held.job_id) is None
    assert log.row(held.job_id)["status"] == "queued"


def test_a_takeover_of_an_older_grant_is_refused(backend: Backend, log: JobLog) -> None:
    held = claimed(log)
    backend.clock.move(LEASE)
    log.expire("reaper")
    [newer] = claim(log)
    append = takeover(log, newer, proven=True)
    append.takeover = Takeover(held.token, proven=True)

    assert isinstance(refused(log.writer.append(append)), LeaseLostError)
    assert log.store.lease(newer.job_id) is not None


def test_a_second_grant_beside_a_lease_is_refused(backend: Backend, log: JobLog) -> None:
    """A row that says queued while its lease stands can't cause a second holder."""
    held = claimed(log)
    backend.spoil(held.job_id, status="queued", ready=1, due_at=0)

    assert claim(log) == []
    assert log.row(held.job_id)["status"] == "running"
    assert held.complete_units([("a", 1)]) > 0


def test_a_lease_row_holds_no_payload(log: JobLog) -> None:
    """LEA-17."""
    held = claimed(log, args={"secretive": "payload"})

    lease = log.store.lease(held.job_id)

    assert lease is not None
    assert "payload" not in repr(lease)
    assert lease._fields == ("job_id", "token", "worker", "lease_until", "boot_id", "presence")
