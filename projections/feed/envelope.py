"""Events as CloudEvents 1.0, for consumers that have a library for them.

``data`` is the stored JSON.  ``id`` is the event's own and stays the same wherever it is read again; ``sequence`` (an
extension of CloudEvents) orders as text.  Positions are text too: an integer of CloudEvents has 32 bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

if TYPE_CHECKING:
    from uuid import UUID

    from ...eventstore.store import LoggedEvent

CONTENT_TYPE: Final = "application/cloudevents+json"
BATCH_TYPE: Final = "application/cloudevents-batch+json"
_DIGITS: Final = 19


def cloud_event(event: LoggedEvent, store_id: UUID, epoch: int) -> dict[str, Any]:
    """The envelope around one event, also around one that this code does not know."""
    data = orjson.loads(event.state)
    said = data if isinstance(data, dict) else {}
    made = {
        "specversion": "1.0",
        "id": said.get("event_id") or f"{event.stream_id}/{event.version}",
        "source": f"urn:uuid:{store_id}",
        "type": event.topic,
        "subject": str(event.stream_id),
        "datacontenttype": "application/json",
        "sequence": f"{event.position:0{_DIGITS}}",
        "position": str(event.position),
        "streamversion": str(event.version),
        "epoch": str(epoch),
        "data": data,
    }
    if isinstance(said.get("timestamp"), str):
        made["time"] = said["timestamp"]
    return made
