"""Every event has its sentence."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from joblog.api import sentences
from joblog.domain import events, gate, log_events, queue

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
ALL = (*events.ALL, *queue.ALL, *gate.ALL, *log_events.ALL)


def an_event(cls: type[Any], **fields: Any) -> Any:
    """The event with a value for every field that it declares."""
    event = object.__new__(cls)
    names = {
        name: kind for base in reversed(cls.__mro__) for name, kind in vars(base).get("__annotations__", {}).items()
    }
    for name, kind in names.items():
        text = str(kind)
        value: Any = NOW if "datetime" in text else 3 if "int" in text else None if "None" in text else f"some-{name}"
        vars(event)[name] = {} if "dict" in text else value
    vars(event).update(originator_id=UUID(int=1), originator_version=1, timestamp=NOW, **fields)
    return event


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: str(cls.__name__))
def test_every_event_has_a_sentence(cls: type[Any]) -> None:
    said = sentences.sentence(an_event(cls), NOW)

    assert said
    assert said != cls.TOPIC
    assert "{" not in said


@pytest.mark.parametrize("cause", ["holder-died", "expired", "reboot", "shutdown", "epoch-raised", "of-later-code"])
def test_a_reclaim_says_who_died_where_and_who_went_on(cause: str) -> None:
    event = an_event(events.LeaseExpired, worker="host-1", unit="rows:7", reclaimed_by="host-2", cause=cause, crashes=2)

    said = sentences.sentence(event, NOW)

    assert "host-1" in said
    assert "in unit rows:7" in said
    assert "host-2 took it back" in said
    assert "crash 2" in said


@pytest.mark.parametrize("cause", ["shutdown", "yield", "wait", "pause", "cancel", "of-later-code"])
def test_a_release_says_why(cause: str) -> None:
    assert sentences.sentence(an_event(events.LeaseReleased, cause=cause), NOW)
