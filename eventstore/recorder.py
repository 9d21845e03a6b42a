"""The ``eventsourcing`` library's recorder interfaces over a ``Store``.

So its Application, Repository, EventStore, subscriptions and projections run on the log as they are.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID

from eventsourcing import persistence as es
from eventsourcing.persistence import Notification, StoredEvent, Tracking

from ..domain.errors import (
    JobLogError,
    RefusedError,
    StoreBusyError,
    StoreClosedError,
    StoreUnavailableError,
    UnknownOutcomeError,
)
from .append import Append, EventRow
from .mapper import event_id
from .store import SnapshotRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .store import Store
    from .wake import Waker
    from .writer import GroupWriter


@contextmanager
def _as_library() -> Iterator[None]:
    """Raise our errors as the library's."""
    try:
        yield
    except JobLogError as error:
        raise _translated(error) from error


def _translated(error: JobLogError) -> es.PersistenceError:
    if isinstance(error, RefusedError):
        return es.IntegrityError(str(error))
    if isinstance(error, StoreBusyError | StoreUnavailableError | UnknownOutcomeError):
        return es.OperationalError(str(error))
    if isinstance(error, StoreClosedError):
        return es.InterfaceError(str(error))
    return es.PersistenceError(str(error))


class StoreRecorder(es.ProcessRecorder):
    """Application, aggregate, tracking and process recorder in one: the log has one table of events."""

    def __init__(self, store: Store, writer: GroupWriter, waker: Waker) -> None:
        self.store, self.writer, self.waker = store, writer, waker

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        """Append to one or many streams, atomically; refused as a whole if any stream is elsewhere.

        With *tracking* the follower moves in the same transaction, or nothing is written.
        """
        tracking: Tracking | None = kwargs.get("tracking")
        if not stored_events:
            if tracking is not None:
                self.insert_tracking(tracking)
            return None
        appends = _appends(stored_events)
        if tracking is not None:
            appends[0].tracking = (tracking.application_name, tracking.notification_id)
        answers = self.writer.append_atomic(appends)
        if isinstance(answers, JobLogError):
            raise _translated(answers) from answers
        at = {(a.stream_id, row.version): first + i for first, a in answers for i, row in enumerate(a.events)}
        return [at[_uuid(event.originator_id), event.originator_version] for event in stored_events]

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        """The events of one stream."""
        with _as_library():
            rows = self.store.read(_uuid(originator_id), after=gt or 0, upto=lte, newest_first=desc, limit=limit)
        return [StoredEvent(originator_id, *row) for row in rows]

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        """The log from *start* on; without gaps unless filtered by *topics*."""
        after = 0 if start is None else start - 1 if inclusive_of_start else start
        with _as_library():
            found = self.store.log(after, limit, upto=stop, topics=topics)
        return [Notification(e.stream_id, e.version, e.topic, e.state, e.position) for e in found]

    def max_notification_id(self) -> int | None:
        """The last position, or None in an empty log."""
        with _as_library():
            return self.store.head() or None

    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> es.Subscription[Any]:
        """Everything behind *gt*, then what is appended: woken by a hint, with polling as the floor."""
        return LogSubscription(self, gt=gt, topics=topics)

    def insert_tracking(self, tracking: Tracking) -> None:
        """Move a follower forward; the same or an older position is refused."""
        with _as_library():
            moved = self.store.track(tracking.application_name, tracking.notification_id)
        if not moved:
            raise es.IntegrityError(f"{tracking.application_name} is already at {tracking.notification_id} or further")

    def max_tracking_id(self, application_name: str) -> int | None:
        """How far a follower has come."""
        with _as_library():
            return self.store.tracking_position(application_name)


def _uuid(originator_id: UUID | str) -> UUID:
    return originator_id if isinstance(originator_id, UUID) else UUID(originator_id)


def _appends(stored: Sequence[StoredEvent]) -> list[Append]:
    """One append a stream, in the order in which the streams appear."""
    streams: dict[UUID, Append] = {}
    for e in stored:
        stream = _uuid(e.originator_id)
        append = streams.get(stream)
        if append is None:
            made = Append(stream, e.originator_version - 1, [], event_id(e.state))
            append = streams[stream] = made
        append.events.append(EventRow(e.originator_version, e.topic, e.state))
    return list(streams.values())


class SnapshotRecorder(es.AggregateRecorder):
    """Snapshots: the last one of each stream is kept."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def insert_events(self, stored_events: Sequence[StoredEvent], **_: Any) -> Sequence[int] | None:
        """Keep the newest."""
        rows = [(_uuid(e.originator_id), SnapshotRow(e.originator_version, e.topic, e.state), 1) for e in stored_events]
        with _as_library():
            self.store.put_snapshots(rows)
        return None

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        """The kept one, if it lies in the range."""
        del desc, limit
        with _as_library():
            row = self.store.snapshot(_uuid(originator_id))
        if row is None or (gt is not None and row.version <= gt) or (lte is not None and row.version > lte):
            return []
        return [StoredEvent(originator_id, *row)]


class LogSubscription(es.ListenNotifySubscription[StoreRecorder]):
    """The library's pull thread, woken by our own waker instead of a database's LISTEN."""

    _ticket = 0

    def __init__(self, recorder: StoreRecorder, gt: int | None = None, topics: Sequence[str] = ()) -> None:
        super().__init__(recorder=recorder, gt=gt, topics=topics)
        self._ticket = recorder.waker.subscribe(self._has_been_notified.set)
        self._has_been_notified.set()  # for what was appended between the first pull and now
        if self._has_been_stopped:  # by an error of the first pull
            recorder.waker.unsubscribe(self._ticket)

    def stop(self) -> None:
        """Stop, also being woken."""
        self._recorder.waker.unsubscribe(self._ticket)
        super().stop()

    def _loop_on_pull(self) -> None:
        try:
            super()._loop_on_pull()
        finally:
            self._recorder.store.release_thread()


class StoreFactory(es.InfrastructureFactory[StoreRecorder]):
    """Gives the library our recorders; reads nothing from the environment."""

    def __init__(self, env: Any, recorder: StoreRecorder) -> None:
        super().__init__(env)
        self._recorder = recorder

    def aggregate_recorder(self, purpose: str = "events") -> es.AggregateRecorder:
        """Events or snapshots."""
        return SnapshotRecorder(self._recorder.store) if purpose == "snapshots" else self._recorder

    def application_recorder(self) -> es.ApplicationRecorder:
        """The log."""
        return self._recorder

    def tracking_recorder(self, tracking_recorder_class: type[Any] | None = None) -> Any:
        """The log's own tracking table, or a view of the caller's class."""
        return self._recorder if tracking_recorder_class is None else tracking_recorder_class(self._recorder.store)

    def process_recorder(self) -> es.ProcessRecorder:
        """The log."""
        return self._recorder
