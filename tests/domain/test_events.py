"""The vocabulary: what every event class promises, and what no command may leave out."""

import dataclasses
from datetime import datetime
from typing import Any

import orjson
import pytest
from eventsourcing.domain import OriginatorIDError, OriginatorVersionError

from joblog.domain import events as e
from joblog.domain import gate, log_events, queue
from joblog.domain.identity import LOG_STREAM
from joblog.domain.job import Actor, Job, fold
from joblog.domain.lease import Lease, Token
from joblog.domain.status import Status
from joblog.domain.storable import TEXT_LIMIT
from tests.domain.builders import (
    NOW,
    a_claimed_job,
    a_job,
    claim,
    every_event,
    in_status,
    lives,
    replayed,
    state,
    through_json,
    units,
)
from tests.stored.samples import STREAM, sample

HEAD = {"originator_id", "originator_version", "timestamp", "event_id"}
EVERY_CLASS: tuple[type[Any], ...] = (*e.ALL, *queue.ALL, *gate.ALL, *log_events.ALL)

#: What bounds each field that no type bounds.  A new field needs an entry: an event is for ever, and so is its size.
BOUNDS = {
    **dict.fromkeys(("kind", "tenant", "owner", "queue", "key", "gate"), "storable.name in JobSpec"),
    **dict.fromkeys(("actor", "request_id", "address"), "storable.name in Actor"),
    "args": "ARGS_LIMIT in JobSpec",
    "args_digest": "SHA-256",
    **dict.fromkeys(("digest", "rows"), "SHA-256"),
    "exclusive_key": "two names",
    "tags": "TAGS_LIMIT names",
    "retry": "the fields of RetryPolicy",
    **dict.fromkeys(("parent_id", "child_id"), "UUID"),
    "status": "a Status",
    "text": "storable.text in the command",
    "tallies": "TALLIES_LIMIT in the command",
    "cursor": "CURSOR_LIMIT where it is encoded",
    "evidence": "EVIDENCE_LIMIT where it is encoded",
    "result": "EVIDENCE_LIMIT where it is encoded",
    **dict.fromkeys(("unit", "name"), "storable.name in the durable verbs"),
    **dict.fromkeys(("worker", "reclaimed_by"), "made by joblog"),
    **dict.fromkeys(("cause", "origin", "outcome", "action"), "a word of joblog's"),
    **dict.fromkeys(("category", "reason", "code"), "a published code"),
}


def own_fields(cls: type[Any]) -> set[str]:
    return {field.name for field in dataclasses.fields(cls)} - HEAD - {"originator_topic"}


def required(cls: type[Any]) -> set[str]:
    return {field.name for field in dataclasses.fields(cls) if field.default is dataclasses.MISSING} - {"event_id"}


def kinds(cls: type[Any]) -> dict[str, str]:
    """Field -> its annotation, as written."""
    return {field.name: str(field.type).removesuffix(" | None") for field in dataclasses.fields(cls)}


@pytest.mark.parametrize("cls", EVERY_CLASS)
def test_every_event_has_a_topic_and_a_vocabulary_number(cls: type[Any]) -> None:
    assert "TOPIC" in vars(cls)
    assert isinstance(cls.VOCABULARY, int)
    assert 1 <= cls.VOCABULARY <= e.CODE_VOCABULARY


def test_no_two_events_share_a_topic() -> None:
    topics = [cls.TOPIC for cls in EVERY_CLASS]

    assert len(set(topics)) == len(topics)
    assert all(topic.startswith("joblog.") for topic in topics)


def test_the_table_of_events_has_every_class() -> None:
    defined = {cls for cls in vars(e).values() if isinstance(cls, type) and issubclass(cls, e.JobEvent)}

    assert defined - {e.JobEvent} == set(e.ALL)


@pytest.mark.parametrize("cls", e.ALL)
def test_instants_are_exactly_the_fields_that_hold_one(cls: type[e.JobEvent]) -> None:
    """A field left out would come back from the log as a string."""
    dated = {name for name, kind in kinds(cls).items() if "datetime" in kind}

    assert dated - {"timestamp"} == set(cls.INSTANTS)


def test_instants_of_a_job_are_exactly_those_of_its_attributes() -> None:
    found = {name for job in lives() for name, value in vars(job).items() if isinstance(value, datetime)}

    assert found == set(Job.INSTANTS)


@pytest.mark.parametrize("cls", EVERY_CLASS)
def test_no_event_carries_an_unbounded_field(cls: type[Any]) -> None:
    """EVT-03."""
    unbounded = {name for name in own_fields(cls) if kinds(cls)[name] not in {"int", "bool", "datetime"}}

    assert unbounded <= BOUNDS.keys()


def test_the_stories_meet_every_event() -> None:
    assert {type(event) for event in every_event()} == set(e.ALL)


@pytest.mark.parametrize("event", every_event(), ids=lambda event: type(event).__name__)
def test_a_command_gives_every_field_that_has_no_default_and_no_other(event: e.JobEvent) -> None:
    """Events are made without the dataclass' own checks, for speed; this is the check."""
    given = vars(event).keys()

    assert required(type(event)) <= given
    assert given <= {field.name for field in dataclasses.fields(event)}


@pytest.mark.parametrize("cls", e.ALL)
def test_a_full_instance_gives_every_field(cls: type[e.JobEvent]) -> None:
    assert vars(sample(cls)).keys() == {field.name for field in dataclasses.fields(cls)}


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("cls", [cls for cls in e.ALL if cls is not e.Submitted])
def test_apply_never_raises_whatever_the_job_is(cls: type[e.JobEvent], status: Status) -> None:
    """Replay must not depend on today's rules."""
    job, _ = in_status(status)
    vars(job).update(_id=STREAM, _version=2)

    assert sample(cls).mutate(job) is job
    assert job.version == 3


def test_replay_gives_the_live_job() -> None:
    """EVT-05, S15."""
    for job in lives():
        assert state(replayed(job)) == state(job)


def test_a_replayed_event_shares_nothing_that_changes() -> None:
    """The same events replayed twice give two jobs."""
    for job in lives():
        happened = [through_json(event) for event in job.pending_events]
        one, other = fold(None, happened), fold(None, happened)
        assert one is not None
        assert other is not None
        assert state(one) == state(other) == state(job)


def test_a_gap_or_another_stream_stops_the_replay() -> None:
    """S5."""
    job, token = a_claimed_job()
    job.complete_units(token, units("a"), now=NOW)
    first, _, third, _ = job.pending_events

    with pytest.raises(OriginatorVersionError):
        fold(None, [first, third])
    with pytest.raises(OriginatorVersionError):
        fold(a_job(), [first])
    with pytest.raises(OriginatorIDError):
        fold(a_job(key="other"), job.pending_events[1:])


def test_every_failure_text_is_cut_before_it_becomes_an_event() -> None:
    """EVT-03: 10 kB of what must be escaped."""
    long = "\0" * 10_000
    job, token = a_claimed_job()
    job.skip_unit(token, "a", code="bad", text=long, now=NOW)
    job.schedule_retry(token, "b", category="network", text=long, next_attempt_at=NOW, origin="backoff", now=NOW)
    job.park(claim(job), reason="quota", text=long, now=NOW)
    said = Actor("ada", text=long)
    job.resume(said, now=NOW)
    token = claim(job)
    job.pause(said, now=NOW)
    job.cancel(said, now=NOW)
    failed, token = a_claimed_job()
    failed.fail(token, reason="bad", text=long, now=NOW)

    texts = [vars(event)["text"] for each in (job, failed) for event in each.pending_events if "text" in vars(event)]
    assert len(texts) == 7
    assert all(len(text) <= 6 * TEXT_LIMIT for text in texts)
    assert all(len(orjson.dumps(text)) < 10_000 for text in texts)


def test_raising_the_epoch_says_who_and_why() -> None:
    event = log_events.EpochRaised.made(3, NOW, epoch=2, actor="ada", reason="restored")

    assert (event.originator_id, event.originator_version) == (LOG_STREAM, 3)
    assert vars(event).keys() == required(log_events.EpochRaised)


def test_a_lease_in_a_job_is_the_one_its_event_granted() -> None:
    job, token = a_claimed_job()
    claimed: Any = job.pending_events[-1]

    assert replayed(job).lease == job.lease == Lease("w", token, NOW, claimed.lease_until)
    assert token == Token(claimed.epoch, claimed.token)
