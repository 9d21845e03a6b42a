"""Events as CloudEvents 1.0, for consumers that have a library for them; the same as the service sends.

``id`` is the event's own and stays the same wherever it is read again; ``sequence`` (an extension of CloudEvents) orders as
text.  Numbers are text too: an integer of CloudEvents has 32 bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

from ...eventstore.bodies import archive_of

if TYPE_CHECKING:
    from uuid import UUID

    from ...eventstore.store import LoggedEvent

_DIGITS: Final = 20
_OWN: Final = ("event_id", "timestamp", "class_version")  #: of an event's envelope, not its data


def cloud_event(event: LoggedEvent, store_id: UUID, epoch: int) -> dict[str, Any]:
    """The envelope around one event, also around one that this code does not know.

    One whose body is in an archive that is not at hand has the extension ``archive``, its name, and no data.
    """
    data: Any = None if (archive := archive_of(event.state)) else orjson.loads(event.state)
    own = {name: data.pop(name, None) for name in _OWN} if isinstance(data, dict) else {}
    made = {
        "specversion": "1.0",
        "id": own.get("event_id") or f"{event.stream_id}/{event.version}",
        "source": f"/joblog/{store_id}",
        "type": event.topic,
        "subject": str(event.stream_id),
        "datacontenttype": "application/json",
        "sequence": f"{event.position:0{_DIGITS}}",
        "epoch": str(epoch),
        "version": str(event.version),
        "data": data,
    }
    if (at := own.get("timestamp")) is not None:
        made["time"] = str(at).replace("+00:00", "Z")
    if archive:
        made["archive"] = archive
    return made
