"""Between events and stored bytes: orjson, with the library's upcasting and topics."""

from __future__ import annotations

from datetime import datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import orjson
from eventsourcing.persistence import Mapper, MapperDeserialisationError, StoredEvent, Transcoder

from ..domain import events, gate, log_events, queue, recovery, security, withheld
from ..domain.errors import UnknownEventError
from ..domain.snapshot import JobSnapshot
from .append import EventRow

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from ..domain.ports import Ids

_ALL: Final[tuple[type[Any], ...]] = (
    *events.ALL,
    *queue.ALL,
    *gate.ALL,
    *log_events.ALL,
    *recovery.ALL,
    *security.ALL,
    JobSnapshot,
)
_CLASSES: Final[dict[str, type[Any]]] = {cls.TOPIC: cls for cls in _ALL}
#: A row from its values: a named tuple's own constructors go through Python.
_row: Final[Callable[[tuple[int, str, bytes]], EventRow]] = partial(tuple.__new__, EventRow)
#: Topic and class version, looked up once: the library's metaclass makes each access to a class slow.
_STORED_AS: Final = {cls: (cls.TOPIC, getattr(cls, "class_version", 1)) for cls in _ALL}


@cache
def _form(cls: Hashable) -> tuple[tuple[str, ...], int]:
    """The fields of a class of events that are instants, and the version of the class."""
    return tuple(getattr(cls, "INSTANTS", ())), getattr(cls, "class_version", 1)


def known_topics() -> frozenset[str]:
    """The topics that this code can fold."""
    return frozenset(_CLASSES)


def classes(prefix: str) -> list[type[Any]]:
    """The classes of events whose topics begin with *prefix*."""
    return [cls for topic, cls in _CLASSES.items() if topic.startswith(prefix)]


class OrjsonTranscoder(Transcoder):
    """The library's transcoder interface on orjson; instants are restored by the mapper, by field name."""

    def encode(self, obj: Any) -> bytes:
        """Plain values to JSON bytes."""
        return orjson.dumps(obj)

    def decode(self, data: bytes) -> Any:
        """JSON bytes to plain values."""
        return orjson.loads(data)


class OrjsonMapper(Mapper[UUID]):
    """Domain events to stored events and back.

    Payloads stay opaque: no tagged dictionaries, so whatever a user stores comes back as it was.
    """

    def __init__(self, transcoder: Transcoder, ids: Ids | None = None) -> None:
        super().__init__(transcoder)
        self._ids = ids

    def encode(self, event: Any, event_id: str) -> tuple[UUID, int, str, bytes]:
        """Stream, version, topic and bytes of *event* under *event_id*.

        Raises:
            SecretInInputError: a secret value that this process knows stands in it.
        """
        return event.originator_id, *self.row(event, event_id)

    def row(self, event: Any, event_id: str) -> EventRow:
        """The same, without the stream."""
        fields = event.__dict__.copy()
        del fields["originator_id"]
        version = fields.pop("originator_version")
        fields["event_id"] = event_id
        topic, class_version = _STORED_AS[type(event)]
        if class_version > 1:
            fields["class_version"] = class_version
        return _row((version, topic, withheld.refuse(orjson.dumps(fields), topic)))

    def to_stored_event(self, domain_event: Any) -> StoredEvent:
        """As the library wants it; an event that has no id yet gets one, by which a lost answer is found again."""
        known = vars(domain_event).get("event_id", "")
        return StoredEvent(*self.encode(domain_event, known or (self._ids.next() if self._ids else "")))

    def to_domain_event(self, stored_event: StoredEvent) -> Any:
        """The event again, lifted to today's class version."""
        return self.decode(
            stored_event.originator_id, stored_event.originator_version, stored_event.topic, stored_event.state
        )

    def decode(self, stream_id: Any, version: int, topic: str, state: bytes) -> Any:
        """As ``to_domain_event``, from a row.

        Raises:
            UnknownEventError: a topic or class version that this code does not know.
            MapperDeserialisationError: bytes that are no event.
        """
        cls = _CLASSES.get(topic)
        if cls is None:
            raise UnknownEventError(stream_id, version, topic)
        instants, want = _form(cls)  # type: ignore[arg-type] # a class is hashable
        try:
            fields = orjson.loads(state)
            fields["timestamp"] = datetime.fromisoformat(fields["timestamp"])
            for name in instants:
                if (value := fields.get(name)) is not None:
                    fields[name] = datetime.fromisoformat(value)
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            message = f"stream {stream_id}, version {version}, topic {topic!r}: {error}"
            raise MapperDeserialisationError(message) from error
        have = fields.pop("class_version", 1)
        if have > want:
            raise UnknownEventError(stream_id, version, f"{topic} v{have}")
        while have < want:
            getattr(cls, f"upcast_v{have}_v{have + 1}")(fields)
            have += 1
        fields["originator_id"], fields["originator_version"] = stream_id, version
        event = object.__new__(cls)
        object.__setattr__(event, "__dict__", fields)  # they are its own: no copy
        return event

    def decode_all(self, stream_id: UUID, rows: Iterable[tuple[int, str, bytes]]) -> list[Any]:
        """The events of one stream from its rows (version, topic, state)."""
        return [self.decode(stream_id, *row) for row in rows]


def event_id(state: bytes) -> str:
    """The id inside stored bytes; empty if there is none, also in bytes that are not ours."""
    try:
        found = orjson.loads(state)
    except orjson.JSONDecodeError:
        return ""
    return str(found.get("event_id") or "") if isinstance(found, dict) else ""


def evidence_of(state: bytes) -> Any:
    """The evidence inside the stored bytes of a unit-completed event."""
    return orjson.loads(state).get("evidence")
