"""Every event that a released vocabulary has stored still loads, and today's code stores the same bytes."""

import dataclasses
from datetime import datetime
from typing import Any

import orjson
import pytest

from joblog.domain import events
from joblog.domain.errors import UnknownEventError
from joblog.domain.events import JobEvent
from joblog.domain.snapshot import JobSnapshot
from joblog.domain.status import Status
from joblog.eventstore.mapper import OrjsonMapper, OrjsonTranscoder, known_topics
from tests.domain.builders import a_job, state
from tests.stored.samples import CLASSES, EVENT_ID, NOW, STATE, STREAM, encoded, label, sample, stored

MAPPER = OrjsonMapper(OrjsonTranscoder())
STORED = stored()


def loaded(name: str) -> Any:
    return MAPPER.decode(STREAM, 3, name.rpartition(" v")[0], STORED[name])


def test_every_class_of_the_vocabulary_has_stored_bytes() -> None:
    """If this fails for a new class: ``python -m tests.stored.samples``."""
    assert {label(cls) for cls in CLASSES} <= STORED.keys()
    assert {cls.TOPIC for cls in CLASSES} == known_topics()


def test_no_topic_that_was_ever_stored_is_unknown() -> None:
    assert {name.rpartition(" v")[0] for name in STORED} <= known_topics()


@pytest.mark.parametrize("name", STORED)
def test_stored_bytes_still_load(name: str) -> None:
    """Also those of an older class version: lifted by its upcaster to have every field of today."""
    event = loaded(name)

    assert (event.originator_id, event.originator_version, event.timestamp) == (STREAM, 3, NOW)
    for field in dataclasses.fields(event):
        getattr(event, field.name)


@pytest.mark.parametrize("cls", CLASSES, ids=label)
def test_what_is_in_the_bytes_is_in_the_event(cls: type[Any]) -> None:
    """Field by field, with instants as instants."""
    event, said = loaded(label(cls)), orjson.loads(STORED[label(cls)])

    for name, value in vars(event).items():
        if name not in {"originator_id", "originator_version"}:
            assert (value.isoformat() if isinstance(value, datetime) else value) == said[name], name


@pytest.mark.parametrize("cls", CLASSES, ids=label)
def test_todays_code_stores_the_same_bytes(cls: type[Any]) -> None:
    """A field renamed, dropped or written otherwise would be a new class version, with an upcaster."""
    assert encoded(cls) == STORED[label(cls)]


@pytest.mark.parametrize("cls", events.ALL, ids=label)
def test_a_job_event_is_equal_to_itself_after_the_log(cls: type[JobEvent]) -> None:
    before = vars(sample(cls))
    listed = {name: list(value) for name, value in before.items() if name == "tags"}

    assert vars(loaded(label(cls))) == before | listed


@pytest.mark.parametrize("cls", events.ALL, ids=label)
def test_a_stored_event_still_folds(cls: type[JobEvent]) -> None:
    event = loaded(label(cls))
    job = None if cls is events.Submitted else a_job()
    if job is not None:
        vars(job).update(_id=STREAM, _version=2)

    assert event.mutate(job).version == 3


def test_a_stored_snapshot_still_loads_as_the_job_it_was() -> None:
    job = loaded(label(JobSnapshot)).mutate(None)

    assert (job.id, job.version, job.modified_on, job.status) == (STREAM, 3, NOW, Status.RUNNING)
    assert job.to_state() == STATE
    assert state(job).keys() == state(a_job()).keys()


def test_a_snapshot_of_before_an_attribute_existed_starts_it_as_in_a_new_job() -> None:
    said = orjson.loads(STORED[label(JobSnapshot)])
    del said["state"]["tries"], said["state"]["finished_on"]
    job = MAPPER.decode(STREAM, 3, JobSnapshot.TOPIC, orjson.dumps(said)).mutate(None)

    assert (job.tries, job.finished_on, job.cursor) == ({}, None, {"row": 1000})


def test_the_id_given_at_the_append_is_in_the_bytes() -> None:
    assert all(orjson.loads(line)["event_id"] == EVENT_ID for line in STORED.values())


def test_newer_events_are_refused_and_not_guessed() -> None:
    """S18, EVT-06."""
    with pytest.raises(UnknownEventError, match=r"joblog\.job\.reopened"):
        MAPPER.decode(STREAM, 3, "joblog.job.reopened", b"{}")
    newer = orjson.dumps({"timestamp": NOW, "class_version": 2, "event_id": "x"})
    with pytest.raises(UnknownEventError, match="completed v2"):
        MAPPER.decode(STREAM, 3, "joblog.job.completed", newer)
