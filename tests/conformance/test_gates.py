"""Gates on every store: turns that are spaced, slots that come back, closures that last (GAT-*, NXT-05)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import count

from joblog.eventstore.gates import LONGEST_CLOSURE, GateAnswer, GateEntry, GateLimits, GateRow, glance
from joblog.eventstore.store import Store
from joblog.workers.commands.held import Held
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import LEASE, claim, claimed, ids, submit

SECOND = 1_000_000
SPACED = GateLimits(spacing=120_000)
_numbers = count()


def entry_of(held: Held, limits: GateLimits | None = None, name: str = "") -> GateEntry:
    return GateEntry("crm", name or f"entry-{next(_numbers)}", held.job_id, held.token, limits)


def row_of(store: Store) -> GateRow:
    [state] = store.gates("crm")
    return state.row


# -- spacing ---------------------------------------------------------------------------------------------------------


def test_gat_03_callers_at_one_instant_get_distinct_turns(log: JobLog, store: Store) -> None:
    held = claimed(log)
    answers = [store.enter_gate(entry_of(held, SPACED)) for _ in range(10)]

    first, *others = answers
    assert first.is_let_go
    assert [answer.why for answer in others] == ["turn"] * 9
    assert [answer.at - first.at for answer in answers] == [n * 120_000 for n in range(10)]


def test_a_turn_is_kept_while_it_waits_and_taken_when_it_comes(backend: Backend, log: JobLog, store: Store) -> None:
    held = claimed(log)
    store.enter_gate(entry_of(held, SPACED))
    mine = entry_of(held, SPACED)
    turn = store.enter_gate(mine)

    assert store.enter_gate(mine).at == turn.at  # asking again costs nobody a turn
    backend.clock.move(micros=119_999)
    assert store.enter_gate(mine).why == "turn"
    backend.clock.move(micros=1)
    assert store.enter_gate(mine).is_let_go
    assert store.enter_gate(entry_of(held, SPACED)).at == turn.at + 120_000


def test_who_goes_late_moves_the_others(backend: Backend, log: JobLog, store: Store) -> None:
    held = claimed(log)
    store.enter_gate(entry_of(held, SPACED))
    late, punctual = entry_of(held, SPACED), entry_of(held, SPACED)
    assert store.enter_gate(late).at + 120_000 == store.enter_gate(punctual).at

    backend.clock.move(micros=230_000)  # 110 ms after its turn, and 10 ms before the other's
    gone = store.enter_gate(late)
    backend.clock.move(micros=10_000)
    answer = store.enter_gate(punctual)

    assert gone.is_let_go
    assert (answer.why, answer.at) == ("turn", gone.at + 120_000)
    backend.clock.move(micros=110_000)
    assert store.enter_gate(punctual).is_let_go


def test_a_turn_outlives_the_lease_it_was_kept_under(backend: Backend, log: JobLog, store: Store) -> None:
    held = claimed(log)
    store.enter_gate(entry_of(held, SPACED))
    turn = store.enter_gate(entry_of(held, SPACED))
    behind = store.enter_gate(entry_of(held, SPACED))
    held.await_gate("crm", unit="", due_at=None)
    log = backend.reopen(log)
    backend.clock.move(micros=turn.at - log.store.now())

    [again] = claim(log)

    assert log.store.enter_gate(entry_of(again, SPACED)).is_let_go
    assert log.store.enter_gate(entry_of(again, SPACED)).at == behind.at


def test_a_turn_missed_by_far_is_kept_anew_behind_the_others(backend: Backend, log: JobLog, store: Store) -> None:
    held = claimed(log)
    store.enter_gate(entry_of(held, SPACED))
    missed = [entry_of(held, SPACED) for _ in range(3)]
    for one in missed:
        store.enter_gate(one)
    backend.clock.move(10)

    answers = [store.enter_gate(one) for one in missed]

    assert [answer.at - answers[0].now for answer in answers] == [0, 120_000, 240_000]


def test_nxt_05_a_clock_that_is_set_back_only_delays(log: JobLog, store: Store, backend: Backend) -> None:
    held = claimed(log)
    store.enter_gate(entry_of(held, SPACED))
    backend.clock.move(-3600)

    assert store.enter_gate(entry_of(held, SPACED)).why == "turn"


# -- slots -----------------------------------------------------------------------------------------------------------

FOUR = GateLimits(slots=4)


def test_gat_01_no_more_than_the_slots_are_under_way(log: JobLog, store: Store) -> None:
    holders = [claimed(log) for _ in range(6)]
    entries = [entry_of(held, FOUR) for held in holders]

    assert [store.enter_gate(one).why for one in entries] == ["", "", "", "", "full", "full"]
    store.leave_gate("crm", entries[0].entry)
    assert [store.enter_gate(one).why for one in entries[4:]] == ["", "full"]


def test_who_asks_again_after_a_lost_answer_holds_one_slot(log: JobLog, store: Store) -> None:
    mine, other = entry_of(claimed(log), GateLimits(slots=1)), entry_of(claimed(log))

    assert [store.enter_gate(mine).why for _ in range(2)] == ["", ""]
    assert store.gates("crm")[0].requests == 1
    store.leave_gate("crm", mine.entry)
    assert store.enter_gate(other).is_let_go


def test_a_full_gate_says_whether_the_job_itself_fills_it(log: JobLog, store: Store) -> None:
    held, other = claimed(log), claimed(log)
    store.enter_gate(entry_of(held, GateLimits(slots=1)))

    assert store.enter_gate(entry_of(held)).own
    assert not store.enter_gate(entry_of(other)).own


def test_gat_05_a_dead_holders_slot_comes_back_with_its_lease(backend: Backend, log: JobLog, store: Store) -> None:
    dead, alive = claimed(log), claimed(log)
    store.enter_gate(entry_of(dead, GateLimits(slots=1)))
    assert store.enter_gate(entry_of(alive)).why == "full"

    backend.clock.move(LEASE - 1)
    log.renew([alive])
    assert store.enter_gate(entry_of(alive)).why == "full"
    backend.clock.move(1)

    assert store.enter_gate(entry_of(alive)).is_let_go


def test_the_slot_of_a_holder_that_is_proven_dead_is_free_at_once(log: JobLog, store: Store) -> None:
    dead, alive = claimed(log), claimed(log)
    store.enter_gate(entry_of(dead, GateLimits(slots=1)))
    lease = store.lease(dead.job_id)
    assert lease is not None
    log.reclaim(lease, "w")

    assert store.enter_gate(entry_of(alive)).is_let_go


def test_the_slot_of_a_job_that_ended_is_free(log: JobLog, store: Store) -> None:
    held, other = claimed(log), claimed(log)
    store.enter_gate(entry_of(held, GateLimits(slots=1)))
    held.complete()

    assert store.enter_gate(entry_of(other)).is_let_go


def test_a_gate_without_limits_counts_and_writes_nothing(log: JobLog, store: Store) -> None:
    held = claimed(log)

    assert store.enter_gate(entry_of(held)).is_let_go
    assert store.gates() == []


def test_what_an_operator_set_stands_above_what_the_code_declares(log: JobLog, store: Store) -> None:
    held = claimed(log)
    store.enter_gate(entry_of(held, FOUR))
    assert row_of(store).slots == 4
    store.enter_gate(entry_of(held, GateLimits(slots=5)))
    assert row_of(store).slots == 5

    store.set_gate("crm", 1, 0)

    assert store.enter_gate(entry_of(held, FOUR)).why == "full"
    assert row_of(store).slots == 1


def test_gat_04_processes_share_slots_and_spacing(database: Backend) -> None:
    logs = [database.open() for _ in range(2)]
    holders = [claimed(logs[n % 2]) for n in range(8)]
    limits = GateLimits(slots=4, spacing=1000)

    def enter(n: int) -> GateAnswer:
        return logs[n % 2].store.enter_gate(entry_of(holders[n], limits))

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(enter, range(8)))

    assert sorted(answer.why for answer in answers) == ["", *["turn"] * 7]
    assert len({answer.at for answer in answers}) == 8
    database.clock.move(1)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(enter, range(8)))
    assert sum(answer.is_let_go for answer in answers) == 1  # the clock stands: one an instant
    assert {answer.why for answer in answers} <= {"", "turn"}


# -- closures --------------------------------------------------------------------------------------------------------


def test_raf_15_what_one_job_was_told_holds_all(log: JobLog, store: Store) -> None:
    held, other = claimed(log), claimed(log)
    until = store.now() + 60 * SECOND

    assert store.close_gate("crm", until, by=str(held.job_id), reason="429 (delta)") == until

    answer = store.enter_gate(entry_of(other, FOUR))
    assert (answer.why, answer.at) == ("closed", until)
    row = row_of(store)
    assert (row.closed_by, row.closed_reason, row.closed_at) == (str(held.job_id), "429 (delta)", store.now())


def test_a_closure_is_never_shortened(log: JobLog, store: Store) -> None:
    assert log is not None
    until = store.now() + 60 * SECOND
    store.close_gate("crm", until, by="a", reason="")

    assert store.close_gate("crm", until - SECOND, by="b", reason="") == until
    assert row_of(store).closed_by == "a"
    assert store.close_gate("crm", until + SECOND, by="c", reason="") == until + SECOND
    assert row_of(store).closed_by == "c"


def test_no_closure_of_a_provider_is_longer_than_seven_days(store: Store) -> None:
    assert store.close_gate("crm", 2**62, by="a", reason="") == store.now() + LONGEST_CLOSURE


def test_a_closure_in_the_past_closes_nothing(store: Store) -> None:
    assert store.close_gate("crm", store.now(), by="a", reason="") == 0
    assert store.gates() == []


def test_gat_08_a_closure_survives_a_restart_and_ends_by_itself(backend: Backend, log: JobLog) -> None:
    log.store.close_gate("crm", log.store.now() + 60 * SECOND, by="a", reason="")
    log = backend.reopen(log)
    held = claimed(log)

    backend.clock.move(59)
    log.renew([held])
    assert log.store.enter_gate(entry_of(held)).why == "closed"
    assert log.store.next_opening() == 1.0
    backend.clock.move(1)
    assert log.store.enter_gate(entry_of(held)).is_let_go
    assert log.store.next_opening() is None


def test_gat_09_one_providers_closure_holds_no_other(log: JobLog, store: Store) -> None:
    store.close_gate("crm", store.now() + SECOND, by="a", reason="")
    held, behind = claimed(log, gate="mail"), submit(log, gate="crm")

    assert store.enter_gate(entry_of(held)._replace(gate="mail")).is_let_go
    assert claim(log) == []
    assert log.row(behind)["status"] == "queued"


# -- the claim -------------------------------------------------------------------------------------------------------


def test_jobs_behind_a_closed_gate_are_not_claimed_and_cost_no_event(backend: Backend, log: JobLog) -> None:
    waiting = [submit(log, gate="crm") for _ in range(5)]
    log.store.close_gate("crm", log.store.now() + 60 * SECOND, by="a", reason="")
    head = log.store.head()

    assert claim(log) == []
    assert log.store.head() == head
    backend.clock.move(60)
    assert sorted(ids(claim(log))) == sorted(waiting)


def test_the_claim_takes_no_more_jobs_than_slots_those_of_strangers_counted(log: JobLog, store: Store) -> None:
    stranger = claimed(log)
    store.enter_gate(entry_of(stranger, FOUR))
    store.enter_gate(entry_of(stranger))  # one job, however many requests
    for _ in range(6):
        submit(log, gate="crm")

    held = claim(log)
    assert len(held) == 3
    for one in held:
        store.enter_gate(entry_of(one))
    assert claim(log) == []  # a job of the gate counts once, with or without a request under way


def test_a_job_that_met_a_closed_gate_waits_behind_it_from_then_on(backend: Backend, log: JobLog) -> None:
    held = claimed(log)
    log.store.close_gate("crm", log.store.now() + 60 * SECOND, by="a", reason="")
    held.await_gate("crm", unit="", due_at=None)
    head = log.store.head()

    assert log.row(held.job_id)["gate"] == "crm"
    assert claim(log) == []
    assert log.store.head() == head
    backend.clock.move(60)
    assert ids(claim(log)) == [held.job_id]


def test_gat_02_one_by_one_the_spacing_counts_from_the_end(backend: Backend, log: JobLog, store: Store) -> None:
    held = claimed(log)
    first, second = (entry_of(held, GateLimits(slots=1, spacing=SECOND)) for _ in range(2))
    assert store.enter_gate(first).is_let_go
    backend.clock.move(5)
    assert store.enter_gate(second).why == "full"
    store.leave_gate("crm", first.entry, spaced=True)

    assert store.enter_gate(second).why == "turn"
    backend.clock.move(0.999)
    assert store.enter_gate(second).why == "turn"
    backend.clock.move(0.001)
    assert store.enter_gate(second).is_let_go


def test_the_spacing_counts_from_when_a_holder_was_found_dead(backend: Backend, log: JobLog, store: Store) -> None:
    """Its request may have left at any time until then."""
    limits = GateLimits(slots=1, spacing=SECOND)
    assert store.enter_gate(entry_of(claimed(log), limits)).is_let_go
    backend.clock.move(2 * LEASE)
    second = entry_of(claimed(log), limits)

    assert store.enter_gate(second).why == "turn"
    backend.clock.move(1)
    assert store.enter_gate(second).is_let_go


def test_a_look_at_many_gates_tells_those_that_are_there(log: JobLog, store: Store) -> None:
    store.close_gate("shut", store.now() + 60_000_000, by="a", reason="")
    store.set_gate("bounded", 1, 0)

    rows = store.gate_rows(["shut", "bounded", "never used"])

    assert rows.keys() == {"shut", "bounded"}
    answers = [glance(rows.get(name, GateRow(name)), None, store.now()) for name in ("shut", "bounded", "never used")]
    assert [answer and answer.why for answer in answers] == ["closed", None, ""]
