"""The ``eventsourcing`` library's recorder interfaces over a ``Store``.

So its Application, Repository, EventStore, subscriptions and projections run on the log as they are.
"""

from __future__ import annotations

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
    from collections.abc import Sequence

    from .store import Store
    from .wake import Waker
    from .writer import GroupWriter


def _as_library(error: JobLogError) -> es.PersistenceError:
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
        """Append to one or many streams, atomically; refused as a whole if any stream is elsewhere."""
        tracking: Tracking | None = kwargs.get("tracking")
        if tracking is not None:
            self.insert_tracking(tracking)
        if not stored_events:
            return None
        answers = self.writer.append_atomic(_appends(stored_events))
        if isinstance(answers, JobLogError):
            raise _as_library(answers) from answers
        return [first + i for first, append in answers for i in range(len(append.events))]

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
        stream = originator_id if isinstance(originator_id, UUID) else UUID(originator_id)
        rows = self.store.read(stream, after=gt or 0, upto=lte, newest_first=desc, limit=limit)
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
        found = self.store.log(after, limit, upto=stop, topics=topics)
        return [Notification(e.stream_id, e.version, e.topic, e.state, e.position) for e in found]

    def max_notification_id(self) -> int | None:
        """The last position, or None in an empty log."""
        return self.store.head() or None

    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> es.Subscription[Any]:
        """Everything behind *gt*, then what is appended: woken by a hint, with polling as the floor."""
        return LogSubscription(self, gt=gt, topics=topics)

    def insert_tracking(self, tracking: Tracking) -> None:
        """Move a follower forward; the same or an older position is refused."""
        if not self.store.track(tracking.application_name, tracking.notification_id):
            raise es.IntegrityError(f"{tracking.application_name} is already at {tracking.notification_id} or further")

    def max_tracking_id(self, application_name: str) -> int | None:
        """How far a follower has come."""
        return self.store.tracking_position(application_name)


def _appends(stored: Sequence[StoredEvent]) -> list[Append]:
    """One append a stream, in the order in which the streams appear."""
    streams: dict[UUID, Append] = {}
    for e in stored:
        stream = e.originator_id if isinstance(e.originator_id, UUID) else UUID(e.originator_id)
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
        rows = [(e.originator_id, SnapshotRow(e.originator_version, e.topic, e.state), 1) for e in stored_events]
        self.store.put_snapshots(rows)  # type: ignore[arg-type]
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
        row = self.store.snapshot(originator_id)  # type: ignore[arg-type]
        if row is None or (gt is not None and row.version <= gt) or (lte is not None and row.version > lte):
            return []
        return [StoredEvent(originator_id, *row)]


class LogSubscription(es.ListenNotifySubscription[StoreRecorder]):
    """The library's pull thread, woken by our own waker instead of a database's LISTEN."""

    def __init__(self, recorder: StoreRecorder, gt: int | None = None, topics: Sequence[str] = ()) -> None:
        self._ticket = recorder.waker.subscribe(lambda: self._has_been_notified.set())  # noqa: PLW0108 - made by super() below
        super().__init__(recorder=recorder, gt=gt, topics=topics)

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
