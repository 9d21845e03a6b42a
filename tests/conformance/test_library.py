"""The recorder test cases of the ``eventsourcing`` library, on our recorders over each store.

Three of their assumptions contradict the design, so the subclasses adapt them:

* Streams there may begin at version 0, ours are 1..k (S5): ``FromZero`` numbers them one up.
* An aggregate recorder there has no positions: here it is the log, whose ``insert_events`` answers them.
* ``TranscoderTestCase`` wants types restored by tags; here payloads are opaque JSON, so only its cases of plain
  values hold (a tuple is refused by the gate in front, see ``test_texts``).
"""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import pytest
from eventsourcing import persistence as es
from eventsourcing.persistence import Notification, StoredEvent
from eventsourcing.tests import persistence as theirs

from joblog.eventstore.mapper import OrjsonTranscoder
from joblog.eventstore.recorder import StoreRecorder
from tests.conformance.backends import Backend


class FromZero(StoreRecorder):
    """Our recorder for streams that begin at 0."""

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        return super().insert_events([_moved(event, 1) for event in stored_events], **kwargs)

    def select_events(
        self, originator_id: UUID | str, *, gt: int | None = None, lte: int | None = None, **query: Any
    ) -> Sequence[StoredEvent]:
        bounds: dict[str, Any] = {"gt": None if gt is None else gt + 1, "lte": None if lte is None else lte + 1}
        return [_moved(event, -1) for event in super().select_events(originator_id, **bounds, **query)]

    def select_notifications(self, *args: Any, **kwargs: Any) -> Sequence[Notification]:
        return [
            Notification(n.originator_id, n.originator_version - 1, n.topic, n.state, n.id)
            for n in super().select_notifications(*args, **kwargs)
        ]


class WithoutPositions(FromZero):
    """Ours as an aggregate recorder."""

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> None:
        super().insert_events(stored_events, **kwargs)


def _moved(event: StoredEvent, by: int) -> StoredEvent:
    return StoredEvent(event.originator_id, event.originator_version + by, event.topic, event.state)


# unittest's classes take no parameters, so each is run here as plain functions, once for each store.
CASES: dict[str, tuple[type[Any], type[StoreRecorder], dict[str, Any]]] = {
    "aggregate": (theirs.AggregateRecorderTestCase, WithoutPositions, {"INITIAL_VERSION": 0}),
    "application": (theirs.ApplicationRecorderTestCase, FromZero, {"INITIAL_VERSION": 0}),
    "tracking": (theirs.TrackingRecorderTestCase, StoreRecorder, {}),
    "process": (theirs.ProcessRecorderTestCase, StoreRecorder, {}),
    "non-interleaving": (theirs.NonInterleavingNotificationIDsBaseCase, FromZero, {"insert_num": 300}),
}
OF_PLAIN_VALUES = [
    "test_str",
    "test_dict",
    "test_dict_with_len_2_and__data_",
    "test_dict_with_len_2_and__type_",
    "test_list",
]
ZERO_ANYWAY = {("process", "test_performance")}  # which begins its streams at 0, unlike the rest of its class


def _tests() -> list[tuple[str, str]]:
    return [
        (name, test)
        for name, (case, _, _) in CASES.items()
        for test in dir(case)
        if test.startswith(("test", "optional_test"))
    ]


@pytest.mark.parametrize(("name", "test"), _tests(), ids=lambda part: part)
def test_a_case_of_the_library(backend: Backend, name: str, test: str) -> None:
    case, recorder, settings = CASES[name]
    recorder = FromZero if (name, test) in ZERO_ANYWAY else recorder

    def create_recorder(_: Any) -> Any:
        log = backend.open()
        return recorder(log.store, log.writer, log.waker)

    made = type("OnOurStore", (case,), {"create_recorder": create_recorder, **settings})
    getattr(made(test), test)()


@pytest.mark.parametrize("test", OF_PLAIN_VALUES)
def test_a_case_of_the_librarys_transcoder(test: str) -> None:
    ours: Any = type("Ours", (theirs.TranscoderTestCase,), {"construct_transcoder": lambda _: OrjsonTranscoder()})
    made: Any = ours(test)
    made.setUp()

    getattr(made, test)()


def test_a_recorder_raises_the_librarys_errors(backend: Backend) -> None:
    log = backend.open()
    recorder = log.application._store_recorder
    log.close()

    calls: list[Callable[[], Any]] = [
        lambda: recorder.select_events(UUID(int=1)),
        lambda: recorder.select_notifications(None, 1),
        recorder.max_notification_id,
        lambda: recorder.insert_events([StoredEvent(UUID(int=1), 1, "t", b"{}")]),
        lambda: recorder.insert_tracking(es.Tracking("f", 1)),
        lambda: recorder.max_tracking_id("f"),
    ]
    for call in calls:
        with pytest.raises(es.InterfaceError):
            call()


def test_positions_are_given_in_the_order_of_the_events(backend: Backend) -> None:
    recorder = backend.open().application._store_recorder
    one, other = UUID(int=1), UUID(int=2)
    events = [StoredEvent(one, 1, "t", b"1"), StoredEvent(other, 1, "t", b"2"), StoredEvent(one, 2, "t", b"3")]

    positions = recorder.insert_events(events)

    assert positions is not None
    stored = {n.id: n.state for n in recorder.select_notifications(None, 9)}
    assert [stored[position] for position in positions] == [b"1", b"2", b"3"]
