"""The library's Application on our store: history, upcasting, and saves that fail without leaving a hole (P1)."""

from typing import Any
from uuid import UUID

import orjson
import pytest
from eventsourcing.application import AggregateNotFoundError
from eventsourcing.domain import AggregateEvent
from eventsourcing.persistence import IntegrityError, OperationalError
from eventsourcing.projection import ApplicationSubscription

from joblog.domain.errors import UnknownEventError
from joblog.domain.identity import queue_stream
from joblog.domain.job import fold
from joblog.domain.queue import Queue
from joblog.eventstore import mapper
from joblog.eventstore.append import Append, EventRow
from joblog.workers.commands.log import JobLog
from tests.conformance.backends import Backend
from tests.conformance.builders import ADA, Side, armed, assert_whole, claimed, once, stored, whole_log
from tests.domain.builders import state


def a_queue(log: JobLog, name: str = "q", *, limits: int = 0) -> Queue:
    queue = Queue.open(name, ADA, now=log.now())
    for slots in range(limits):
        queue.limit(slots, ADA, now=log.now())
    return queue


def again(log: JobLog, name: str = "q", **query: Any) -> Queue:
    queue: Queue = log.application.repository.get(queue_stream(name), **query)
    return queue


def test_an_aggregate_comes_back_as_it_was_saved(log: JobLog) -> None:
    queue = a_queue(log, limits=3)

    recordings = log.application.save(queue)

    assert [recording.notification.id for recording in recordings] == [1, 2, 3, 4]
    assert vars(again(log)) == vars(queue)
    assert vars(again(log, projector_func=fold)) == vars(queue)


def test_an_aggregate_comes_back_as_it_was_at_a_version(log: JobLog) -> None:
    log.application.save(a_queue(log, limits=4))

    assert [again(log, version=version).slots for version in range(1, 6)] == [None, 0, 1, 2, 3]


def test_a_job_comes_back_as_it_was_at_a_version(log: JobLog) -> None:
    held = claimed(log)
    for unit in "abc":
        held.complete_units([(unit, unit)], cursor=unit)

    assert [log.application.job(held.job_id, version=v).cursor for v in (2, 4, 6, 8)] == [None, "a", "b", "c"]
    assert state(log.application.job(held.job_id)) == state(log.job(held.job_id))
    assert state(log.application.repository.get(held.job_id)) == state(log.job(held.job_id))


def test_what_is_not_there_is_not_found(log: JobLog) -> None:
    with pytest.raises(AggregateNotFoundError):
        again(log)
    assert queue_stream("q") not in log.application.repository


def test_aggregates_are_saved_together_or_not_at_all(log: JobLog) -> None:
    log.application.save(a_queue(log, "taken"))

    with pytest.raises(IntegrityError):
        log.application.save(a_queue(log, "new"), a_queue(log, "taken"))

    assert log.store.head() == 1
    assert len(log.application.save(a_queue(log, "new"), None, a_queue(log, "newer"))) == 2


def test_of_two_who_save_the_same_version_one_is_refused(backend: Backend) -> None:
    """Also where both say the very same."""
    one, other = backend.open(), backend.open()
    one.application.save(a_queue(one))
    queues = [again(one), again(other)]
    for queue in queues:
        queue.pause(ADA, now=one.now())

    one.application.save(queues[0])
    with pytest.raises(IntegrityError):
        other.application.save(queues[1])

    assert one.store.head() == 2


def test_a_failed_save_leaves_no_hole(log: JobLog) -> None:
    """P1: the object is ahead of its stream from then on, and is refused for ever."""
    log.application.save(a_queue(log))
    late = again(log)
    log.application.save(_limited(log, again(log), 1))
    with pytest.raises(IntegrityError):
        log.application.save(_limited(log, late, 2))

    assert log.application.save(late) == []
    with pytest.raises(IntegrityError):
        log.application.save(_limited(log, late, 3))

    assert_whole(log.store)
    assert again(log).slots == 1
    log.application.save(_limited(log, again(log), 4))
    assert again(log).slots == 4


def _limited(log: JobLog, queue: Queue, slots: int) -> Queue:
    queue.limit(slots, ADA, now=log.now())
    return queue


def test_a_save_that_was_never_sent_leaves_no_hole(backend: Backend, log: JobLog) -> None:
    log.application.save(a_queue(log))
    queue = _limited(log, again(log), 1)

    def lose() -> None:
        raise backend.lost()

    with armed("append.before_commit", lose), pytest.raises(OperationalError):
        log.application.save(queue)
    with pytest.raises(IntegrityError):
        log.application.save(_limited(log, queue, 2))

    assert_whole(log.store)
    assert again(log).version == 1


def test_a_save_whose_answer_is_lost_is_saved_once(backend: Backend, log: JobLog) -> None:
    """P12."""
    queue = a_queue(log, limits=1)

    with armed("append.after_commit", once(backend.lost())):
        recordings = log.application.save(queue)

    assert [recording.notification.id for recording in recordings] == [1, 2]
    assert log.store.head() == 2


class Limited(AggregateEvent):
    """As it might look two releases later."""

    TOPIC = "test.queue.limited"
    class_version = 3

    slots: int
    unit: str
    reason: str

    @staticmethod
    def upcast_v1_v2(fields: dict[str, Any]) -> None:
        fields["slots"] = fields.pop("count")

    @staticmethod
    def upcast_v2_v3(fields: dict[str, Any]) -> None:
        fields.update(unit="jobs", reason="")

    def apply(self, aggregate: Any) -> None:
        aggregate.slots, aggregate.name = self.slots, f"{self.unit}{self.reason}"


@pytest.mark.parametrize(
    ("class_version", "fields", "name"),
    [(None, {"count": 7}, "jobs"), (2, {"slots": 7}, "jobs"), (3, {"slots": 7, "unit": "x", "reason": "y"}, "xy")],
)
def test_events_of_older_classes_are_lifted(
    log: JobLog, monkeypatch: pytest.MonkeyPatch, class_version: int | None, fields: dict[str, Any], name: str
) -> None:
    monkeypatch.setitem(mapper._CLASSES, Limited.TOPIC, Limited)
    log.application.save(a_queue(log))
    said = {"timestamp": log.now(), "event_id": "x", **fields}
    said |= {} if class_version is None else {"class_version": class_version}
    stored(log.writer.append(Append(queue_stream("q"), 1, [EventRow(2, Limited.TOPIC, orjson.dumps(said))], "x")))

    queue = again(log)

    assert (queue.version, queue.slots, queue.name) == (2, 7, name)


@pytest.mark.parametrize("said", [{}, {"class_version": 9}])
def test_an_unknown_event_stops_its_stream_only(
    log: JobLog, monkeypatch: pytest.MonkeyPatch, said: dict[str, Any]
) -> None:
    """S18, EVT-06: kept and served as it is, folded by nobody."""
    topic = Limited.TOPIC if said else "test.queue.of-tomorrow"
    monkeypatch.setitem(mapper._CLASSES, Limited.TOPIC, Limited)
    log.application.save(a_queue(log), a_queue(log, "other", limits=1))
    state_ = orjson.dumps({"timestamp": log.now(), "event_id": "x", **said})
    stored(log.writer.append(Append(queue_stream("q"), 1, [EventRow(2, topic, state_)], "x")))

    with pytest.raises(UnknownEventError, match=topic) as error:
        again(log)

    assert (error.value.job_id, error.value.version) == (queue_stream("q"), 2)
    assert again(log, version=1).version == 1
    assert again(log, "other").slots == 0
    assert whole_log(log.store)[-1].state == state_


def test_the_library_follows_the_log(log: JobLog) -> None:
    log.application.save(a_queue(log, limits=2))

    with ApplicationSubscription(log.application, gt=1) as subscription:
        found = Side(lambda: [next(subscription) for _ in range(2)]).result()

    assert [(event.slots, tracking.notification_id) for event, tracking in found] == [(0, 2), (1, 3)]
    assert {tracking.application_name for _, tracking in found} == {"joblog"}


def test_the_hosts_environment_is_not_read(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("PERSISTENCE_MODULE", "no.such.module"),
        ("COMPRESSOR_TOPIC", "zlib"),
        ("CIPHER_KEY", "no key"),
        ("IS_SNAPSHOTTING_ENABLED", "n"),
        ("AGGREGATE_CACHE_MAXSIZE", "3"),
    ):
        monkeypatch.setenv(name, value)

    log = backend.open()
    log.application.save(a_queue(log))

    assert again(log).name == "q"
    assert orjson.loads(whole_log(log.store)[0].state)["queue"] == "q"


def test_every_saved_event_has_an_id_of_its_own(log: JobLog) -> None:
    log.application.save(a_queue(log, limits=3))

    found = {mapper.event_id(event.state) for event in whole_log(log.store)}

    assert len(found) == 4
    assert "" not in found


def test_an_id_of_another_kind_than_uuid_is_refused(log: JobLog) -> None:
    recorder = log.application._store_recorder

    assert recorder.select_events(str(UUID(int=1))) == []
    with pytest.raises(ValueError, match="badly formed"):
        recorder.select_events("not a uuid")
