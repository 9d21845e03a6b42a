"""Renewal in one statement, takeover by the store's clock, what an operator wished honoured (LEA-04, LEA-06…09)."""

from typing import Any

import pytest

from joblog.domain.errors import LeaseLostError
from joblog.domain.lease import Token
from joblog.workers.commands import claiming
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import ADA, BOUND, LEASE, Beside, armed, claim, claimed, ids, once, submit

SECOND = 1_000_000


def ends(log: JobLog, held: Any) -> int:
    lease = log.store.lease(held.job_id)
    assert lease is not None
    return lease.lease_until


def test_a_renewal_moves_the_end_of_every_lease(backend: Backend, log: JobLog) -> None:
    held = [claimed(log) for _ in range(5)]
    backend.clock.move(10)

    assert log.renew(held) == []

    assert {ends(log, one) for one in held} == {log.store.lease_now() + LEASE * SECOND}


def test_many_leases_are_renewed_at_once(log: JobLog) -> None:
    for _ in range(450):
        submit(log)
    held = claim(log, limit=500)

    assert len(held) == 450
    assert log.store.renew([(one.job_id, one.token) for one in held], SECOND) == set(ids(held))
    assert log.store.renew([], SECOND) == set()


def test_a_renewal_is_no_event(log: JobLog) -> None:
    """EVT-02: it would take the version that the worker's own unit needs."""
    held = claimed(log)

    for _ in range(10):
        log.renew([held])

    assert log.store.head() == 2
    assert held.complete_units([("a", 1)]) == 3


def test_a_renewal_never_shortens(log: JobLog) -> None:
    held = claimed(log)
    before = ends(log, held)

    assert log.store.renew([(held.job_id, held.token)], 1) == {held.job_id}

    assert ends(log, held) == before


@pytest.mark.parametrize(("micros", "stands"), [(-1, True), (0, False)])
def test_an_expired_lease_is_not_renewed(backend: Backend, log: JobLog, micros: int, stands: bool) -> None:
    """LEA-06: although nobody else has taken the job."""
    held = claimed(log)
    backend.clock.move(LEASE, micros=micros)

    assert log.renew([held]) == ([] if stands else [held])


@pytest.mark.parametrize("token", [Token(1, 2), Token(2, 1), Token(0, 1)])
def test_a_renewal_under_another_token_moves_nothing(log: JobLog, token: Token) -> None:
    held = claimed(log)
    before = ends(log, held)

    assert log.store.renew([(held.job_id, token)], 9 * LEASE * SECOND) == set()

    assert ends(log, held) == before


def test_a_renewal_tells_which_leases_are_lost(backend: Backend, log: JobLog) -> None:
    """LEA-08: whoever holds the job now is left alone."""
    lost = claimed(log)
    backend.clock.move(LEASE)
    log.expire("reaper")
    [newer] = claim(log, "other")
    kept, gone = claimed(log), claimed(log)
    gone.complete()
    before = ends(log, newer)
    backend.clock.move(1)

    assert log.renew([lost, kept, gone]) == [lost, gone]

    assert ends(log, newer) == before
    assert ends(log, kept) == log.store.lease_now() + LEASE * SECOND


def test_a_unit_longer_than_the_lease_keeps_it_by_renewals(backend: Backend, log: JobLog) -> None:
    """LEA-04."""
    held = claimed(log)
    for _ in range(15):
        backend.clock.move(LEASE / 3)
        assert log.renew([held]) == []
        assert log.expire("reaper") == []

    assert held.complete_units([("a", 1)]) == 3


def test_the_holder_counts_from_before_it_asked(backend: Backend, log: JobLog) -> None:
    """LEA-13: a renewal that hangs extends nothing."""
    held = claimed(log)
    stop_after = log.leases.stop_after.total_seconds()
    backend.clock.move(1)
    with armed("renew.after", lambda: backend.clock.move(stop_after)):
        assert log.renew([held]) == []

    assert held.is_overdue
    assert log.renew([held]) == []
    assert not held.is_overdue


def test_nothing_is_expired_before_its_end(backend: Backend, log: JobLog) -> None:
    claimed(log)
    backend.clock.move(LEASE, micros=-1)

    assert log.store.expired(10) == []
    assert log.expire("reaper") == []


def test_expired_leases_are_taken_back(backend: Backend, log: JobLog) -> None:
    """LEA-09."""
    held = [claimed(log) for _ in range(3)]
    backend.clock.move(LEASE)

    taken = log.expire("reaper")

    assert {(one.job_id, one.worker, one.cause, one.status) for one in taken} == {
        (one.job_id, "w", "expired", "queued") for one in held
    }
    row = log.row(held[0].job_id)
    assert (row["crashes"], row["reclaims"], row["worker"], row["ready"]) == (1, 1, "", 1)
    assert log.expire("reaper") == []
    assert len(claim(log)) == 3


def test_the_first_to_expire_is_the_first_to_be_taken_back(backend: Backend, log: JobLog) -> None:
    held = []
    for _ in range(3):
        held.append(claimed(log))
        backend.clock.move(1)
    backend.clock.move(LEASE)

    assert [lease.job_id for lease in log.store.expired(2)] == ids(held[:2])
    assert [one.job_id for one in log.expire("reaper", limit=1)] == ids(held[:1])


def test_of_two_who_take_a_job_back_one_does(backend: Backend) -> None:
    one, other = backend.open(), backend.open()
    held = claimed(one)
    backend.clock.move(LEASE)
    beside = Beside(lambda: other.expire("other"), within=BOUND)

    with armed("expire.before", beside):
        mine = one.expire("one")

    assert len(mine) + len(beside.result()) == 1
    assert one.row(held.job_id)["reclaims"] == 1
    assert one.store.head() == 3


def test_a_lease_renewed_at_the_last_moment_is_not_taken_over(backend: Backend, log: JobLog) -> None:
    """The candidate was expired when it was looked up; the row under its lock decides."""
    held = claimed(log)
    backend.clock.move(LEASE)
    [lease] = log.store.expired(1)
    backend.clock.move(-1)
    log.renew([held])
    backend.clock.move(1)

    answer = claiming.reclaim(log, lease, "reaper", cause="expired", proven=False, counts=True)

    assert isinstance(answer, Exception)
    assert log.row(held.job_id)["status"] == "running"
    assert held.complete_units([("a", 1)]) == 3


def test_a_reboot_ends_leases_where_the_clock_does_not_outlive_it(backend: Backend, log: JobLog) -> None:
    """Its holder can't be alive.  The clock of a server goes on: there the lease is waited for."""
    held = claimed(log)
    append = held.completing_units([("a", 1)], {})
    backend.clock.reboot()
    is_embedded = log.store.boot_id() != ""

    assert (log.store.outlook(["default"], "w").next_end == 0) is is_embedded
    taken = log.expire("reaper")

    assert [(one.job_id, one.cause) for one in taken] == ([(held.job_id, "reboot")] if is_embedded else [])
    assert log.row(held.job_id)["crashes"] == 0
    assert log.renew([held]) == ([held] if is_embedded else [])
    append.close()


def test_a_lease_of_another_boot_is_not_renewed_nor_fenced_in(backend: Backend, log: JobLog) -> None:
    held = claimed(log)
    assert held.job.lease is not None
    backend.clock.reboot()

    if log.store.boot_id():
        assert log.renew([held]) == [held]
        with pytest.raises(LeaseLostError):
            held.complete_units([("a", 1)])
    else:
        assert log.renew([held]) == []


@pytest.mark.parametrize(("action", "status"), [("pause", "paused"), ("cancel", "cancelled")])
def test_a_takeover_honours_what_an_operator_wished(backend: Backend, log: JobLog, action: str, status: str) -> None:
    held = claimed(log)
    log.command(action, held.job_id, ADA)
    backend.clock.move(LEASE)

    [taken] = log.expire("reaper")

    assert taken.status == log.row(held.job_id)["status"] == status
    assert claim(log) == []


def test_the_third_crash_at_a_checkpoint_parks_the_job(backend: Backend, log: JobLog) -> None:
    submit(log)
    statuses = []
    for _ in range(3):
        claim(log)
        backend.clock.move(LEASE)
        statuses += [one.status for one in log.expire("reaper")]

    assert statuses == ["queued", "queued", "paused"]


def test_a_takeover_keeps_the_checkpoint(backend: Backend, log: JobLog) -> None:
    held = claimed(log)
    held.complete_units([("a", 1)], cursor={"row": 7})
    backend.clock.move(LEASE)
    log.expire("reaper")

    [newer] = claim(log)

    assert (newer.job.done, newer.job.sequence, newer.job.cursor) == (1, 1, {"row": 7})


def test_leases_of_others_with_a_presence_are_listed(log: JobLog) -> None:
    submit(log)
    submit(log, queue="q")
    [mine] = claim(log, "ada", presence="file-1")
    claim(log, "bob", queues=["q"])

    assert [lease.job_id for lease in log.store.held_by_others("file-2", 10)] == [mine.job_id]
    assert log.store.held_by_others("file-1", 10) == []
    lease = log.store.lease(mine.job_id)
    assert lease is not None
    assert lease.presence == "file-1"


def test_a_renewal_that_fails_changes_nothing(log: JobLog) -> None:
    held = claimed(log)
    before = ends(log, held)

    with armed("renew.before", once(RuntimeError("killed"))), pytest.raises(RuntimeError):
        log.renew([held])

    assert ends(log, held) == before
    assert log.renew([held]) == []
