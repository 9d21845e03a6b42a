"""An event as its five stored values: the leaf that it is in the tree, and the line that it is in a file."""

from __future__ import annotations

import struct
from base64 import b64decode, b64encode
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterable

_NO_EVENT: Final = sha256(b"no event").digest()
_STREAM: Final = 16
_PLACE: Final = struct.Struct(">BQ16sQ").pack


class Entry(NamedTuple):
    """What a leaf is made of: a row of ``events``, as bytes."""

    position: int
    stream: bytes
    version: int
    topic: bytes
    state: bytes


@lru_cache(maxsize=1024)
def _topic(topic: bytes) -> bytes:
    return len(topic).to_bytes(2) + topic


def leaf_hash(entry: Iterable[Any]) -> bytes:
    """SHA-256(0x00 || u64 position || 16-byte stream || u64 version || u16 len || topic || state), big-endian.

    *entry* is an ``Entry``, or a bare row of the same five values.
    """
    position, stream, version, topic, state = entry
    if len(stream) != _STREAM:
        raise ValueError(f"a stream's id has {_STREAM} bytes, not {len(stream)}")
    return sha256(_PLACE(0, position, stream, version) + _topic(topic) + state).digest()


def leaf_of_row(row: Iterable[Any]) -> bytes:
    """As ``leaf_hash``; a row that no append can have written has a leaf that no event has."""
    try:
        return leaf_hash(row)
    except (TypeError, ValueError, OverflowError, struct.error):
        return _NO_EVENT


def rows_digest(entries: Iterable[Any]) -> tuple[int, str]:
    """How many rows these are, and the SHA-256 over all of them but their bodies."""
    count, digest = 0, sha256()
    for position, stream, version, topic, _ in entries:
        count += 1
        digest.update(_PLACE(0, position, stream, version) + _topic(topic))
    return count, digest.hexdigest()


def to_line(entry: Any) -> bytes:
    """One event as a line of JSON, ``state`` as text where it is text, so that people can read it."""
    position, stream, version, topic, state = entry
    made: dict[str, Any] = {"position": position, "stream": str(UUID(bytes=stream)), "version": version}
    made["topic"] = topic.decode()
    try:
        made["state"] = state.decode()
    except UnicodeDecodeError:
        made["state_base64"] = b64encode(state).decode()
    return orjson.dumps(made, option=orjson.OPT_APPEND_NEWLINE)


def from_line(line: bytes) -> Entry:
    """The event of a line: exactly the stored bytes again.

    Raises:
        ValueError: it is none.
    """
    try:
        made = orjson.loads(line)
        state = made["state"].encode() if "state" in made else b64decode(made["state_base64"], validate=True)
        return Entry(made["position"], UUID(made["stream"]).bytes, made["version"], made["topic"].encode(), state)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no event: {error!r}") from error
