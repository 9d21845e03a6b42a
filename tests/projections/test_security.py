"""The security stream: one row for each kind of problem, who and from where tallied up to a bound (SSR-08..11)."""

from typing import Any, ClassVar
from uuid import uuid4

import pytest
from eventsourcing.domain import AggregateEvent

from joblog.domain.security import EgressRefused
from joblog.eventstore.append import Append, EventRow
from joblog.projections import queries, security
from joblog.projections.view import Happened
from joblog.workers.commands.log import JobLog
from tests.conformance.builders import ADA, stored
from tests.projections.viewing import runner


class Refused(AggregateEvent):
    """As the outbound guard tells it."""

    TOPIC: ClassVar[str] = "joblog.security.egress-refused"


def refused(**fields: Any) -> Refused:
    event = object.__new__(Refused)
    vars(event).update(originator_id=uuid4(), originator_version=1, **fields)
    return event


def rows(*events: Refused) -> list[dict[str, Any]]:
    """What the view holds after these events, one a second."""
    states: dict[Any, Any] = {}
    made: dict[Any, Any] = {}
    for number, event in enumerate(events, 1):
        key = security.key(event)
        states[key], changes = security.fold(states.get(key), Happened(number, number * 1_000_000, event))
        made |= {where: row for _, where, row in changes}
    return list(made.values())


def test_a_thousand_refusals_of_a_kind_are_one_row() -> None:
    events = [refused(category="egress", action="connect", actor=f"u{n % 3}", detail=f"host {n}") for n in range(1000)]

    [row] = rows(*events)

    assert (row["count"], row["first_at"], row["last_at"]) == (1000, 1_000_000, 1_000_000_000)
    assert (row["category"], row["action"], row["severity"], row["detail"]) == (
        "egress",
        "connect",
        "warning",
        "host 999",
    )
    assert row["actors"] == '{"u0":334,"u1":333,"u2":333}'


@pytest.mark.parametrize("field", ["category", "action", "source", "severity", "refusal"])
def test_another_kind_is_another_row(field: str) -> None:
    assert len(rows(refused(), refused(**{field: "other"}))) == 2


def test_names_and_addresses_are_tallied_up_to_a_bound() -> None:
    events = [refused(actor=f"u{n}", address=f"192.0.2.{n}") for n in range(60)]

    [row] = rows(*events, events[0])

    assert (row["actors"].count(":"), row["more_actors"]) == (50, 10)
    assert (row["addresses"].count(":"), row["more_addresses"]) == (50, 10)
    assert '"u0":2' in row["actors"]


def test_an_embedded_ipv4_is_an_ipv4() -> None:
    [row] = rows(refused(address="::ffff:203.0.113.9"))
    assert (row["ipv4"], row["ipv6"]) == ("203.0.113.9", "")
    [row] = rows(refused(address="2001:db8::1"))
    assert (row["ipv4"], row["ipv6"]) == ("", "2001:db8::1")


def test_a_detail_is_one_bounded_line() -> None:
    [row] = rows(refused(detail="a\nb\x1b[31m\u2028c" + "x" * 1_000_000))
    assert row["detail"].startswith("a b [31m c")
    assert len(row["detail"]) == 500


def test_what_the_guard_tells(log: JobLog) -> None:
    for missed in (0, 7):
        said = {"refusal": "address", "actor": "job 7", "detail": "10.0.0.1 is inside", "missed": missed}
        event = EgressRefused.made(uuid4(), log.now(), **said)  # type: ignore[arg-type]
        stream, version, topic, state = log.mapper.encode(event, uuid4().hex)
        stored(log.writer.append(Append(stream, 0, [EventRow(version, topic, state)], "")))
    runner(log).run()

    [row] = queries.security(log.store)

    assert (row["category"], row["refusal"], row["source"], row["count"]) == ("ssrf", "address", "guard", 9)
    assert (row["actors"], row["detail"]) == ({"job 7": 2}, "10.0.0.1 is inside")


def test_what_the_log_itself_tells(log: JobLog) -> None:
    log.raise_epoch(ADA, reason="restored")
    log.raise_epoch(ADA, reason="again")
    runner(log).run()

    [row] = queries.security(log.store)

    assert (row["category"], row["action"], row["count"], row["actors"]) == ("log", "epoch-raised", 2, {"ada": 2})
    assert queries.security(log.store, below=row["last_position"]) == []
